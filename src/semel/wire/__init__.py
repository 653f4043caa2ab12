"""Encodes and decodes Kafka's messages, their frames, and record batches. Pure: no sockets, no clock.

A message is declared once for all versions (``schema``, ``messages``) and compiled on first use (``encoding``,
``decoding``, called through ``codec``). Record batches are in ``records``. Open ``schema.py`` first.
"""
