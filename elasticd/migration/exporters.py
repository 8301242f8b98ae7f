"""KEDA's triggers, and where their numbers can be had without KEDA: by a query to Prometheus, of the usual exporter.

A table: the trigger, the keys of its metadata that say how many one replica takes, and the query, filled with its
metadata. Knows names of metrics as exporters have them; knows nothing of policies.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct


class Exporter(Struct, frozen=True):
    """How a trigger is read from Prometheus. `{name}` in `query` is the trigger's metadata of that name, quoted as
    PromQL; empty: no query is known. `threshold` is the key and the default of its set point, `activation` that of the
    activation; `caution` is what the query does not do as KEDA."""

    exporter: str
    query: str
    threshold: str
    default: float | None
    activation: str
    caution: str = ""


_SQL = "sql_exporter, which runs the trigger's own SQL query: name its metric here"
_HTTP = "json_exporter, which reads a number from JSON over HTTP: name its metric here"

EXPORTERS: dict[str, Exporter] = {
    "kafka": Exporter(
        "kafka_exporter",
        "sum(clamp_min(kafka_consumergroup_lag{{consumergroup={consumerGroup},topic={topic}}}, 0))",
        "lagThreshold", 10, "activationLagThreshold",
        "KEDA asks for no more replicas than the topic has partitions: see that replicas.max is not above their number",
    ),
    "apache-kafka": Exporter(
        "kafka_exporter",
        "sum(clamp_min(kafka_consumergroup_lag{{consumergroup={consumerGroup},topic={topic}}}, 0))",
        "lagThreshold", 10, "activationLagThreshold",
        "KEDA asks for no more replicas than the topic has partitions: see that replicas.max is not above their number",
    ),
    "rabbitmq": Exporter(
        "rabbitmq_prometheus, RabbitMQ's own plugin, with one series for each queue (/metrics/per-object)",
        "sum(rabbitmq_queue_messages{{queue={queueName},vhost={vhostName|/}}})",
        "value", 20, "activationValue",
    ),
    "aws-sqs-queue": Exporter(
        "cloudwatch_exporter or YACE",
        "sum(aws_sqs_approximate_number_of_messages_visible_average{{queue_name={queueURL|basename}}})"
        " + sum(aws_sqs_approximate_number_of_messages_not_visible_average{{queue_name={queueURL|basename}}})",
        "queueLength", 5, "activationQueueLength",
        "CloudWatch is minutes behind the queue, which KEDA asks itself",
    ),
    "redis": Exporter(
        "redis_exporter with --check-single-keys for the list", "sum(redis_key_size{{key={listName}}})",
        "listLength", 5, "activationListLength",
    ),
    "redis-streams": Exporter(
        "redis_exporter with --check-single-streams for the stream",
        "sum(redis_stream_group_messages_pending{{stream={stream},group={consumerGroup}}})",
        "pendingEntriesCount", 5, "activationLagCount",
        "by streamLength or lagCount the query is redis_stream_length or redis_stream_group_lag instead",
    ),
    "nats-jetstream": Exporter(
        "prometheus-nats-exporter with -jsz=all",
        "sum(jetstream_consumer_num_pending{{stream_name={stream},consumer_name={consumer}}})",
        "lagThreshold", 10, "activationLagThreshold",
    ),
    "gcp-pubsub": Exporter(
        "stackdriver_exporter",
        "sum(stackdriver_pubsub_subscription_pubsub_googleapis_com_subscription_num_undelivered_messages"
        "{{subscription_id={subscriptionName|basename}}})",
        "value", 10, "activationValue", "Cloud Monitoring is minutes behind the subscription",
    ),
    "pulsar": Exporter(
        "Pulsar's own metrics", "sum(pulsar_subscription_back_log{{topic={topic},subscription={subscription}}})",
        "msgBacklogThreshold", 10, "activationMsgBacklogThreshold",
    ),
    "kubernetes-workload": Exporter(
        "kube-state-metrics with --metric-labels-allowlist=pods=[*]",
        "count(kube_pod_labels{{{podSelector|labels}}})", "value", None, "activationValue",
        "KEDA counts no pods that have ended; write the selector's other operators by hand",
    ),
    "metrics-api": Exporter(_HTTP, "", "targetValue", None, "activationTargetValue"),
    "postgresql": Exporter(_SQL, "", "targetQueryValue", None, "activationTargetQueryValue"),
    "mysql": Exporter(_SQL, "", "queryValue", None, "activationQueryValue"),
    "mssql": Exporter(_SQL, "", "targetValue", None, "activationTargetValue"),
    "mongodb": Exporter("mongodb_exporter", "", "queryValue", None, "activationQueryValue"),
    "elasticsearch": Exporter("elasticsearch_exporter", "", "targetValue", None, "activationTargetValue"),
    "activemq": Exporter("the JMX exporter", "", "targetQueueSize", 10, "activationTargetQueueSize"),
    "artemis-queue": Exporter("Artemis's own metrics plugin", "", "queueLength", 10, "activationQueueLength"),
    "azure-servicebus": Exporter("an exporter of Azure Monitor", "", "messageCount", 5, "activationMessageCount"),
    "azure-queue": Exporter("an exporter of Azure Monitor", "", "queueLength", 5, "activationQueueLength"),
    "azure-eventhub": Exporter(
        "an exporter of Azure Monitor", "", "unprocessedEventThreshold", 64, "activationUnprocessedEventThreshold"
    ),
    "aws-cloudwatch": Exporter(
        "cloudwatch_exporter or YACE", "", "targetMetricValue", None, "activationTargetMetricValue"
    ),
    "aws-kinesis-stream": Exporter("cloudwatch_exporter or YACE", "", "shardCount", 2, "activationShardCount"),
    "mqtt": Exporter("", "", "targetValue", None, "activationTargetValue"),
}  # fmt: skip
"""Triggers of which more is known than their name. `mqtt` is read by elasticd itself."""

_ANY = Exporter("", "", "", None, "")
_TARGETS = ("threshold", "targetValue", "value", "targetSize", "queueLength", "lagThreshold")

_HOLE = re.compile(r"\{([A-Za-z]+)(?:\|([^}]*))?\}")
_EMPTY = re.compile(r'(,[a-z_]+=""|(?<=\0)[a-z_]+="",?)')
"""What matches nothing: metadata that is not given means any."""
_LABEL = re.compile(r"\s*([A-Za-z0-9_./-]+)\s*==?\s*([A-Za-z0-9_.-]*)\s*")


def exporter_of(trigger: str) -> Exporter:
    """What is known of a trigger."""
    return EXPORTERS.get(trigger, _ANY)


def thresholds(trigger: str, metadata: Mapping[str, str]) -> tuple[str, str]:
    """The keys of the metadata that have a trigger's set point, and its activation."""
    known = exporter_of(trigger)
    names = [name for name in (known.threshold, *_TARGETS) if name in metadata]
    key = names[0] if names else known.threshold or _TARGETS[0]
    return key, known.activation or f"activation{key[:1].upper()}{key[1:]}"


def query_of(trigger: str, metadata: Mapping[str, str]) -> str:
    """The PromQL of a trigger's number; empty: none is known."""
    template = "" if metadata.get("mode") == "MessageRate" else exporter_of(trigger).query
    filled = _HOLE.sub(lambda hole: _filled(metadata.get(hole[1], ""), hole[2] or ""), template.replace("{{", "\0"))
    return _EMPTY.sub("", filled).replace("\0", "{").replace("}}", "}")


def _filled(value: str, form: str) -> str:
    if form == "basename":
        return _quoted(value.rstrip("/").rpartition("/")[2])
    if form == "labels":
        return ",".join(_matcher(part) for part in value.split(",") if "=" in part and "!" not in part)
    return _quoted(value or form)


def _matcher(part: str) -> str:
    match = _LABEL.fullmatch(part)
    if match is None:
        return ""
    label = re.sub(r"[^A-Za-z0-9_]", "_", match[1])
    return f"label_{label}={_quoted(match[2])}"


def _quoted(text: str) -> str:
    """A string of PromQL, which has JSON's escapes."""
    return msgspec.json.encode(text).decode()
