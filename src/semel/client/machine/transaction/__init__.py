"""A transactional producer: its states, and its requests to the coordinators.

Open ``states.py`` first: the one table of states. ``transaction.py`` says which call is allowed when,
``coordination.py`` sends one step after the other.
"""
