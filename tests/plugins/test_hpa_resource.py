"""HPA: One metric, targets Utilization and AverageValue of resources and pods, pass by pass."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import Container, Pod, Quality, Recommendation, Sample
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import NOW, decode, pod, pods, sample, seen, series, use

CPU50 = {"type": "Resource", "resource": "cpu", "utilization": 50}
CPU100 = {"type": "Resource", "resource": "cpu", "utilization": 100}
AVERAGE = {"type": "Resource", "resource": "cpu", "average_value": "100m"}
QPS = {"type": "Pods", "series": "qps", "average_value": "20"}
PENDING: dict[str, Any] = {"phase": "Pending"}


def ask(
    metric: dict[str, Any],
    current: int,
    of: list[Pod],
    samples: list[Sample],
    rules: str = "current",
    **options: Any,
) -> Recommendation:
    hpa = decode(Hpa, metrics=[metric], rules=rules, **options)
    name = metric.get("resource") or metric["series"]
    observation = seen(current, of, series(samples, name))
    return hpa.recommend_replicas(observation.workload, observation)


def mixed(ready: int, *more: dict[str, Any]) -> list[Pod]:
    """Ready pods, then pods with these changes."""
    return pods(ready) + [pod(f"p{ready + index}", **changes) for index, changes in enumerate(more)]


@pytest.mark.parametrize(
    ("current", "of", "values", "replicas"),
    [
        pytest.param(3, pods(3), [0.3, 0.5, 0.7], 3, id="on target"),
        pytest.param(3, pods(3), [0.9, 0.9, 0.9], 6, id="ceil of 5.4"),
        pytest.param(5, pods(5), [0.1] * 5, 1, id="down"),
        pytest.param(5, pods(5), [0.0] * 5, 0, id="a proposal may be 0"),
        pytest.param(3, pods(3), [0.55] * 3, 3, id="edge of the tolerance, 1.1"),
        pytest.param(3, pods(3), [0.559] * 3, 3, id="55.9 % is 55 %: the truncated percent counts"),
        pytest.param(3, pods(3), [0.56] * 3, 4, id="beyond the tolerance, 1.12"),
        pytest.param(10, pods(10), [0.45] * 10, 10, id="lower edge of the tolerance, 0.9"),
        pytest.param(10, pods(10), [0.449] * 10, 9, id="below it, 0.88"),
        pytest.param(3, pods(2), [0.9, 0.9], 4, id="by ready pods, not by current"),
        pytest.param(4, mixed(2, PENDING, PENDING), [0.9, 0.9, None, None], 4, id="up: unready pods get 0, 0.9"),
        pytest.param(4, mixed(2, PENDING, PENDING), [0.9, 0.9, 0.9, 0.9], 4, id="their own samples are dropped"),
        pytest.param(3, mixed(2, PENDING), [1.0, 1.0, None], 4, id="up in spite of an unready pod"),
        pytest.param(3, mixed(2, PENDING), [0.2, 0.2, None], 1, id="down: unready pods stay out"),
        pytest.param(3, pods(3), [0.9, 0.9, None], 4, id="up: a missing pod gets 0"),
        pytest.param(3, pods(3), [0.55, 0.55, None], 3, id="up turns into down: stays"),
        pytest.param(3, pods(3), [0.1, 0.1, None], 3, id="down: a missing pod gets 100 %, 0.8 x 3"),
        pytest.param(8, pods(8), [0.0] * 7 + [None], 2, id="down: 100 % of one of 8 pods, 0.24 x 8"),
        pytest.param(3, pods(3), [0.4, 0.4, None], 3, id="down turns into up: stays"),
        pytest.param(3, pods(3), [0.5, 0.5, None], 3, id="ratio 1: nothing is filled in"),
        pytest.param(4, mixed(2, PENDING, {}), [1.2, 1.2, None, None], 5, id="up: both get 0"),
        pytest.param(9, pods(4), [0.9, 0.9, 0.9, None], 9, id="up, but fewer pods than current: stays"),
        pytest.param(1, pods(4), [0.1, 0.1, 0.1, None], 1, id="down, but more pods than current: stays"),
        pytest.param(3, mixed(2, {"deleted": True}), [0.9, 0.9, 9.0], 4, id="a deleted pod takes no part"),
    ],
)
def test_utilization(current: int, of: list[Pod], values: list[float | None], replicas: int) -> None:
    assert ask(CPU50, current, of, use(*values)).replicas == replicas


@pytest.mark.parametrize(
    ("current", "of", "values", "replicas"),
    [
        pytest.param(4, mixed(2, PENDING, PENDING), [0.5, 0.5, None, None], 4, id="exactly 1: unready pods stay out"),
        pytest.param(4, mixed(2, PENDING, PENDING), [0.52, 0.52, None, None], 4, id="just above 1: they get 0"),
        pytest.param(1, pods(4), [0.52, 0.52, 0.52, None], 1, id="just above 1: a missing pod gets 0"),
        pytest.param(10, pods(10), [0.46] * 9 + [None], 10, id="0.92 turns into 1.02: stays"),
        pytest.param(10, pods(10), [0.52] * 8 + [None] * 2, 10, id="1.04 turns into 0.82: stays"),
        pytest.param(10, pods(10), [0.75] * 7 + [None] * 3, 11, id="1.5 becomes 1.04: up"),
        pytest.param(5, pods(4), [0.17, 0.17, 0.17, None], 3, id="0.34 becomes 0.74 (37 %), by 4 samples"),
    ],
)
def test_utilization_without_tolerance(current: int, of: list[Pod], values: list[float | None], replicas: int) -> None:
    assert ask(CPU50, current, of, use(*values), tolerance=0.0).replicas == replicas


@pytest.mark.parametrize("rules", ["current", "1.20"])
def test_a_missing_pod_gets_exactly_its_request(rules: str) -> None:
    quarter, hundred = CPU50 | {"utilization": 25}, CPU50 | {"utilization": 100}
    assert ask(quarter, 5, pods(4), use(0.0, 0.0, 0.0, None), rules, tolerance=0.0).replicas == 5  # 25 %
    assert ask(hundred, 2, pods(2), use(0.01, None), rules, tolerance=0.0).replicas == 1  # 50 % of 50.5


def test_starting_pods_count_for_memory_but_not_for_cpu() -> None:
    young: dict[str, Any] = {
        "started": NOW - 60,
        "ready": False,
        "ready_changed": NOW - 55,
        "containers": (Container("web", {"cpu": 1, "memory": 1}),),
    }
    of = [pod("p0", containers=young["containers"]), pod("p1", **young)]
    assert ask(CPU50, 2, of, use(0.1, 0.9)).replicas == 1
    assert ask(CPU50 | {"resource": "memory"}, 2, of, use(0.1, 0.9)).replicas == 2
    assert ask(CPU50, 2, of, use(0.1, 0.9), cpu_initialization_period=30, initial_readiness_delay=0).replicas == 2


def test_negative_averages_are_truncated_towards_zero() -> None:
    assert ask(QPS, 2, pods(2), use(-0.001, 0.0)).measures[0].current == "0"


def test_the_missing_pod_fill_differs_between_the_rules() -> None:
    metric, values = CPU50 | {"utilization": 200}, use(1.5, 1.5, 1.5, None)
    assert ask(metric, 4, pods(4), values).replicas == 4  # (1.5 * 3 + 2) / 4 = 162 %, 0.81 x 4 = 3.24
    assert ask(metric, 4, pods(4), values, "1.20").replicas == 3  # (1.5 * 3 + 1) / 4 = 137 %, 0.685 x 4 = 2.74


def test_samples_of_unknown_pods_count_only_as_samples() -> None:
    ghosts = [*use(0.9, 0.9), sample("ghost", 5.0)]
    assert ask(CPU50, 2, pods(2), ghosts).replicas == 4  # first pass: by ready pods
    assert ask(CPU50, 3, pods(3), ghosts).replicas == 5  # second: 60 % of 3 known, x 4 samples


@pytest.mark.parametrize(
    ("ratio_percent", "rules", "replicas"),
    [
        (110, "current", 10),
        (111, "current", 12),
        (110, "1.20", 11),
        (90, "current", 10),
        (90, "1.20", 10),
        (89, "1.20", 9),
    ],
)
def test_the_edge_of_the_tolerance(ratio_percent: int, rules: str, replicas: int) -> None:
    assert ask(CPU100, 10, pods(10), use(*[ratio_percent / 100] * 10), rules).replicas == replicas


@pytest.mark.parametrize(
    ("load", "up", "down", "replicas"),
    [
        pytest.param(1.15, 0.2, 0.1, 10, id="wider up"),
        pytest.param(1.15, 0.1, 0.2, 12, id="up has its own"),
        pytest.param(0.85, 0.1, 0.2, 10, id="wider down"),
        pytest.param(1.01, 0.0, 0.1, 11, id="0 is allowed"),
        pytest.param(1.0, 0.0, 0.0, 10, id="exactly 1 within 0"),
        pytest.param(1.15, None, 0.0, 12, id="falls back to tolerance"),
        pytest.param(1.05, 0.02, 0.2, 11, id="just above 1 it is up's"),
        pytest.param(0.5, 0.1, 0.5, 10, id="exactly at the edge, down"),
        pytest.param(1.5, 0.5, 0.1, 10, id="exactly at the edge, up"),
    ],
)
@pytest.mark.parametrize("rules", ["current", "1.20"])
def test_each_direction_has_its_tolerance(
    load: float, up: float | None, down: float, replicas: int, rules: str
) -> None:
    behavior = {"scale_up": {} if up is None else {"tolerance": up}, "scale_down": {"tolerance": down}}
    assert ask(CPU100, 10, pods(10), use(*[load] * 10), rules, behavior=behavior).replicas == replicas


@pytest.mark.parametrize(
    ("metric", "current", "of", "values", "rules", "replicas"),
    [
        pytest.param(AVERAGE, 3, pods(3), [0.2] * 3, "current", 6, id="resource, up"),
        pytest.param(AVERAGE, 3, pods(3, None), [0.2] * 3, "current", 6, id="resource: needs no requests"),
        pytest.param(AVERAGE, 3, mixed(2, PENDING), [0.2, 0.2, None], "current", 4, id="resource: unready get 0"),
        pytest.param(QPS, 3, pods(3), [30.0] * 3, "current", 5, id="pods, up"),
        pytest.param(QPS, 3, pods(3), [10.0] * 3, "current", 2, id="pods, down"),
        pytest.param(QPS, 3, pods(3), [29.9999, 30.0, 30.0], "current", 5, id="pods, rounded up"),
        pytest.param(QPS, 3, mixed(2, {"ready": False}), [30.0] * 3, "current", 5, id="pods: not ready counts"),
        pytest.param(QPS, 3, mixed(2, PENDING), [30.0] * 3, "current", 3, id="pods: pending gets 0"),
        pytest.param(QPS, 3, pods(3), [2.0, 2.0, None], "current", 2, id="down: missing gets the target, 0.4 x 3"),
        pytest.param(QPS, 3, pods(3), [50.0, 50.0, None], "current", 5, id="up: missing gets 0"),
        pytest.param(QPS, 3, pods(3), [20.0, 20.0, None], "current", 3, id="ratio 1: nothing filled in"),
        pytest.param(QPS, 3, pods(3), [20.0, 20.0, None], "1.20", 2, id="1.20, ratio 1: 0 is filled in"),
        pytest.param(QPS, 9, pods(4), [40.0, 40.0, 40.0, None], "current", 9, id="fewer pods than current: stays"),
        pytest.param(QPS, 9, pods(4), [40.0, 40.0, 40.0, None], "1.20", 6, id="1.20: does not look"),
        pytest.param(QPS, 1, pods(4), [1.0, 1.0, 1.0, None], "current", 1, id="more pods than current: stays"),
        pytest.param(QPS, 1, pods(4), [1.0, 1.0, 1.0, None], "1.20", 2, id="1.20: does not look, down"),
    ],
)
def test_plain_average(
    metric: dict[str, Any], current: int, of: list[Pod], values: list[float | None], rules: str, replicas: int
) -> None:
    assert ask(metric, current, of, use(*values), rules).replicas == replicas


def test_the_average_is_truncated() -> None:
    metric = QPS | {"average_value": "10"}
    assert ask(metric, 3, pods(3), use(11.0, 11.0, 11.002)).replicas == 3  # 11.000(66) is 11: just tolerated


def test_a_named_container() -> None:
    both = (Container("web", {"cpu": 1.0}), Container("log"))
    metric = CPU50 | {"type": "ContainerResource", "container": "web"}
    samples = [sample("p0", 0.9, "web"), sample("p0", 5.0, "log"), sample("p1", 0.9, "web")]
    said = ask(metric, 2, pods(2, containers=both), samples)
    assert (said.replicas, said.reason) == (
        4,
        "cpu container resource utilization (percentage of request) above target",
    )


@pytest.mark.parametrize(
    ("web", "replicas"),
    [
        pytest.param([0.2, 0.2], 4, id="up"),
        pytest.param([0.11, 0.11], 2, id="tolerated"),
        pytest.param([0.05, 0.05], 1, id="down"),
        pytest.param([0.2, None], 2, id="up turns into tolerated: a pod without the container gets 0"),
        pytest.param([0.01, None], 2, id="down: it gets the target"),
    ],
)
def test_a_named_containers_average_value_ignores_requests_and_other_containers(
    web: list[float | None], replicas: int
) -> None:
    metric = AVERAGE | {"type": "ContainerResource", "container": "web"}
    samples = [sample(f"p{index}", value, "web") for index, value in enumerate(web) if value is not None]
    noise = [sample(f"p{index}", 5.0, "log") for index in range(len(web))]
    said = ask(metric, 2, pods(2, None), [*samples, *noise])
    assert (said.replicas, said.measures[0].target) == (replicas, "100m")
    assert said.measures[0].metric == "cpu of web"


def test_a_missing_container_fails_all_pods_only_in_1_20() -> None:
    metric = CPU50 | {"type": "ContainerResource", "container": "web"}
    samples = [sample("p0", 0.9, "web"), sample("p1", 5.0, "log")]
    assert ask(metric, 2, pods(2), samples).replicas == 2
    old = ask(metric, 2, pods(2), samples, "1.20")
    assert (old.replicas, old.reason) == (None, "FailedGetContainerResourceMetric")
    assert old.measures[0].message == "container web not present in metrics for pod p1"


@pytest.mark.parametrize("rules", ["current", "1.20"])
@pytest.mark.parametrize(
    ("whole", "apart", "replicas"),
    [
        pytest.param([0.9], [0.9], 4, id="up"),
        pytest.param([], [0.9, 0.9], 4, id="also where no pod is whole"),
        pytest.param([0.1], [0.1], 1, id="down"),
        pytest.param([], [0.1], 2, id="a pod that was not heard of counts as fully used"),
    ],
)
def test_of_a_named_container_only_its_own_sample_counts(
    whole: list[float], apart: list[float], replicas: int, rules: str
) -> None:
    """A sibling without one takes nothing away from it, and everything from the pod."""
    both = (Container("web", {"cpu": 1.0}), Container("log", {"cpu": 1.0}))
    good = [sample(f"p{index}", value, name) for index, value in enumerate(whole) for name in ("web", "log")]
    halves = tuple(sample(f"p{len(whole) + index}", value, "web") for index, value in enumerate(apart))
    quality = Quality.PARTIAL if whole else Quality.EMPTY
    cpu = replace(series(good, "cpu", quality), apart=halves, covered=False)
    observation = seen(2, pods(2, containers=both), cpu)
    named = decode(Hpa, metrics=[CPU50 | {"type": "ContainerResource", "container": "web"}], rules=rules)
    assert named.recommend_replicas(observation.workload, observation).replicas == replicas
    other = decode(Hpa, metrics=[CPU50 | {"type": "ContainerResource", "container": "log"}], rules=rules)
    assert other.recommend_replicas(observation.workload, observation).replicas is None
    assert decode(Hpa, metrics=[CPU50]).recommend_replicas(observation.workload, observation).replicas is None


@pytest.mark.parametrize(
    ("metric", "of", "samples", "message"),
    [
        pytest.param(CPU50, pods(2), [], "unable to get metric cpu: no metrics returned", id="no samples"),
        pytest.param(CPU50, [], use(0.9), "no pods returned by selector", id="no pods"),
        pytest.param(CPU50, pods(2, **PENDING), use(0.9, 0.9), "pods might be unready", id="all unready"),
        pytest.param(CPU50, pods(2, None), use(0.9, 0.9), "missing request for cpu", id="no requests"),
        pytest.param(
            CPU50,
            mixed(1, {"deleted": True, "containers": (Container("x"),)}),
            use(0.9),
            "missing request",
            id="an ignored pod has none",
        ),
        pytest.param(CPU50, pods(1), [sample("ghost", 1.0)], "no metrics returned matched", id="unknown pods only"),
        pytest.param(CPU50, pods(1, 0.0), use(0.9), "no metrics returned matched", id="requests of 0"),
        pytest.param(
            CPU50 | {"type": "ContainerResource", "container": "log"},
            pods(1),
            use(0.9),
            "of container log: no metrics",
            id="no such container",
        ),
        pytest.param(QPS, [], use(9.0), "no pods returned by selector", id="pods metric, no pods"),
    ],
)
def test_what_cannot_be_known_fails(metric: dict[str, Any], of: list[Pod], samples: list[Sample], message: str) -> None:
    said = ask(metric, 2, of, samples)
    reason = f"FailedGet{metric['type']}Metric"
    assert (said.replicas, said.reason, said.measures[0].reason) == (None, reason, reason)
    assert message in said.message
    assert message in said.measures[0].message


@pytest.mark.parametrize("quality", [Quality.EMPTY, Quality.ERROR])
def test_empty_and_failed_series_fail_with_their_message(quality: Quality) -> None:
    observation = seen(2, pods(2), series([], "cpu", quality, "503 from the metrics API"))
    said = Hpa().recommend_replicas(observation.workload, observation)
    assert (said.replicas, said.reason) == (None, "FailedGetResourceMetric")
    assert said.measures[0].message == "unable to get metric cpu: 503 from the metrics API"


def test_a_series_nobody_provides_fails() -> None:
    observation = seen(2, pods(2))
    said = Hpa().recommend_replicas(observation.workload, observation)
    assert (said.replicas, said.measures[0].message) == (
        None,
        "unable to get metric cpu: there is no such series",
    )


@pytest.mark.parametrize("quality", [Quality.STALE, Quality.INVALID])
@pytest.mark.parametrize(("load", "replicas"), [(1.6, 4), (0.8, 2), (0.1, None)])
def test_with_up_only_doubtful_samples_never_lower_the_count(
    quality: Quality, load: float, replicas: int | None
) -> None:
    observation = seen(2, pods(2), series(use(load, load), "cpu", quality, "NaN of p7", may_raise=True))
    said = Hpa().recommend_replicas(observation.workload, observation)
    assert said.replicas == replicas
    if replicas is None:
        assert said.measures[0].message == f"cpu is {quality.value} and must not lower the count: NaN of p7"


@pytest.mark.parametrize("quality", [Quality.STALE, Quality.INVALID])
@pytest.mark.parametrize("load", [1.6, 0.8, 0.1], ids=["up", "keep", "down"])
def test_doubtful_samples_say_nothing_by_default(quality: Quality, load: float) -> None:
    observation = seen(2, pods(2), series(use(load, load), "cpu", quality, "NaN of p7"))
    said = Hpa().recommend_replicas(observation.workload, observation)
    assert said.replicas is None
    assert said.measures[0].message == f"unable to trust metric cpu, which is {quality.value}: NaN of p7"


def test_partial_samples_follow_the_rules_for_missing_pods() -> None:
    observation = seen(8, pods(8), series(use(*[0.0] * 7, None), "cpu", Quality.PARTIAL))
    assert Hpa().recommend_replicas(observation.workload, observation).replicas == 2


@pytest.mark.parametrize(
    ("metric", "values", "current", "target"),
    [
        pytest.param(CPU50, [0.616, 0.616], "61%", "50%", id="percent, truncated"),
        pytest.param(AVERAGE, [0.2501, 0.25], "250m", "100m", id="thousandths, truncated"),
        pytest.param(QPS, [1500.0, 1500.0], "1500", "20", id="whole"),
        pytest.param(CPU50, [0.9, None], "90%", "50%", id="the first pass is reported"),
    ],
)
def test_measures_read_as_the_hpa_prints_them(
    metric: dict[str, Any], values: list[float | None], current: str, target: str
) -> None:
    (measure,) = ask(metric, 2, pods(2), use(*values)).measures
    assert (measure.current, measure.target) == (current, target)


@pytest.mark.parametrize("value", [1e18, 1e300])
@pytest.mark.parametrize("metric", [CPU50, AVERAGE])
def test_absurd_amounts_are_capped(metric: dict[str, Any], value: float) -> None:
    assert ask(metric, 2, pods(2, 0.001), use(value, value)).replicas == 2**31 - 1


IDLE_OR_WITHOUT = "as idle where more are asked for, else without it"
YOUNG = {"started": NOW - 60, "ready_changed": NOW - 15}
TOO_YOUNG = f"too young, not measured for a whole window since it was ready; {IDLE_OR_WITHOUT}"
NO_SAMPLE = "no sample; as idle where more are asked for, as fully used where fewer are"


@pytest.mark.parametrize(
    ("metric", "of", "values", "told"),
    [
        pytest.param(CPU50, pods(3), [0.5] * 3, [], id="none"),
        pytest.param(CPU50, pods(3), [0.5, 0.5, None], [(NO_SAMPLE, 1, ("p2",))], id="no sample"),
        pytest.param(CPU50, mixed(2, PENDING, PENDING), [0.5] * 4,
                     [(f"pending; {IDLE_OR_WITHOUT}", 2, ("p2", "p3"))], id="pending"),
        pytest.param(CPU50, mixed(2, YOUNG), [0.5] * 3, [(TOO_YOUNG, 1, ("p2",))], id="too young"),
        pytest.param(CPU50, mixed(2, {"started": NOW - 60, "ready": False}), [0.5] * 3,
                     [(f"not ready yet; {IDLE_OR_WITHOUT}", 1, ("p2",))], id="not ready"),
        pytest.param(CPU50, mixed(2, {"deleted": True}, {"phase": "Failed"}), [0.5] * 4,
                     [("deleted, takes no part", 1, ("p2",)), ("failed, takes no part", 1, ("p3",))], id="ignored"),
        pytest.param(CPU50, mixed(1, PENDING, {"deleted": True}, {}, YOUNG), [0.5, 0.5, 0.5, None, 0.5],
                     [("deleted, takes no part", 1, ("p2",)), (f"pending; {IDLE_OR_WITHOUT}", 1, ("p1",)),
                      (TOO_YOUNG, 1, ("p4",)), (NO_SAMPLE, 1, ("p3",))], id="all of them"),
        pytest.param(CPU50, pods(14), [0.5] + [None] * 13,
                     [(NO_SAMPLE, 13, tuple(sorted(f"p{index}" for index in range(1, 14))[:10]))], id="many"),
        pytest.param(CPU50, pods(2, **PENDING), [0.5, 0.5], [(f"pending; {IDLE_OR_WITHOUT}", 2, ("p0", "p1"))],
                     id="also where it cannot be known for lack of others"),
        pytest.param(AVERAGE, mixed(2, YOUNG), [0.1] * 3, [(TOO_YOUNG, 1, ("p2",))], id="of an average"),
        pytest.param(QPS, mixed(2, YOUNG), [20.0] * 3, [], id="a metric of pods counts young ones"),
        pytest.param(QPS, mixed(2, PENDING), [20.0] * 3, [(f"pending; {IDLE_OR_WITHOUT}", 1, ("p2",))], id="of pods"),
    ],
)  # fmt: skip
def test_pods_that_a_rule_leaves_out_are_reported_with_reasons(
    metric: dict[str, Any], of: list[Pod], values: list[float | None], told: list[tuple[str, int, tuple[str, ...]]]
) -> None:
    (measure,) = ask(metric, len(of), of, use(*values)).measures
    assert [(one.why, one.count, one.pods) for one in measure.left_out] == told
