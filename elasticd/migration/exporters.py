"""KEDA's triggers, and where their numbers can be had without KEDA: by a query to Prometheus, of the usual exporter.

Each query has names of metrics and labels as these versions have them: kafka_exporter 1.10 (README), RabbitMQ's
rabbitmq_prometheus since 3.8 (labels of /metrics/per-object), YACE 0.62 (pkg/promutil), redis_exporter 1.6x
(exporter/keys.go, exporter/streams.go), prometheus-nats-exporter 0.17 (collector/jsz.go), stackdriver_exporter since
0.9, the metrics of Pulsar 2.10 to 4 (reference-metrics), Artemis's metrics plugin 2, kube-state-metrics 2
(docs/metrics/workload/pod-metrics.md). Set points and their defaults are those of KEDA's schema/generated. A trigger
of which nobody could check a metric has no query. Knows nothing of policies.
"""

import re
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

Metadata = Mapping[str, str]
"""A trigger's metadata, and under `_namespace` that of its object."""


def _no_query(_: Metadata) -> str:
    return ""


class Exporter(Struct, frozen=True):
    """How a trigger is read from Prometheus. `query` gives the PromQL for the trigger's metadata; empty: none is known.
    `threshold` is the key and `default` the default of its set point, `activation` the key of the activation and
    `active` its default; `caution` is what the query does not do as KEDA, or what the exporter must be told."""

    exporter: str
    threshold: str
    default: float | None
    activation: str
    query: Callable[[Metadata], str] = _no_query
    caution: str = ""
    active: float = 0.0


def _quoted(text: str) -> str:
    """A string of PromQL, which has JSON's escapes."""
    return msgspec.json.encode(text).decode()


def _select(metric: str, *matchers: str, **labels: str) -> str:
    """A selector. A label without a value means any, as metadata that is not given does."""
    equal = (f"{label}={_quoted(value)}" for label, value in labels.items() if value)
    text = ",".join([*equal, *matchers])
    return f"{metric}{{{text}}}" if text else metric


def _one_of(label: str, values: list[str]) -> str:
    """A matcher of any of these values."""
    return f"{label}=~{_quoted('|'.join(re.escape(value) for value in values))}"


def _last_part(text: str) -> str:
    """The last part of a URL or a resource's name."""
    return text.rstrip("/").rpartition("/")[2]


def _kafka(metadata: Metadata) -> str:
    """Where a group has committed nothing, the exporter says -1."""
    topics = [topic.strip() for topic in metadata.get("topic", "").split(",") if topic.strip()]
    group = metadata.get("consumerGroup") or metadata.get("group", "")
    several = (_one_of("topic", topics),) if len(topics) > 1 else ()
    one = topics[0] if len(topics) == 1 else ""
    return f"sum(clamp_min({_select('kafka_consumergroup_lag', *several, consumergroup=group, topic=one)}, 0))"


def _rabbitmq(metadata: Metadata) -> str:
    """The length of queues; a rate is not among what the exporter has of a queue in all versions."""
    if metadata.get("mode") == "MessageRate":
        return ""
    name, operation = metadata.get("queueName", ""), metadata.get("operation", "sum")
    metric = "rabbitmq_queue_messages" + ("_ready" if metadata.get("excludeUnacknowledged") == "true" else "")
    queues = (f"queue=~{_quoted(name)}",) if metadata.get("useRegex") == "true" else (f"queue={_quoted(name)}",)
    selector = _select(metric, *queues, vhost=metadata.get("vhostName") or "/")
    return f"{operation if operation in ('sum', 'max', 'avg') else 'sum'}({selector})"


def _sqs(metadata: Metadata) -> str:
    """What waits, and as KEDA's flags say what is worked on, and what is delayed."""
    parts = ["visible"]
    if metadata.get("scaleOnInFlight", "true") != "false":
        parts.append("not_visible")
    if metadata.get("scaleOnDelayed") == "true":
        parts.append("delayed")
    queue = _last_part(metadata.get("queueURL", ""))
    names = (f"aws_sqs_approximate_number_of_messages_{part}_average" for part in parts)
    return " + ".join(f"sum({_select(name, dimension_QueueName=queue)})" for name in names)


def _redis_list(metadata: Metadata) -> str:
    return f"sum({_select('redis_key_size', db=_database(metadata), key=metadata.get('listName', ''))})"


