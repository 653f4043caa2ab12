"""Serves requests: decodes a frame, calls the handler of its API, and sends the response.

Open ``dispatch.py`` first; ``routes.py`` lists the APIs that are served.
"""
