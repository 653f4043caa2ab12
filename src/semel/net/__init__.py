"""Sockets, as a seam: the same protocol classes run over real ones and over those of a simulation.

Open ``network.py`` first.
"""
