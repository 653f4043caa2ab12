"""The files of a data directory, for ``semel log``: ``dump.py`` shows one, ``repair.py`` does the safe repairs."""
