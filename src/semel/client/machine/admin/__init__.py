"""An admin client's decisions: which broker to ask about each thing, and when to ask again.

Open ``ask.py`` first: what is asked is a value. ``errand.py`` is one call under way, ``admin.py`` sends.
"""
