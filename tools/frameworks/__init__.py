"""Python frameworks for streams on Semel, each in an environment of its own and killed in the middle.

``make test-frameworks`` runs ``__main__.py``, which writes ``benchmarks/results/frameworks.json``. ``environments.py``
makes the environments under ``.cache``, ``killed_run.py`` is the run with its verdict, and ``programs/`` holds what
runs in the environments, pinned by ``requirements/``.
"""