def _redis_stream(metadata: Metadata) -> str:
    """What KEDA counts: the lag or the pending entries of a group, or the length."""
    count, group = stream_count(metadata), metadata.get("consumerGroup", "")
    metric = {"lag": "redis_stream_group_lag", "pending": "redis_stream_group_messages_pending"}.get(count)
    selector = _select(
        metric or "redis_stream_length", db=_database(metadata), stream=metadata.get("stream", ""), group=group
    )
    return f"sum({selector})"


def _database(metadata: Metadata) -> str:
    index = metadata.get("databaseIndex", "")
    return f"db{index}" if index else ""


def stream_count(metadata: Metadata) -> str:
    """What KEDA counts of a stream: "lag" or "pending" of its group, or without a group "stream", its length."""
    if not metadata.get("consumerGroup"):
        return "stream"
    return "lag" if metadata.get("lagCount") else "pending"


def _jetstream(metadata: Metadata) -> str:
    """As KEDA the messages that wait and that are not acknowledged, at the consumer's leader: each of its replicas is
    exported."""
    labels = {
        "account": metadata.get("account", ""),
        "stream_name": metadata.get("stream", ""),
        "consumer_name": metadata.get("consumer", ""),
        "is_consumer_leader": "true",
    }
    names = ("jetstream_consumer_num_pending", "jetstream_consumer_num_ack_pending")
    return " + ".join(f"sum({_select(name, **labels)})" for name in names)


def _pubsub(metadata: Metadata) -> str:
    """The messages that are not delivered; other modes, and topics, are other metrics."""
    subscription = _last_part(metadata.get("subscriptionName", ""))
    if not subscription or metadata.get("mode", "SubscriptionSize") not in (
        "SubscriptionSize",
        "NumUndeliveredMessages",
    ):
        return ""
    prefix = "stackdriver_pubsub_subscription_pubsub_googleapis_com_subscription"
    return f"sum({_select(f'{prefix}_num_undelivered_messages', subscription_id=subscription)})"


def _pulsar(metadata: Metadata) -> str:
    """The backlog of a topic, or of all of its partitions, whose names end in -partition-0 and so on."""
    topic, subscription = metadata.get("topic", ""), metadata.get("subscription", "")
    if topic and "://" not in topic:
        topic = f"persistent://{topic}"
    if topic and metadata.get("isPartitionedTopic") == "true":
        partitions = f"topic=~{_quoted(re.escape(topic) + '-partition-[0-9]+')}"
        return f"sum({_select('pulsar_subscription_back_log', partitions, subscription=subscription)})"
    return f"sum({_select('pulsar_subscription_back_log', topic=topic, subscription=subscription)})"


def _artemis(metadata: Metadata) -> str:
    queue, address = metadata.get("queueName", ""), metadata.get("brokerAddress", "")
    return f"sum({_select('artemis_message_count', address=address, queue=queue)})" if queue else ""


_LABEL = re.compile(r"\s*([A-Za-z0-9_./-]+)\s*==?\s*([A-Za-z0-9_.-]*)\s*")


def _pods(metadata: Metadata) -> str:
    """Pods of the object's namespace that have not ended. That there is none is known where others are exported."""
    parts = metadata.get("podSelector", "").split(",")
    matches = [_LABEL.fullmatch(part) for part in parts]
    if not all(matches):
        return ""
    labels = {f"label_{re.sub('[^A-Za-z0-9_]', '_', match[1])}": match[2] for match in matches if match}
    pods = _select("kube_pod_labels", namespace=metadata.get("_namespace", ""), **labels)
    ended = 'kube_pod_status_phase{phase=~"Failed|Succeeded"} == 1'
    return f"count({pods} unless on (namespace, pod) ({ended})) or 0 * count(kube_pod_labels)"


_SQL = "sql_exporter, which runs the trigger's own SQL query: name its metric here"
_HTTP = "json_exporter, which reads a number from JSON over HTTP: name its metric here"
_CLOUDWATCH = "cloudwatch_exporter or YACE"
_PARTITIONS = (
    "KEDA asks for no more replicas than the topic has partitions: see that replicas.max is not above their number"
)
_REDIS_LIST = Exporter(
    "redis_exporter with --check-single-keys for the list", "listLength", 5, "activationListLength", _redis_list
)
_REDIS_STREAM = Exporter(
    "redis_exporter with --check-single-streams for the stream",
    "pendingEntriesCount", 5, "activationLagCount", _redis_stream,
)  # fmt: skip
_KAFKA = Exporter("kafka_exporter", "lagThreshold", 10, "activationLagThreshold", _kafka, _PARTITIONS)

