"""ScaledObjects decide as KEDA does: by what KEDA's own tests say of its executor, formulas and fallback, as facts.

The facts are of kedacore/keda: pkg/scaling/executor/scale_scaledobjects_test.go, pkg/scaling/scale_handler_test.go,
pkg/scaling/modifiers/formula_test.go, pkg/fallback/fallback_test.go and tests/internals/scaling_modifiers.
"""

from pathlib import Path
from typing import Any

import pytest
import tomli
from msgspec.structs import replace

from elasticd.api import Decision, Past, Point, Quality, Series
from elasticd.base.errors import ConfigError
from elasticd.config.policies import decode_policy
from elasticd.decision.decide import Case, decide
from elasticd.decision.workload.zero import ZERO
from elasticd.migration.keda import scaled_object_policy
from elasticd.model.policy import Policy
from elasticd.registry import Hooks, discover
from tests.kit.plugins.builders import NOW, pods, sample, seen, series
from tests.migration.manifests import TARGET, Manifest, prometheus, scaled_object

REGISTRY = discover()


def table(manifest: Manifest) -> dict[str, Any]:
    """The policy of a ScaledObject, as its file has it."""
    return tomli.loads(scaled_object_policy(manifest, "web.yaml", "default").text)


def policy(manifest: Manifest) -> Policy:
    decoded = decode_policy(Path("shop.web.toml"), table(manifest), REGISTRY)
    assert isinstance(decoded, Policy)
    return replace(decoded, mode="act")


def ask(
    manifest: Manifest, current: int, values: dict[str, float | None], quiet: float = 3600.0, blind: float = 0.0
) -> Decision:
    """What is decided about so many replicas while triggers have these values (None: they cannot be read), after so
    many seconds in which none was active, and so many in which nothing was known."""
    observed = [
        Series(f"shop.web.{name}", "test", Quality.ERROR, (), "the source is down")
        if value is None
        else series([sample("", value, age=0)], f"shop.web.{name}", measured=NOW)
        for name, value in values.items()
    ]
    points: dict[str, tuple[Point, ...]] = {
        each.name: (Point(NOW - quiet, 99.0, 0), Point(NOW - max(quiet - 1, 0), 0.0, 0)) for each in observed
    }
    past = Past(NOW - 7200, points=points, blind_since=NOW - blind if blind else None)
    decided = policy(manifest)
    observation = seen(current, pods(current), *observed)
    target = decided.workload
    assert target is not None
    workload = replace(observation.workload, ref=target.ref, annotations={} if current else {ZERO: decided.name})
    hooks = Hooks((*decided.strategies, *decided.limits))
    return decide(Case(decided, replace(observation, workload=workload), past, hooks))


ONE = prometheus(name="one")
TWO = prometheus(name="two")
IDLE: Manifest = {"idleReplicaCount": 0, "minReplicaCount": 5, "maxReplicaCount": 10}


@pytest.mark.parametrize(
    ("manifest", "current", "value", "quiet", "expected"),
    [
        pytest.param(scaled_object(ONE, minReplicaCount=0), 10, 0, 3600, 0, id="not active: to 0 from any count"),
        pytest.param(scaled_object(ONE, minReplicaCount=5), 1, 0, 3600, 5, id="not active, below min: to min"),
        pytest.param(scaled_object(ONE, minReplicaCount=0), 0, 1, 3600, 1, id="active at 0: to one"),
        pytest.param(scaled_object(ONE, **IDLE), 10, 0, 3600, 0, id="not active: to idle"),
        pytest.param(scaled_object(ONE, **IDLE), 0, 1, 3600, 5, id="active at idle: to min"),
        pytest.param(scaled_object(ONE, **IDLE), 2, 1, 3600, 5, id="active below min: to min"),
        pytest.param(scaled_object(ONE), 1, 0, 60, 1, id="within the cooldown of 300 s: stays"),
        pytest.param(scaled_object(ONE), 1, 0, 301, 0, id="after it: to 0"),
        pytest.param(scaled_object(ONE, cooldownPeriod=600), 1, 0, 301, 1, id="within a longer one: stays"),
        pytest.param(scaled_object(ONE), 1, None, 3600, 1, id="an error and no fallback: stays"),
    ],
)
def test_counts_follow_activity_and_cooldown(
    manifest: Manifest, current: int, value: float | None, quiet: float, expected: int
) -> None:
    assert ask(manifest, current, {"one": value}, quiet).replicas == expected


