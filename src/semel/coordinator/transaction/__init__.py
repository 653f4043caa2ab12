"""The transaction coordinator: one partition of ``__transaction_state``.

Open ``shard.py`` first: one method for each request. ``decisions.py`` decides InitProducerId and EndTxn,
``transitions.py`` makes the records, and ``states.py`` has the table of legal moves.
"""
