"""What a person sees and does at the terminal: tables, JSON, progress, times, interruptions.

Open ``output.py`` first.
"""
