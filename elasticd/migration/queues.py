"""KEDA's triggers about queues that elasticd reads itself: RabbitMQ, Redis and Kafka, each a source.

Knows the metadata of these triggers; knows nothing of how a queue is read.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from elasticd.migration.exporters import stream_count
from elasticd.migration.policy import Table

_SERVER = re.compile(r"[^/@\s:]+:[0-9]{1,5}")


class QueueSource(NamedTuple):
    """A source table, and what a person must see to; empty: nothing."""

    table: Table
    note: str


def queue_source(kind: str, metadata: Mapping[str, str], series: str, workload: str) -> QueueSource | None:
    """The source of a trigger; None: elasticd has none for it, or the metadata does not say enough."""
    about = {"name": series, "workload": workload}
    if kind in ("kafka", "apache-kafka"):
        return _kafka(metadata, about)
    if kind == "rabbitmq":
        return _rabbitmq(metadata, about)
    return _redis(kind, metadata, about) if kind in ("redis", "redis-streams") else None


def _kafka(metadata: Mapping[str, str], about: Table) -> QueueSource | None:
    """The lag of one topic. Without a topic KEDA adds up all of the group's, and several are separated by commas."""
    topic, group = metadata.get("topic", ""), metadata.get("consumerGroup") or metadata.get("group", "")
    if not topic or "," in topic or not group:
        return None
    text = metadata.get("bootstrapServers") or metadata.get("bootstrapServer", "")
    servers = [server for part in text.split(",") if _SERVER.fullmatch(server := part.strip())]
    note = "KEDA asks for no more replicas than partitions: see that replicas.max is not above their number"
    if not servers:
        servers, note = ["kafka:9092"], f"its address is not in the object: write servers; {note}"
    table = {**about, "topic": topic, "group": group}
    name = f"imported-kafka-{servers[0].partition(':')[0]}"
    return QueueSource({"type": "kafka", "name": name, "servers": servers, "series": [table]}, note)


def _rabbitmq(metadata: Mapping[str, str], about: Table) -> QueueSource | None:
    """The length of a queue, or its rate, by the management API, which KEDA asks with protocol http."""
    queue = metadata.get("queueName", "")
    if not queue or metadata.get("useRegex") == "true":
        return None
    match = re.fullmatch(r"(https?)://(?:[^@/]*@)?([^/?]+)(?:/([^?]*))?.*", metadata.get("host", ""))
    url = f"{match[1]}://{match[2]}" if match else "http://rabbitmq:15672"
    vhost = metadata.get("vhostName") or (match[3] if match else "") or "/"
    length = "ready" if metadata.get("excludeUnacknowledged") == "true" else "all"
    count = "publish_rate" if metadata.get("mode") == "MessageRate" else length
    table = {**about, "queue": queue, "vhost": vhost, "count": count}
    note = "" if match else "its management API is not in the object: write url, username and password_file"
    name = f"imported-rabbitmq-{re.sub('[^A-Za-z0-9.-]', '-', url.partition('://')[2])}"
    return QueueSource({"type": "rabbitmq", "name": name, "url": url, "series": [table]}, note)


def _redis(kind: str, metadata: Mapping[str, str], about: Table) -> QueueSource | None:
    """A list, or a stream and what of it its group has not done."""
    host, _, port = metadata.get("address", "").partition(":")
    note = "" if host else "its address is not in the object: write host"
    if kind == "redis":
        table = {**about, "key": metadata.get("listName", ""), "count": "list"}
    else:
        count = stream_count(metadata)
        table = {**about, "key": metadata.get("stream", ""), "count": count}
        if count != "stream":
            table["group"] = metadata["consumerGroup"]
    if not table["key"]:
        return None
    number = int(port) if port.isdecimal() and 0 < int(port) < 65536 else 6379
    db = metadata.get("databaseIndex", "")
    source = {"type": "redis", "name": f"imported-redis-{host or 'redis'}-{number}-{db or 0}", "host": host or "redis"}
    return QueueSource({**source, "port": number, "db": int(db) if db.isdecimal() else 0, "series": [table]}, note)