PAUSED = "autoscaling.keda.sh/paused"


@pytest.mark.parametrize(
    ("annotations", "spec", "current", "value", "expected"),
    [
        pytest.param({f"{PAUSED}-replicas": "0"}, {}, 2, 5, 2, id="paused at a count: no trigger counts"),
        pytest.param({PAUSED: "true"}, {}, 2, 500, 2, id="paused"),
        pytest.param({PAUSED: "false"}, {}, 0, 1, 1, id="not paused"),
        pytest.param({f"{PAUSED}-scale-in": "true"}, {}, 10, 0, 10, id="no scale-in to 0"),
        pytest.param({f"{PAUSED}-scale-in": "true"}, IDLE, 10, 0, 10, id="no scale-in to idle"),
        pytest.param({f"{PAUSED}-scale-in": "true"}, {}, 0, 1, 1, id="but out"),
        pytest.param({f"{PAUSED}-scale-out": "true"}, {}, 0, 1, 0, id="no scale-out from 0"),
        pytest.param({f"{PAUSED}-scale-out": "true"}, IDLE, 0, 1, 0, id="no scale-out from idle"),
    ],
)
def test_annotations_pause_one_way_or_both(
    annotations: dict[str, str], spec: Manifest, current: int, value: float, expected: int
) -> None:
    manifest = scaled_object(ONE, annotations=annotations, **spec)
    assert ask(manifest, current, {"one": value}).replicas == expected


def modified(formula: str, **more: Any) -> Manifest:
    modifiers = {"formula": formula, "target": "2", **more}
    return scaled_object(ONE, TWO, advanced={"scalingModifiers": modifiers}, minReplicaCount=0, maxReplicaCount=10)


ADDED = modified("one + two")
ACTIVATED = modified("one + two", activationTarget="2")
COUNTED = modified("count([one,two],{#>1}) > 1 ? 5 : 0", activationTarget="2")


@pytest.mark.parametrize(
    ("manifest", "current", "values", "expected"),
    [
        pytest.param(ADDED, 4, (2, 5), 4, id="2 + 5 = 7, by 2"),
        pytest.param(ACTIVATED, 0, (0, 2), 0, id="2 is not above an activation of 2"),
        pytest.param(ACTIVATED, 0, (3, 2), 3, id="5 by 2"),
        pytest.param(ACTIVATED, 3, (2, 2), 2, id="4 by 2"),
        pytest.param(COUNTED, 0, (0, 2), 0, id="one of two is above 1"),
        pytest.param(COUNTED, 0, (2, 2), 3, id="both are: 5 by 2"),
        pytest.param(modified("sum([one,two])"), 0, (3, 3), 3, id="a sum of a list"),
    ],
)
def test_formulas_give_the_counts_of_keda(
    manifest: Manifest, current: int, values: tuple[float, float], expected: int
) -> None:
    assert ask(manifest, current, dict(zip(("one", "two"), values, strict=True))).replicas == expected


def falling_back(behavior: str = "static", replicas: int = 10, least: int = 0) -> Manifest:
    fallback = {"failureThreshold": 3, "replicas": replicas, "behavior": behavior}
    return scaled_object(ONE, fallback=fallback, pollingInterval=10, minReplicaCount=least)


@pytest.mark.parametrize(
    ("manifest", "current", "blind", "expected"),
    [
        pytest.param(falling_back(), 4, 20, 4, id="fewer failures than the threshold"),
        pytest.param(falling_back(), 6, 31, 10, id="a target of 10 by 10 replicas: 10"),
        pytest.param(falling_back(least=2), 6, 31, 10, id="as where the HPA decides alone"),
        pytest.param(falling_back(replicas=2), 4, 31, 2, id="also fewer"),
        pytest.param(falling_back("currentReplicas"), 4, 31, 4, id="current"),
        pytest.param(falling_back("currentReplicasIfHigher", 2), 4, 31, 4, id="current if higher: it is"),
        pytest.param(falling_back("currentReplicasIfHigher", 6), 4, 31, 6, id="current if higher: it is not"),
        pytest.param(falling_back("currentReplicasIfLower", 6), 4, 31, 4, id="current if lower: it is"),
        pytest.param(falling_back("currentReplicasIfLower", 2), 4, 31, 2, id="current if lower: it is not"),
    ],
)
def test_a_fallback_counts_after_its_failures(manifest: Manifest, current: int, blind: float, expected: int) -> None:
    assert ask(manifest, current, {"one": None}, blind=blind).replicas == expected


