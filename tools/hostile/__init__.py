"""Attacks on a Semel broker of our own, with a well-behaved client beside them: ``make campaign-hostile``.

``attacks/`` holds what strangers do, one function each, by subject; ``canary.py`` is the client that must not notice;
``trial.py`` puts the two and a broker together and is the one to open first. Every attack goes to 127.0.0.1 and is
bounded in count, bytes and time. ``Aim.scale`` makes it smaller: ``make test`` runs the short form.
"""
