"""SASL, the client's side and the broker's side: how a client authenticates and how a broker verifies it. Pure.

Begin with ``server.py``: the interface of a mechanism on the broker's side. ``scram.py`` is the part that both sides of
SCRAM share, and ``login.py`` is the client's sequence of SaslHandshake and SaslAuthenticate requests.
"""
