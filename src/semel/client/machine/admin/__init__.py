"""An admin client's decisions: which broker to ask about each thing, and when to ask again.

Open ``ask.py`` first: a question to the brokers is a value. ``admin_call.py`` is one call in progress, ``admin.py``
sends its requests.
"""
