"""Drivers: each runs a machine in an event loop, with sockets and a clock.

``driver.py`` carries out the actions of a machine and passes events to it. ``runtime.py`` starts the driver in the loop
that a client is first used from; ``loop_thread.py`` is the loop of the blocking classes.
"""
