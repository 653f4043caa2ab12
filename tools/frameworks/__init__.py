"""Python stream processing frameworks on Semel, each in an environment of its own and killed while it runs.

``make test-frameworks`` runs ``__main__.py``, which writes ``benchmarks/results/frameworks.json``. ``environments.py``
makes the environments under ``.cache``, ``killed_run.py`` runs a program and returns the verdict, ``programs/`` has the
programs, and ``requirements/`` pins their packages.
"""
