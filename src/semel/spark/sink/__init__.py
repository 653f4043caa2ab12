"""Writing a micro-batch under one transaction: where each row goes, and which task writes it.

Open ``stage.py`` first.
"""
