"""Attacks on a Semel broker of our own while a well-behaved client uses it: ``make campaign-hostile``.

Open ``trial.py`` first: it runs attacks and the client on a broker. ``attacks/`` has one function for each attack, by
subject; ``canary.py`` is the client, which an attack must not affect. Every attack goes to 127.0.0.1 and is bounded in
count, bytes and time. ``AttackContext.scale`` makes it smaller: ``make test`` runs the short form.
"""