def formula_falling_back(formula: str, behavior: str, replicas: int, target: str) -> Manifest:
    fallback = {"failureThreshold": 3, "replicas": replicas, "behavior": behavior}
    modifiers = {"formula": formula, "target": target}
    return scaled_object(
        ONE, TWO, advanced={"scalingModifiers": modifiers}, fallback=fallback, pollingInterval=10, maxReplicaCount=20
    )


@pytest.mark.parametrize(
    ("manifest", "current", "values", "expected"),
    [
        pytest.param(
            formula_falling_back("max(one, two)", "static", 12, "1"), 6, (None, None), 12, id="static: 12, not 12 each"
        ),
        pytest.param(
            formula_falling_back("one ?? two", "scalingModifiers", 7, "2"), 4, (None, None), 7, id="none is known: 7"
        ),
        pytest.param(
            formula_falling_back("one ?? two", "scalingModifiers", 7, "2"), 4, (None, 6), 3, id="one is known: 6 by 2"
        ),
        pytest.param(
            formula_falling_back("one + two", "scalingModifiers", 7, "2"), 4, (None, None), 4, id="an error: stays"
        ),
    ],
)
def test_a_formula_falls_back_as_in_keda(
    manifest: Manifest, current: int, values: tuple[float | None, float | None], expected: int
) -> None:
    assert ask(manifest, current, dict(zip(("one", "two"), values, strict=True)), blind=41).replicas == expected


@pytest.mark.parametrize(
    ("least", "value", "expected"),
    [
        pytest.param(0, 21, 2, id="event: 5 % above 2 times 10"),
        pytest.param(1, 21, 2, id="hpa: the same"),
        pytest.param(0, 25, 3, id="event: 25 % above"),
        pytest.param(1, 25, 3, id="hpa: also"),
    ],
)
def test_the_tolerance_of_the_hpa_holds_everywhere(least: int, value: float, expected: int) -> None:
    manifest = scaled_object(ONE, minReplicaCount=least)
    assert ask(manifest, 2, {"one": value}).replicas == expected


@pytest.mark.parametrize(
    ("manifest", "strategies"),
    [
        pytest.param(scaled_object(ONE), ["event"], id="to 0: KEDA's own loop"),
        pytest.param(scaled_object(ONE, minReplicaCount=1), ["hpa"], id="from 1 on: the HPA alone"),
        pytest.param(scaled_object(ONE, **IDLE), ["event"], id="to idle"),
        pytest.param(modified("one + two"), ["event"], id="a formula"),
        pytest.param(scaled_object({"type": "cpu", "metadata": {"value": "60"}}), ["hpa"], id="cpu alone"),
        pytest.param(scaled_object({"type": "cpu", "metadata": {"value": "60"}}, ONE), ["event", "hpa"], id="both"),
    ],
)
def test_each_scaled_object_gets_the_strategies_it_needs(manifest: Manifest, strategies: list[str]) -> None:
    assert [strategy["type"] for strategy in table(manifest)["strategy"]] == strategies


CRON = {"type": "cron", "metadata": {"timezone": "Europe/Berlin", "start": "0 8 * * *", "end": "0 18 * * *",
                                     "desiredReplicas": "7"}}  # fmt: skip


def test_cron_is_a_floor_and_lasts_for_the_cooldown() -> None:
    made = table(scaled_object(CRON, minReplicaCount=1))
    (schedule,) = made["strategy"]
    assert schedule["default"] == 1
    assert schedule["windows"] == [
        {"name": "s0_cron", "start": "0 8 * * *", "end": "0 18 * * *", "zone": "Europe/Berlin", "replicas": 7}
    ]
    assert made["limit"] == [{"type": "stabilization", "up": 0, "down": 300}]


DEFAULTS = {"replicas": {"min": 0, "max": 100}, "period_at_zero": 30, "cooldown": 300, "initial_cooldown": 0}


