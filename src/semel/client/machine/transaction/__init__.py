"""A transactional producer: its states and what it asks the coordinators.

Open ``states.py`` first: the one table of states. ``transaction.py`` says what may be called when, ``coordination.py``
sends one step after the other.
"""
