"""The transaction coordinator (``__transaction_state``) and group coordinator (``__consumer_offsets``), without I/O.

A coordinator is one replicated state machine for each partition of its internal topic. Open ``shard.py`` first: it says
what such a shard is. Then ``decision.py``, which says what its handlers return, and ``transaction/shard.py`` or
``group/shard.py``. The broker runs both (``broker/coordinators``).
"""
