"""The command ``semel``. Open ``main.py`` first; each family of subcommands is one file in ``commands``."""
