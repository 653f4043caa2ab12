"""The command ``semel``.

Open ``main.py`` first. Each family of subcommands is one file in ``commands``; ``parsing.py`` declares options,
``terminal/output.py`` prints, ``running.py`` runs a broker for ``semel serve``.
"""
