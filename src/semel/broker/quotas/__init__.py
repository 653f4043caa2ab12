"""Client quotas of a running broker: how much each client has used, and for how long it is muted.

Open ``client_quotas.py`` first; the arithmetic is in ``semel/security/quotas.py``. Imported with the first quota.
"""
