"""The web console: pages that show a cluster of Semel or Apache Kafka in the browser. See docs/design/console.md.

    app           the routes, and how a request is handled; server: runs the application
    connections   the admin clients: one for all visitors, or one for each login
    answer_cache  a cache of the brokers' answers, so that many pages send one request
    pages, live   a page as a value; it is rendered once, or repeatedly as an event stream
    scene_runs    scenes of the lab, each in a process of its own
    schema_registry, avro_values   decoding of values that name a schema of the registry
    safety        hosts, sessions, CSRF tokens, headers
    views/        one module for each page: it asks brokers and returns a Page
    templates/    HTML; static/: style, script, icon. Nothing is loaded from another site

The console is an ordinary Kafka client in a process of its own: it works with any broker and imports no broker code.
"""
