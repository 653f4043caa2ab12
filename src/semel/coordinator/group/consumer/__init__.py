"""KIP-848: the consumer group protocol that assigns on the broker and moves partitions one member at a time."""
