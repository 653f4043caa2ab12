"""Virtual machines: time, disk, network and threads as a simulation has them.

Open ``host.py`` first: one machine, and the ways in which it goes down. ``loop.py`` is asyncio with virtual time.
"""
