"""The subcommands of ``semel``, one file for each family. ``main.py`` imports only the one that was named."""
