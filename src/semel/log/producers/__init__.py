"""Producer state of one partition: sequences, epochs and open transactions (Kafka's ProducerStateManager).

Open ``producer_state.py`` first: it decides whether a batch may be appended. ``known_producer.py`` is one producer,
``producer_snapshot.py`` the format of the ``.snapshot`` file.
"""
