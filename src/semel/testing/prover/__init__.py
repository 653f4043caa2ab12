"""The proof that an application is exactly-once: it is killed at every commit point, and its output is counted.

``proof.py`` first: a list of scenarios, each run on a fresh broker. ``trial.py`` runs one of them, ``scenarios.py``
says which there are, ``lives.py`` starts, kills and stops the processes of the application. Why it is done like this:
docs/design/prover.md. Users call ``semel.testing.exactly_once.prove`` or ``semel prove``.
"""
