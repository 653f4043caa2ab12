"""The subcommands of ``semel``, one file for each family: ``semel topic`` is ``topic.py``.

``main.py`` imports only the file of the command that is run.
"""
