"""Sockets behind an interface: the same protocol classes run over real sockets and over those of a simulation.

Open ``network.py`` first.
"""