def test_defaults_are_those_of_keda() -> None:
    made = table(scaled_object(ONE))
    (event,) = made["strategy"]
    assert {"replicas": made["replicas"]} | {key: event[key] for key in DEFAULTS if key in event} == DEFAULTS
    assert made["trust"]["zero_when_empty"] == ["shop.web.one"], "ignoreNullValues is true"


BEHAVIOR = {
    "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]},
    "scaleDown": {"stabilizationWindowSeconds": 10, "selectPolicy": "Min"},
}


def test_behavior_becomes_limits_where_event_decides() -> None:
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": BEHAVIOR}}
    made = table(scaled_object(ONE, advanced=advanced))
    assert made["strategy"][0]["downscale_stabilization"] == 10
    assert made["limit"] == [
        {"type": "rate", "up": [{"type": "Pods", "value": 2, "period": 30}], "select": "Max"},
        {"type": "stabilization", "up": 60, "down": 0},
    ]
    assert table(scaled_object(ONE, advanced=advanced, minReplicaCount=1))["strategy"][0]["behavior"] == {
        "scale_up": {"stabilization_window": 60, "policies": [{"type": "Pods", "value": 2, "period": 30}]},
        "scale_down": {"stabilization_window": 10, "select": "Min"},
    }


SQS = "https://sqs.eu.amazonaws.com/1/orders"


def trigger(kind: str, **metadata: str) -> Manifest:
    """A trigger of a ScaledObject."""
    return {"type": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("of", "query", "point"),
    [
        pytest.param(
            trigger("kafka", consumerGroup="g", lagThreshold="50"),
            'sum(clamp_min(kafka_consumergroup_lag{consumergroup="g"}, 0))', 50, id="kafka, all topics",
        ),
        pytest.param(
            trigger("rabbitmq", queueName='a".*', useRegex="true", value="7", operation="max"),
            'max(rabbitmq_queue_messages{vhost="/",queue=~"a\\".*"})', 7, id="rabbitmq, by expression, quoted",
        ),
        pytest.param(
            trigger("rabbitmq", queueName="a", useRegex="true", mode="MessageRate", value="7"),
            "WRITE_THE_QUERY", 7, id="rabbitmq, a rate by expression",
        ),
        pytest.param(
            trigger("apache-kafka", consumerGroup="g", topic="a.b, c"),
            'sum(clamp_min(kafka_consumergroup_lag{consumergroup="g",topic=~"a\\\\.b|c"}, 0))', 10,
            id="kafka, several topics",
        ),
        pytest.param(
            trigger("aws-sqs-queue", queueURL=SQS),
            'sum(aws_sqs_approximate_number_of_messages_visible_average{dimension_QueueName="orders"})'
            ' + sum(aws_sqs_approximate_number_of_messages_not_visible_average{dimension_QueueName="orders"})', 5,
            id="sqs",
        ),
        pytest.param(
            trigger("aws-sqs-queue", queueURL=SQS, scaleOnInFlight="false", scaleOnDelayed="true"),
            'sum(aws_sqs_approximate_number_of_messages_visible_average{dimension_QueueName="orders"})'
            ' + sum(aws_sqs_approximate_number_of_messages_delayed_average{dimension_QueueName="orders"})', 5,
            id="sqs, by its flags",
        ),
        pytest.param(
            trigger("nats-jetstream", account="A", stream="s", consumer="c", lagThreshold="9"),
            'sum(jetstream_consumer_num_pending{account="A",stream_name="s",consumer_name="c",is_consumer_leader="true"})'
            ' + sum(jetstream_consumer_num_ack_pending'
            '{account="A",stream_name="s",consumer_name="c",is_consumer_leader="true"})', 9, id="nats",
        ),
        pytest.param(
            trigger("gcp-pubsub", subscriptionName="projects/p/subscriptions/s", subscriptionSize="4"),
            "sum(stackdriver_pubsub_subscription_pubsub_googleapis_com_subscription_num_undelivered_messages"
            '{subscription_id="s"})', 4, id="pubsub",
        ),
        pytest.param(
            trigger("gcp-pubsub", subscriptionName="s", mode="OldestUnackedMessageAge", value="4"),
            "WRITE_THE_QUERY", 4, id="pubsub, another mode",
        ),
        pytest.param(
            trigger("pulsar", topic="t/n/x", subscription="s", msgBacklogThreshold="4"),
            'sum(pulsar_subscription_back_log{topic="persistent://t/n/x",subscription="s"})', 4, id="pulsar",
        ),
        pytest.param(
            trigger("pulsar", topic="persistent://t/n/x", subscription="s", isPartitionedTopic="true"),
            'sum(pulsar_subscription_back_log{subscription="s",topic=~"persistent://t/n/x-partition-[0-9]+"})', 10,
            id="pulsar, by partition",
        ),
        pytest.param(
            trigger("redis-cluster", listName="l", databaseIndex="2"),
            'sum(redis_key_size{db="db2",key="l"})', 5, id="redis-cluster",
        ),
        pytest.param(
            trigger("redis-sentinel-streams", stream="s", streamLength="50"),
            'sum(redis_stream_length{stream="s"})', 50, id="redis-streams, length",
        ),
        pytest.param(
            trigger("redis-sentinel-streams", stream="s", consumerGroup="g", lagCount="6"),
            'sum(redis_stream_group_lag{stream="s",group="g"})', 6, id="redis-streams, lag",
        ),
        pytest.param(
            trigger("artemis-queue", queueName="q", brokerAddress="a"),
            'sum(artemis_message_count{address="a",queue="q"})', 10, id="artemis",
        ),
        pytest.param(
            trigger("kubernetes-workload", podSelector="app.kubernetes.io/name=back, tier=x", value="2"),
            'count(kube_pod_labels{namespace="shop",label_app_kubernetes_io_name="back",label_tier="x"} unless on'
            ' (namespace, pod) (kube_pod_status_phase{phase=~"Failed|Succeeded"} == 1)) or 0 * count(kube_pod_labels)',
            2, id="kubernetes-workload",
        ),
        pytest.param(
            trigger("kubernetes-workload", podSelector="app in (a, b)", value="2"),
            "WRITE_THE_QUERY", 2, id="kubernetes-workload, another operator",
        ),
        pytest.param(trigger("steadybit", value="3"), "WRITE_THE_QUERY", 3, id="unknown"),
    ],
)  # fmt: skip
def test_other_triggers_become_queries_of_exporters(of: Manifest, query: str, point: float) -> None:
    imported = scaled_object_policy(scaled_object(of), "", "", prometheus="http://prom:9090")
    (source,), (event,) = imported.sources, tomli.loads(imported.text)["strategy"]
    assert (source["url"], source["series"][0]["query"]) == ("http://prom:9090", query)
    assert event["triggers"][0]["average_value"] == point
    assert any(note.startswith(f"spec.triggers[0]: elasticd reads {of['type']}") for note in imported.notes)


