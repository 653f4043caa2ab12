"""From a frame to its handler, and from the handler's result to an answer.

Open ``dispatch.py`` first; ``routes.py`` lists the APIs that are served.
"""
