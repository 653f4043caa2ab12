"""Connections to brokers, without sockets: versions, requests under way, metadata, coordinators.

Open ``connections.py`` first: it decides which broker to ask, and what becomes of a request whose connection is lost.
"""
