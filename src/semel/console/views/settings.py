"""The page of the settings of a broker, topic or group, with the source of each value."""

from __future__ import annotations

from semel.admin import ConfigResource
from semel.console import cached_requests
from semel.console.pages import Page, Visit
from semel.console.paging import matches
from semel.console.texts import option


def settings(visit: Visit) -> Page:
    connection = visit.connection
    brokers = cached_requests.cluster(connection).brokers
    with_defaults = visit.query.get("all") == "1"
    topic, group, broker_id = visit.query.get("topic", ""), visit.query.get("group", ""), visit.number("broker")
    if topic:
        resource, whose, words = ConfigResource.topic(topic), f"topic {topic}", option("--topic", topic)
    elif group:
        resource, whose, words = ConfigResource.group(group), f"group {group}", option("--group", group)
    else:
        chosen = broker_id if broker_id is not None else min(broker.broker_id for broker in brokers)
        resource, whose, words = ConfigResource.broker(chosen), f"broker {chosen}", ["--broker", str(chosen)]
        broker_id = chosen
    entries = connection.answers.get(
        ("settings", resource), cached_requests.CALM_S, lambda: connection.admin.configs.describe(resource)
    )
    rows = [
        entry
        for _, entry in sorted(entries.items())
        if (with_defaults or not entry.is_default) and matches(visit, entry.name)
    ]
    values = {
        "whose": whose,
        "rows": rows,
        "total": len(entries),
        "brokers": brokers,
        "broker_id": None if topic or group else broker_id,
        "topic": topic,
        "group": group,
        "with_defaults": with_defaults,
        "query": visit.query.get("q", ""),
        "words": [*words, *(["--all"] if with_defaults else [])],
    }
    return Page("settings.html", f"Settings of {whose}", "settings", values, live_every_s=5.0)
