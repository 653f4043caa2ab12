"""Regular expressions that clients send: subscriptions by pattern (KIP-848), and the filter of ListTransactions.

The time to match grows with the length of the text, whatever the pattern, as with RE2, which Kafka uses. Open
``regex.py`` first; ``syntax.py`` parses a pattern, ``automaton.py`` matches it.
"""
