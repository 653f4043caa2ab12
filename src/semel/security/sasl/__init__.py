"""SASL, both sides: how a client proves who it is, and how a broker checks that. Pure.

Begin with ``server.py``: what a broker's side of a mechanism is. ``scram.py`` is what both sides of SCRAM share, and
``login.py`` is the client's way through SaslHandshake and SaslAuthenticate.
"""