EXPORTERS: dict[str, Exporter] = {
    "kafka": _KAFKA,
    "apache-kafka": _KAFKA,
    "rabbitmq": Exporter(
        "rabbitmq_prometheus, RabbitMQ's own plugin, with one series for each queue (/metrics/per-object)",
        "value", 20, "activationValue", _rabbitmq,
    ),
    "aws-sqs-queue": Exporter(
        "YACE with the statistic Average", "queueLength", 5, "activationQueueLength", _sqs,
        "CloudWatch is minutes behind the queue, which KEDA asks itself; cloudwatch_exporter has the label queue_name"
        " in place of dimension_QueueName, and needs set_timestamp: false",
    ),
    "redis": _REDIS_LIST,
    "redis-cluster": _REDIS_LIST,
    "redis-sentinel": _REDIS_LIST,
    "redis-streams": _REDIS_STREAM,
    "redis-cluster-streams": _REDIS_STREAM,
    "redis-sentinel-streams": _REDIS_STREAM,
    "nats-jetstream": Exporter(
        "prometheus-nats-exporter with -jsz=all", "lagThreshold", 10, "activationLagThreshold", _jetstream
    ),
    "gcp-pubsub": Exporter(
        "stackdriver_exporter", "value", 10, "activationValue", _pubsub,
        "Cloud Monitoring is minutes behind the subscription",
    ),
    "pulsar": Exporter(
        "Pulsar's own metrics with exposeTopicLevelMetricsInPrometheus",
        "msgBacklogThreshold", 10, "activationMsgBacklogThreshold", _pulsar,
    ),
    "artemis-queue": Exporter(
        "Artemis's own metrics plugin", "queueLength", 10, "activationQueueLength", _artemis, active=10
    ),
    "kubernetes-workload": Exporter(
        "kube-state-metrics with --metric-labels-allowlist=pods=[*] and honor_labels", "value", None, "activationValue",
        _pods, "write a selector's other operators than = by hand",
    ),
    "metrics-api": Exporter(_HTTP, "targetValue", None, "activationTargetValue"),
    "postgresql": Exporter(_SQL, "targetQueryValue", None, "activationTargetQueryValue"),
    "mysql": Exporter(_SQL, "queryValue", None, "activationQueryValue"),
    "mssql": Exporter(_SQL, "targetValue", None, "activationTargetValue"),
    "mongodb": Exporter("mongodb_exporter", "queryValue", None, "activationQueryValue"),
    "elasticsearch": Exporter("elasticsearch_exporter", "targetValue", None, "activationTargetValue"),
    "activemq": Exporter("the JMX exporter", "targetQueueSize", 10, "activationTargetQueueSize"),
    "azure-servicebus": Exporter("an exporter of Azure Monitor", "messageCount", 5, "activationMessageCount"),
    "azure-queue": Exporter("an exporter of Azure Monitor", "queueLength", 5, "activationQueueLength"),
    "azure-eventhub": Exporter(
        "an exporter of Azure Monitor", "unprocessedEventThreshold", 64, "activationUnprocessedEventThreshold"
    ),
    "aws-cloudwatch": Exporter(_CLOUDWATCH, "targetMetricValue", None, "activationTargetMetricValue"),
    "aws-kinesis-stream": Exporter(_CLOUDWATCH, "shardCount", 2, "activationShardCount"),
    "mqtt": Exporter("", "targetValue", None, "activationTargetValue"),
}  # fmt: skip
"""Triggers of which more is known than their name. `mqtt` is read by elasticd itself."""

_ANY = Exporter("", "", None, "")
_TARGETS = ("threshold", "targetValue", "value", "subscriptionSize", "targetSize", "queueLength", "lagThreshold")


def exporter_of(trigger: str) -> Exporter:
    """What is known of a trigger."""
    return EXPORTERS.get(trigger, _ANY)


def thresholds(trigger: str, metadata: Metadata) -> tuple[str, str]:
    """The keys of the metadata that have a trigger's set point, and its activation."""
    known = exporter_of(trigger)
    if known is _REDIS_STREAM:
        count = stream_count(metadata)
        key = {"lag": "lagCount", "pending": "pendingEntriesCount", "stream": "streamLength"}[count]
        return key, known.activation if count == "lag" else ""
    names = [name for name in (known.threshold, *_TARGETS) if name in metadata]
    key = names[0] if names else known.threshold or _TARGETS[0]
    return key, known.activation or f"activation{key[:1].upper()}{key[1:]}"


def query_of(trigger: str, metadata: Metadata, namespace: str) -> str:
    """The PromQL of a trigger's number, of an object in this namespace; empty: none is known."""
    return exporter_of(trigger).query({**metadata, "_namespace": namespace})
