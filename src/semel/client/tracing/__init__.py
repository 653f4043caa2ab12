"""The spans of OpenTelemetry that a client makes, if the application has a tracer provider.

Open ``tracer_provider.py`` first: when a client makes spans. ``spans.py`` has their names, attributes and links. In an
application without OpenTelemetry only the first is imported.
"""
