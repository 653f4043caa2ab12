"""Client quotas of a running broker: how much each client has used, and for how long it is muted.

Begin with ``client_quotas.py``; the arithmetic is ``semel/security/quotas.py``. Imported with the first quota.
"""
