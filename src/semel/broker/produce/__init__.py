"""Produce: parsing, admission to a transaction, append, waiting for the high watermark, answer.

Open ``quick_produce.py`` for the common request and ``requests/handlers/produce.py`` for the general one.
"""
