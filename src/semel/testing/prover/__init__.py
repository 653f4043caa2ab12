"""Tests whether an application is exactly-once: it is killed at every commit point, and its output is counted.

Open ``proof.py`` first: it runs a list of scenarios, each on a new broker. ``trial.py`` runs one of them,
``scenarios.py`` makes the list, ``lives.py`` starts, kills and stops the processes of the application.
docs/design/prover.md says why it is done like this. Users call ``semel.testing.exactly_once.prove`` or ``semel prove``.
"""
