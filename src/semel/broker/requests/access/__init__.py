"""What each API asks for where an authorizer is configured. Begin with ``table.py``, then ``declarations.py``.

Handlers know nothing of it, but where the decision is theirs: those name their rights in the table as well.
"""
