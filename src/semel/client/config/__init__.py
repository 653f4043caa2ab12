"""The settings of clients, under Kafka's names: ``common.py`` has those that all clients share."""
