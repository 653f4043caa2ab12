"""Connections to brokers, without sockets: API versions, requests in flight, metadata, coordinators.

Open ``connections.py`` first: it decides which broker to ask, and what happens to a request whose connection is lost.
"""
