"""Fuzzing of every decoder, with valid inputs made from a grammar and mutations of them.

``run`` does the runs of one seed, ``target`` defines a target: a decoder with its inputs and rules, ``targets`` lists
all decoders by subject. The broker as a whole is fuzzed by ``tools.hostile``.
"""