@pytest.mark.parametrize(
    ("of", "source", "series"),
    [
        pytest.param(
            trigger("kafka", bootstrapServers="k0:9092, k1:9092", consumerGroup="g", topic="t"),
            {"type": "kafka", "name": "imported-kafka-k0", "servers": ["k0:9092", "k1:9092"]},
            {"topic": "t", "group": "g"}, id="kafka",
        ),
        pytest.param(
            trigger("rabbitmq", host="http://a:b@mq:15672/shop", queueName="q", mode="MessageRate"),
            {"type": "rabbitmq", "name": "imported-rabbitmq-mq-15672", "url": "http://mq:15672"},
            {"queue": "q", "vhost": "shop", "count": "publish_rate"}, id="rabbitmq",
        ),
        pytest.param(
            trigger("rabbitmq", hostFromEnv="MQ", queueName="q"),
            {"type": "rabbitmq", "name": "imported-rabbitmq-rabbitmq-15672", "url": "http://rabbitmq:15672"},
            {"queue": "q", "vhost": "/", "count": "all"}, id="rabbitmq, address elsewhere",
        ),
        pytest.param(
            trigger("rabbitmq", host="http://mq:15672", queueName="q", excludeUnacknowledged="true"),
            {"type": "rabbitmq", "name": "imported-rabbitmq-mq-15672", "url": "http://mq:15672"},
            {"queue": "q", "vhost": "/", "count": "ready"}, id="rabbitmq, without what is worked on",
        ),
        pytest.param(
            trigger("redis-streams", address="r:6379", stream="s", pendingEntriesCount="3"),
            {"type": "redis", "name": "imported-redis-r-6379-0", "host": "r", "port": 6379, "db": 0},
            {"key": "s", "count": "stream"}, id="redis-streams, no group: the length",
        ),
        pytest.param(
            trigger("redis", address="r:6380", listName="l", databaseIndex="2"),
            {"type": "redis", "name": "imported-redis-r-6380-2", "host": "r", "port": 6380, "db": 2},
            {"key": "l", "count": "list"}, id="redis",
        ),
        pytest.param(
            trigger("redis-streams", address="r:6379", stream="s", consumerGroup="g", lagCount="5"),
            {"type": "redis", "name": "imported-redis-r-6379-0", "host": "r", "port": 6379, "db": 0},
            {"key": "s", "group": "g", "count": "lag"}, id="redis-streams",
        ),
    ],
)  # fmt: skip
def test_queues_are_read_without_an_exporter(of: Manifest, source: Manifest, series: Manifest) -> None:
    (made,) = scaled_object_policy(scaled_object(of), "", "").sources
    (entry,) = made.pop("series")
    name = f"shop.web.s0_{of['type'].replace('-', '_')}"
    assert made == source
    assert entry == {"name": name, "workload": "shop/Deployment/web", **series}


