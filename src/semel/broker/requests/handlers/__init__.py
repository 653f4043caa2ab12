"""The APIs, one file for each, named as in Kafka's protocol.

``routes.py`` above finds the handler by the name of its API; nothing else has to be registered.
"""
