"""One module per API: its request and its response, for all versions, named as in Kafka's own definitions.

``semel.wire.apis`` finds a module by the name of its API and imports it with the first request. Open ``produce.py`` for
an example; ``semel.wire.schema`` explains how fields are declared.
"""
