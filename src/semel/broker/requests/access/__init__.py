"""The rights that each API needs if an authorizer is configured. Begin with ``table.py``, then ``declarations.py``.

Rights are checked outside of the handlers. The few handlers that check rights themselves declare them in the table,
too.
"""
