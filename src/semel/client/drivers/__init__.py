"""Drivers: a machine in an event loop, with sockets and a clock.

``driver.py`` carries out what a machine asks for and tells it what happened. ``runtime.py`` ties a machine to the loop
it is first used from; ``loop_thread.py`` is the loop of the blocking classes.
"""
