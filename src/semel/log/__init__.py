"""One partition's log on one disk, and all of them together.

Open ``partition_log.py`` first: append, read, and the five offsets. ``directory.py`` holds all logs of a broker.
"""
