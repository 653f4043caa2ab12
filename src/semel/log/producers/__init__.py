"""Producer state: sequences, epochs and open transactions of one partition. Open ``producer_state.py`` first."""
