"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat.

Open ``groups.py`` first: its docstring names the steps of a heartbeat in order, one file for each.
"""
