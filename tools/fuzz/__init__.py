"""Fuzzing of every decoder: sound inputs made from a grammar, mutations of them, and what a decoder owes to both.

``run`` carries out the runs of one seed, ``target`` says what is fuzzed and judged, ``targets`` lists all decoders by
subject. The broker as a whole is fuzzed by ``tools.hostile``.
"""
