"""The web console: pages that show a cluster of Semel or Apache Kafka in the browser. See docs/design/console.md.

    app           the routes, and what happens to every request; server: runs it
    connections   who asks the brokers: one admin client for all visitors, or one for each login
    answers       what brokers said a moment ago, so that many pages ask once
    pages, live   a page as a value, rendered once, or again and again as an event stream
    scene_runs    scenes of the lab, each in a process of its own
    schema_registry, avro_values   values that name a schema of the registry
    safety        hosts, sessions, CSRF tokens, headers
    views/        one module for each page: questions to brokers become a Page
    templates/    HTML; static/: style, script, icon. Nothing is loaded from elsewhere

It is an ordinary client over the wire, in a process of its own: it works with any broker, and imports none of it.
"""
