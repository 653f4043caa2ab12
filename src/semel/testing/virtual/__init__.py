"""Simulated machines: virtual time, disk, network and worker threads.

Open ``host.py`` first: one machine, and the ways in which it fails. ``loop.py`` is an asyncio loop with virtual time.
"""
