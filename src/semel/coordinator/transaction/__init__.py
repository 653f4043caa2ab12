"""The transaction coordinator: one partition of ``__transaction_state``.

Open ``shard.py`` first: one method for each request. ``decisions.py`` says what InitProducerId and EndTxn lead to,
``transitions.py`` makes the records, and ``states.py`` holds the table of legal moves.
"""
