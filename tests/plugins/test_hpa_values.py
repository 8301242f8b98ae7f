"""HPA: One metric, Object and External, and how several metrics become one recommendation."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Observation, Quality, Recommendation
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import decode, judge, pod, pods, sample, seen, series, use

OBJECT = {"type": "Object", "series": "queue", "value": "100"}
OBJECT_EACH = {"type": "Object", "series": "queue", "average_value": "10"}
EXTERNAL = {"type": "External", "series": "queue", "value": "100"}
EXTERNAL_EACH = {"type": "External", "series": "queue", "average_value": "10"}
CPU50 = {"type": "Resource", "resource": "cpu", "utilization": 50}
QPS = {"type": "Pods", "series": "qps", "average_value": "20"}
INFINITE = 2**31 - 1


def ask(observation: Observation, *metrics: dict[str, Any], **options: Any) -> Recommendation:
    return decode(Hpa, metrics=metrics, **options).recommend_replicas(observation.workload, observation)


def queue(*values: float, quality: Quality = Quality.FRESH) -> Any:
    return series([sample("", value) for value in values], "queue", quality)


@pytest.mark.parametrize("metric", [OBJECT, EXTERNAL], ids=["object", "external"])
@pytest.mark.parametrize(
    ("current", "ready", "value", "replicas"),
    [
        pytest.param(4, 4, 150.0, 6, id="up"),
        pytest.param(4, 4, 49.0, 2, id="down"),
        pytest.param(4, 4, 0.0, 0, id="to nothing"),
        pytest.param(4, 4, 110.0, 4, id="edge of the tolerance"),
        pytest.param(4, 4, 110.001, 5, id="beyond it"),
        pytest.param(4, 2, 150.0, 3, id="by ready pods, not by current"),
        pytest.param(4, 2, 105.0, 4, id="tolerated: current, not ready pods"),
        pytest.param(4, 4, 1e300, INFINITE, id="capped"),
        pytest.param(0, 0, 250.0, 3, id="from 0: ceil of the ratio"),
        pytest.param(0, 0, 105.0, 2, id="from 0: no tolerance"),
        pytest.param(0, 0, 1.0, 1, id="from 0: anything wakes it"),
        pytest.param(0, 0, 0.0, 0, id="from 0: nothing does not"),
        pytest.param(0, 0, 1e300, INFINITE, id="from 0: capped"),
    ],
)
def test_value(metric: dict[str, Any], current: int, ready: int, value: float, replicas: int) -> None:
    not_ready = [
        pod("x0", ready=False),
        pod("x1", phase="Pending"),
        pod("x2", phase="Succeeded"),
        pod("x3", ready=None),
    ]
    of = [*pods(ready), *not_ready] if current else []
    assert ask(seen(current, of, queue(value)), metric).replicas == replicas


@pytest.mark.parametrize("metric", [OBJECT, EXTERNAL], ids=["object", "external"])
@pytest.mark.parametrize(
    ("value", "shown", "replicas"),
    [
        pytest.param(150.0, 4, None, id="the others carry it too"),
        pytest.param(450.0, 4, 18, id="even those need more"),
        pytest.param(150.0, 16, 24, id="all are seen"),
        pytest.param(50.0, 16, 8, id="all are seen, and fewer do"),
    ],
)
def test_a_value_of_unseen_pods_lowers_no_count(
    metric: dict[str, Any], value: float, shown: int, replicas: int | None
) -> None:
    """The watch of pods has fallen silent, and their controller counts 16."""
    said = ask(seen(16, pods(shown), queue(value)), metric)
    assert said.replicas == replicas
    told = "unable to calculate ready pods: of 16 pods that its controller counts, the watch of pods shows 4"
    assert replicas is not None or told in said.message


def test_a_value_of_unseen_pods_holds_by_old_rules() -> None:
    """By these a metric that fails keeps no other from scaling in."""
    observation = seen(16, pods(4), queue(350.0), series([sample("", 40.0)], "mails"))
    mails = {"type": "External", "series": "mails", "average_value": "10"}
    assert ask(observation, EXTERNAL, mails, rules="1.20").replicas == 16


def test_a_deleted_pod_that_is_still_ready_counts_for_value() -> None:
    assert ask(seen(2, pods(2, deleted=True), queue(200.0)), OBJECT).replicas == 4


@pytest.mark.parametrize("metric", [OBJECT_EACH, EXTERNAL_EACH], ids=["object", "external"])
@pytest.mark.parametrize(
    ("current", "status", "value", "replicas", "shown"),
    [
        pytest.param(4, 4, 60.0, 6, "15", id="up"),
        pytest.param(4, 4, 20.0, 2, "5", id="down"),
        pytest.param(4, 4, 41.0, 4, "10250m", id="tolerated"),
        pytest.param(4, 6, 61.0, 6, "10167m", id="tolerated: status, not spec; shown rounded up"),
        pytest.param(4, 4, 44.0, 4, "11", id="edge of the tolerance"),
        pytest.param(0, 0, 25.0, 3, "25", id="n = 0: infinite ratio"),
        pytest.param(0, 0, 0.0, 0, "0", id="n = 0: undefined ratio"),
        pytest.param(4, 0, 10.0, 1, "10", id="n = 0 though 4 are asked for"),
        pytest.param(4, 4, 1e300, INFINITE, None, id="capped"),
        pytest.param(1, 1, 1e300, INFINITE, f"{2**63 - 1}m", id="and shown as no more than the controller can hold"),
    ],
)
def test_average_value(
    metric: dict[str, Any], current: int, status: int, value: float, replicas: int, shown: str | None
) -> None:
    said = ask(seen(current, pods(current), queue(value), status=status), metric)
    assert said.replicas == replicas
    assert said.measures[0].target == "10 (avg)"
    assert shown in {None, said.measures[0].current}


def test_an_average_below_spec_counts_as_lower() -> None:
    observation = seen(6, pods(6), series([sample("", 41.0)], "queue", Quality.STALE, may_raise=True), status=4)
    assert ask(observation, OBJECT_EACH).replicas is None


def test_external_sums_all_samples_each_rounded_up_and_capped() -> None:
    assert ask(seen(1, pods(1), queue(99.9991, 100.0001)), EXTERNAL).measures[0].current == "200001m"
    many = queue(*[9e15] * 3)
    assert ask(seen(1, pods(1), many), EXTERNAL).measures[0].current == f"{2**63 - 1}m"


def test_object_takes_the_newest_sample_of_no_pod() -> None:
    samples = [sample("", 500.0, age=60), sample("", 200.0, age=5), sample("p0", 900.0, age=1)]
    assert ask(seen(1, pods(1), series(samples, "queue")), OBJECT).replicas == 2


@pytest.mark.parametrize(
    ("metric", "observation", "message"),
    [
        pytest.param(OBJECT, seen(2, pods(2)), "there is no such series", id="object, no series"),
        pytest.param(OBJECT, seen(2, pods(2), queue()), "no metrics returned", id="object, no samples"),
        pytest.param(OBJECT, seen(2, pods(2), series(use(5.0), "queue")), "no metrics returned", id="pods' only"),
        pytest.param(EXTERNAL, seen(2, pods(2), queue()), "no metrics returned", id="external, no samples"),
        pytest.param(OBJECT, seen(2, [], queue(500.0)), "no pods returned by selector", id="no pods to count"),
        pytest.param(EXTERNAL, seen(2, pods(2), queue(5.0, quality=Quality.PARTIAL)), "is partial", id="part of a sum"),
        pytest.param(EXTERNAL, seen(2, pods(2), queue(5.0, quality=Quality.STALE)), "which is stale", id="stale"),
        pytest.param(OBJECT, seen(2, pods(2), queue(5.0, quality=Quality.ERROR)), "no metrics", id="error"),
    ],
)
def test_what_cannot_be_known_fails(metric: dict[str, Any], observation: Observation, message: str) -> None:
    said = ask(observation, metric)
    assert (said.replicas, said.reason) == (None, f"FailedGet{metric['type']}Metric")
    assert message in said.message


def test_resources_fail_at_zero_but_a_queue_still_wakes() -> None:
    observation = seen(0, [], series([], "cpu", Quality.EMPTY), queue(250.0))
    assert ask(observation, CPU50).reason == "FailedGetResourceMetric"
    said = ask(observation, CPU50, EXTERNAL)
    assert (said.replicas, said.reason) == (3, "external metric queue above target")


def loads(cpu: float | None, qps: float | None, waiting: float | None, current: int = 4) -> Observation:
    """A workload of ready pods under loads; None: a failing metric."""
    of = pods(current)
    given = []
    if cpu is not None:
        given.append(series(use(*[cpu] * current)))
    if qps is not None:
        given.append(series(use(*[qps] * current), "qps"))
    if waiting is not None:
        given.append(queue(waiting))
    return seen(current, of, *given)


ABOVE_CPU = "cpu resource utilization (percentage of request) above target"
NO_CPU, NO_QPS = "FailedGetResourceMetric", "FailedGetPodsMetric"


@pytest.mark.parametrize(
    ("observation", "rules", "replicas", "reason"),
    [
        pytest.param(loads(1.0, 40.1, 100), "current", 9, "pods metric qps above target", id="the highest"),
        pytest.param(loads(1.0, 40.0, 100), "current", 8, ABOVE_CPU, id="the first of equals"),
        pytest.param(loads(0.1, 5.0, 30), "current", 2, "All metrics below target", id="all below"),
        pytest.param(loads(0.1, 20.0, 30), "current", 4, "no metric asks for a change", id="one keeps it"),
        pytest.param(loads(None, None, None), "current", None, NO_CPU, id="all failed: the first's reason"),
        pytest.param(loads(None, None, None), "1.20", None, NO_CPU, id="1.20, all failed"),
        pytest.param(loads(None, 5.0, 30), "current", None, NO_CPU, id="some failed, down: nothing"),
        pytest.param(loads(0.1, None, 30), "current", None, NO_QPS, id="some failed, down: the failed one's reason"),
        pytest.param(loads(None, 5.0, 30), "1.20", 2, "All metrics below target", id="1.20, some failed: down"),
        pytest.param(loads(None, 20.0, 30), "current", 4, "no metric asks for a change", id="some failed, keep"),
        pytest.param(loads(None, 40.0, 30), "current", 8, "pods metric qps above target", id="some failed, up"),
        pytest.param(loads(0.0, 0.0, 0), "current", 0, "All metrics below target", id="the best may be 0"),
    ],
)
def test_several_metrics(observation: Observation, rules: str, replicas: int | None, reason: str) -> None:
    said = ask(observation, CPU50, QPS, OBJECT, rules=rules)
    assert (said.replicas, said.reason) == (replicas, reason)
    assert [measure.metric for measure in said.measures] == ["cpu", "pods/qps", "object/queue"]


def test_a_failing_metric_is_reported_even_when_others_decide() -> None:
    said = ask(loads(None, 40.0, None), CPU50, QPS, OBJECT)
    assert said.message == ("2 of 3 metrics failed, first: unable to get metric cpu: there is no such series")
    assert [measure.reason for measure in said.measures] == [NO_CPU, "", "FailedGetObjectMetric"]


@pytest.mark.parametrize(
    ("observation", "reason", "message"),
    [
        pytest.param(seen(2, pods(2), selector=""), "InvalidSelector", "missing a selector", id="no selector"),
        pytest.param(
            seen(2, pods(2), fault=("AmbiguousSelector", "pods of shop/b too")),
            "AmbiguousSelector",
            "pods of shop/b too",
            id="ambiguous",
        ),
    ],
)
def test_a_faulty_selector_says_nothing_about_replicas(observation: Observation, reason: str, message: str) -> None:
    said = ask(observation, CPU50)
    assert (said.replicas, said.reason, said.measures) == (None, reason, ())
    assert message in said.message


@pytest.mark.parametrize(
    ("current", "least", "most", "replicas"),
    [
        pytest.param(0, 1, 10, 0, id="paused"),
        pytest.param(20, 1, 10, 10, id="above max, without metrics"),
        pytest.param(1, 3, 10, 3, id="below min, without metrics"),
        pytest.param(5, 1, 10, 5, id="within: nothing known, held"),
    ],
)
def test_bounds_come_before_metrics(current: int, least: int, most: int, replicas: int) -> None:
    assert judge(Hpa(), seen=seen(current, pods(current)), bounds=(least, most)).replicas == replicas


def test_unready_pods_are_told_where_a_value_multiplies_ready_ones() -> None:
    of = [*pods(2), *[replace(one, name=f"q{one.name}", ready=False) for one in pods(2)]]
    (measure,) = ask(seen(4, of, queue(500.0)), EXTERNAL).measures
    why = "not running and ready; a value is multiplied by those that are"
    assert [(one.why, one.count, one.pods) for one in measure.left_out] == [(why, 2, ("qp0", "qp1"))]
    assert ask(seen(2, pods(2), queue(500.0)), EXTERNAL).measures[0].left_out == ()
