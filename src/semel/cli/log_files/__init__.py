"""The files of a data directory, for ``semel log``: ``dump.py`` shows one file, ``repair.py`` repairs a directory."""
