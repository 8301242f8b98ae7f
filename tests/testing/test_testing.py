"""What plugin authors test with: it lets good strategies pass, and catches bad ones."""

import itertools
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.api import Limit, Observation, Recommendation, Strategy, Workload, hookimpl
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.options import NodeTable, WorkloadTable
from elasticd.kit.history import begin
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.records import Decision
from elasticd.model.workload import Quality
from elasticd.registry import discover
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.testing import NOW, check_strategy, judge, observation, registry, simulate

COUNTER = itertools.count(1)


class Good(Strategy, tag="good", frozen=True):
    """One pod for each half core used."""

    def reads(self) -> tuple[str, ...]:
        return ("cpu", "qps")

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        cpu = observation.series["cpu"]
        if not cpu.trusted or not observation.series["qps"].message:
            return Recommendation(None, "NoMetrics", cpu.message)
        return Recommendation(round(sum(sample.value for sample in cpu.samples) * 2), "Used")


class Fickle(Strategy, tag="fickle", frozen=True):
    """Wants another count each time."""

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(5 + next(COUNTER), "Fickle")


class Rash(Strategy, tag="rash", frozen=True):
    """Takes what it does not know for nothing, behind a limit that hides it."""

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        cpu = observation.series.get("cpu")
        return Recommendation(round(sum(sample.value for sample in cpu.samples)) if cpu else 0, "Rash")

    @hookimpl
    def limit(self, observation: Observation) -> Limit:
        return Limit("Steady", lowest=observation.workload.replicas)


class Rough(Strategy, tag="rough", frozen=True):
    """Divides by what may be zero."""

    @hookimpl
    def recommend_replicas(self, workload: Workload, observation: Observation) -> Recommendation:
        samples = observation.series["cpu"].samples
        return Recommendation(max(workload.replicas, round(sum(one.value for one in samples) / len(samples))), "Mean")


class Grabby(Strategy, tag="grabby", frozen=True):
    """Changes what it is shown."""

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> None:
        observation.series.clear()


class Babbling(Strategy, tag="babbling", frozen=True):
    """Answers with a word."""

    @hookimpl
    def recommend_replicas(self) -> Any:
        return "many"


BUNDLED = {name: one.type for name, one in discover().strategies.items()}


def with_defaults(name: str) -> Strategy:
    hours = {"start": "0 8 * * *", "duration": 43200}
    needed: dict[str, dict[str, Any]] = {
        "forecast": {"series": "requests_forecast", "target": 100.0},
        "rate": {"up": [{"type": "Pods", "value": 4, "period": 15}]},
        "schedule": {"windows": [{**hours, "replicas": 2}], "default": 1},
        "blackout": {"windows": [hours]},
        "scheduled-bounds": {"windows": [{**hours, "max": 2}]},
        "event": {"triggers": [{"series": "cpu", "value": 1}, {"series": "queue", "average_value": 5}]},
        "spread": {"subsets": [{"name": "base", "labels": {"pool": "base"}, "max": 2}, {"name": "elastic"}]},
        "subsets": {"subsets": [{"name": "base", "labels": {"pool": "base"}, "max": 2}, {"name": "elastic"}]},
        "jobs": {"queue": [{"series": "queue_length"}]},
        "staged": {"down": {"percent": 50}, "guards": [{"series": "errors", "above": 0.1}]},
    }
    made: Strategy = msgspec.convert({"type": name, **needed.get(name, {})}, BUNDLED[name])
    return made


@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_every_bundled_strategy_does_nothing_that_no_strategy_may(name: str) -> None:
    assert check_strategy(with_defaults(name)) == []


class Fixed(Strategy, tag="fixed", frozen=True):
    """One replica, whatever there is to know."""

    def reads(self) -> tuple[str, ...]:
        return ()

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(1, "Fixed")


def test_what_looks_at_nothing_may_shrink_without_knowing_anything() -> None:
    assert check_strategy(Fixed()) == []


def test_a_good_strategy_passes() -> None:
    assert check_strategy(Good()) == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        pytest.param(Fickle(), "idle: answered differently when asked again", id="not-deterministic"),
        pytest.param(Rash(), "unknown: NaN: wished to shrink from 3 to 0", id="shrinks-on-unknown-behind-a-limit"),
        pytest.param(Rash(), "unknown: nothing was read: wished to shrink from 3 to 0", id="shrinks-on-nothing"),
        pytest.param(
            Rough(), "unknown: NaN: recommend_replicas raised ZeroDivisionError: division by zero", id="raises"
        ),
        pytest.param(Rough(), "unknown: nothing was read: recommend_replicas raised KeyError: 'cpu'", id="misses"),
        pytest.param(Grabby(), "busy: changed what it was shown", id="changes-what-it-is-shown"),
        pytest.param(
            Babbling(), 'busy: recommend_replicas returned "many": must be a Recommendation', id="answers-nonsense"
        ),
    ],
)
def test_a_bad_strategy_is_caught(bad: Strategy, problem: str) -> None:
    assert problem in check_strategy(bad)


def test_an_observation_has_a_ready_pod_for_each_use() -> None:
    seen = observation([0.5, 0.7], request=2.0, series={"qps": 30.0})
    assert [pod.name for pod in seen.pods] == ["web-0", "web-1"]
    assert all(pod.ready and pod.containers[0].requests == {"cpu": 2.0} for pod in seen.pods)
    assert [sample.value for sample in seen.series["cpu"].samples] == [0.5, 0.7]
    assert (seen.series["qps"].quality, seen.series["qps"].samples[0].value) == (Quality.FRESH, 30.0)
    assert (seen.at, seen.confirmed, seen.workload.replicas) == (NOW, NOW, 2)
    assert observation([], replicas=4).workload.replicas == 4


def test_one_line_is_enough_to_judge() -> None:
    decision = judge(BUNDLED["hpa"](), seen=observation([0.9, 0.9]), bounds=(1, 20))
    assert (decision.verdict, decision.current, decision.replicas) == ("scale", 2, 3)


def test_a_past_and_limits_may_be_given_to_judge() -> None:
    seen = observation([0.1] * 4)
    old = begin(seen.at - 1000, 4)
    assert judge(BUNDLED["hpa"](), seen=seen, past=old).replicas == 1
    assert judge(BUNDLED["hpa"](), seen=seen, past=old, limits=[Rash()]).replicas == 4


def test_a_registry_of_ones_own_modules_refuses_at_once() -> None:
    good, bad = ModuleType("good"), ModuleType("bad")
    vars(good)["register_strategies"] = hookimpl(lambda: [Good])
    vars(bad)["register_strategies"] = hookimpl(lambda: None)
    assert list(registry(good).strategies) == ["good"]
    with pytest.raises(ValueError, match=r"^plugin bad: register_strategies: must return types, raised TypeError"):
        registry(good, bad)


@pytest.mark.slow
async def test_an_hour_is_simulated_in_no_time() -> None:
    cluster = Simulated(
        nodes=(NodeTable(name="node", count=2, cpu="8", memory="16Gi"),),
        workloads=(WorkloadTable(name="web", namespace="default", replicas=4),),
    )
    policy = Policy(
        name="p",
        replicas=Bounds(10),
        strategies=(BUNDLED["hpa"](),),
        workload=Target("default", "web"),
        mode="act",
        interval=30.0,
    )
    journal = await simulate(cluster, [policy], 3600, sources=[ResourceMetrics()])
    decision = journal.latest("p", policy.workload.ref if policy.workload else None)  # type: ignore[arg-type]
    assert isinstance(decision, Decision)
    assert decision.at > 3500
    assert replace(decision, id="").policy == "p"