def test_artemis_wakes_above_10_by_default() -> None:
    assert (
        table(scaled_object(trigger("artemis-queue", queueName="q")))["strategy"][0]["triggers"][0]["activation"] == 10
    )


def test_mqtt_is_read_from_its_broker() -> None:
    trigger = {"type": "mqtt", "metadata": {"host": "tcp://broker:1884", "topic": "shop/queue", "targetValue": "5"}}
    (source,) = scaled_object_policy(scaled_object(trigger), "", "").sources
    assert (source["type"], source["host"], source["port"]) == ("mqtt", "broker", 1884)
    assert source["topic"][0] == {
        "topic": "shop/queue", "series": "shop.web.s0_mqtt", "subject": "workload",
        "namespace": "shop", "kind": "Deployment", "workload": "web",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "note"),
    [
        pytest.param(
            scaled_object(ONE, advanced={"restoreToOriginalReplicaCount": True}),
            "spec.advanced.restoreToOriginalReplicaCount: a policy that is removed leaves the count as it is",
            id="restore",
        ),
        pytest.param(
            scaled_object(ONE, annotations={f"{PAUSED}-replicas": "3"}),
            f'metadata.annotations.{PAUSED}-replicas: the count stays as it is, and is not set to "3"',
            id="paused replicas",
        ),
        pytest.param(
            scaled_object({**ONE, "authenticationRef": {"name": "x"}}),
            "spec.triggers[0].authenticationRef: give its source the credentials (docs/sources.md)",
            id="authentication",
        ),
        pytest.param(
            scaled_object(ONE, somethingNew=1), "spec.somethingNew: has no equivalent, and was left out", id="unknown"
        ),
    ],
)
def test_what_has_no_equivalent_is_said(manifest: Manifest, note: str) -> None:
    assert note in scaled_object_policy(manifest, "", "").notes


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        pytest.param(scaled_object(), "spec.triggers: must have a trigger, has none", id="no trigger"),
        pytest.param(
            scaled_object(ONE, idleReplicaCount=5, minReplicaCount=5),
            "spec.idleReplicaCount: must be < minReplicaCount = 5, is 5",
            id="idle",
        ),
    ],
)
def test_what_keda_refuses_is_told_by_field(manifest: Manifest, problem: str) -> None:
    with pytest.raises(ConfigError, match=r"^web\.yaml") as caught:
        scaled_object_policy(manifest, "web.yaml", "default")
    assert str(caught.value) == f"web.yaml: {problem}"


def test_a_trigger_without_a_number_makes_no_policy() -> None:
    imported = scaled_object_policy(scaled_object(prometheus("many")), "", "")
    assert imported.table is None
    assert imported.notes[0] == 'spec.triggers[0].metadata.threshold: must be a number, is "many"'


def test_the_kind_of_the_target_is_a_deployment_by_default() -> None:
    assert table(scaled_object(ONE))["workload"] == {
        "namespace": "shop", "name": "web", "kind": "Deployment", "api_version": "apps/v1",
    }  # fmt: skip
    other = scaled_object(ONE)
    other["spec"]["scaleTargetRef"] = {**TARGET, "kind": "StatefulSet"}
    assert table(other)["workload"]["kind"] == "StatefulSet"
