"""Runs of which nobody reads each decision leave decisions out, and nothing else: all counts change as without that, at
the same times and for the same reasons, and all else that such a run tells of is the same."""

import asyncio
from datetime import UTC, datetime
from math import ceil
from typing import Any

import msgspec
import pytest

from elasticd.api import Observation, Recommendation, Strategy, hookimpl
from elasticd.base.clock import VirtualClock
from elasticd.cluster.simulated import Simulated
from elasticd.cluster.simulated.cluster import SimulatedSnapshot
from elasticd.journal import Journal
from elasticd.lab.simulate import play
from elasticd.limits.behavior import Cooldown, Rollout, Stabilization
from elasticd.limits.timed import Blackout
from elasticd.model.listener import Notice
from elasticd.model.policy import Bounds, Policy, Select
from elasticd.model.records import Decision, Outcome
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.ui.decisions import cause
from elasticd_plugins.burst import Burst
from elasticd_plugins.cadence import Cadence
from elasticd_plugins.double_threshold import DoubleThreshold
from elasticd_plugins.hpa import Hpa
from elasticd_plugins.hpa.options import Resource
from elasticd_plugins.schedule import Schedule
from elasticd_plugins.step_tolerance import StepTolerance

START = datetime(2026, 3, 2, 8, tzinfo=UTC).timestamp()
HOUR = 3600.0

HPA = Hpa(metrics=(Resource(resource="cpu", utilization=60),))
BEHAVING = msgspec.convert(
    {
        "type": "hpa",
        "behavior": {
            "scale_down": {
                "stabilization_window": 90,
                "policies": [{"type": "Pods", "value": 1, "period": 60}],
            }
        },
    },
    Hpa,
)
FLOOR = msgspec.convert(
    {"type": "schedule", "windows": [{"start": "20 8 * * *", "end": "40 8 * * *", "replicas": 5}]}, Schedule
)
PAUSED = msgspec.convert({"type": "blackout", "windows": [{"start": "10 8 * * *", "end": "30 8 * * *"}]}, Blackout)


class Follows(Strategy, frozen=True, tag="follows"):
    """Half a core a pod, and says nothing of bands: those are a tenth around each sum that it was asked about."""

    def reads(self) -> tuple[str, ...]:
        return ("cpu",)

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        cores = sum(sample.value for sample in observation.series["cpu"].samples)
        return Recommendation(max(4, ceil(cores / 0.5)), "Follows")


class Heard:
    """The changes of counts, each with its time and what a report says of why; how pods came and went; what failed;
    and which decisions were made."""

    def __init__(self) -> None:
        self.changes: list[tuple[float, str, int, int, str, str]] = []
        self.pods: list[tuple[str, float, float | None, str]] = []
        self.failures: set[tuple[str, str, str]] = set()
        self.decisions: list[tuple[float, str, int | None]] = []
        self._why: dict[str, str] = {}

    def on(self, record: Notice) -> None:
        if isinstance(record, Outcome):
            why = self._why.pop(record.decision, "")
            self.changes.append((record.at, str(record.workload), record.before, record.after, record.result, why))
        elif isinstance(record, Decision):
            self.decisions.append((record.at, str(record.workload), record.wish))
            self.failures |= {(failure.plugin, failure.hook, failure.message) for failure in record.failures}
            if record.action:
                self._why[record.id] = cause(record)

    @property
    def told(self) -> tuple[object, ...]:
        """All that must not depend on how many decisions were made."""
        return self.changes, self.pods, self.failures


def heard(policy: Policy, journal: Journal | None, **cluster: Any) -> Heard:
    """An hour of three workloads whose load rises and falls."""
    table = {
        "type": "simulated",
        "nodes": [{"name": "node", "count": 4, "cpu": "16", "memory": "64Gi"}],
        "metrics": {"resolution": 15, "noise": 0.05},
        "workloads": [
            {
                "name": "web", "count": 3, "namespace": "shop", "replicas": 3, "cpu": "500m",
                "demand": {"formula": "1.2 + 0.7 * sin(t / 400)"},
            }
        ],
        **cluster,
    }  # fmt: skip
    world = msgspec.convert(table, Simulated).build(VirtualClock(START))
    listener = Heard()
    played = play(world, [policy], START + HOUR, journal, sources=[ResourceMetrics()], listeners=[listener])
    asyncio.run(played)
    pods = [pod for workload in world.world.workloads.values() for pod in workload.pods.values()]
    listener.pods = [(pod.name, pod.created, pod.started, pod.node) for pod in pods]
    return listener


def acting(strategies: tuple[Any, ...], limits: tuple[Any, ...] = (), **options: Any) -> Policy:
    made = {"interval": 15.0, "mode": "act", **options}
    select = Select(("shop",))
    return Policy(name="p", replicas=Bounds(20, 2), select=select, strategies=strategies, limits=limits, **made)


@pytest.mark.parametrize(
    ("strategies", "limits", "options", "most"),
    [
        pytest.param((HPA,), (), {}, 0.5, id="hpa"),
        pytest.param((BEHAVING,), (), {}, 0.5, id="hpa with behavior"),
        pytest.param((StepTolerance(),), (), {}, 0.7, id="step-tolerance"),
        pytest.param((DoubleThreshold(low=45, high=75),), (), {}, 0.6, id="double-threshold remembers samples"),
        pytest.param((HPA, StepTolerance()), (), {"combine": "mean"}, 0.5, id="two strategies"),
        pytest.param((HPA,), (Cooldown(), Stabilization(up=60.0), Rollout()), {}, 0.5, id="limits that look back"),
        pytest.param((HPA, FLOOR), (PAUSED,), {}, 0.5, id="windows of the calendar"),
        pytest.param((HPA,), (), {"interval": 5.0, "jitter": 0.0}, 0.5, id="polls between updates"),
        pytest.param((HPA, Cadence()), (), {}, 1.0, id="a strategy whose answers do not last"),
        pytest.param((Burst(series="cpu", target=0.3),), (), {}, 1.0, id="one that looks at each sample"),
    ],
)
def test_counts_change_as_if_all_were_decided(
    strategies: tuple[Any, ...], limits: tuple[Any, ...], options: dict[str, Any], most: float
) -> None:
    policy = acting(strategies, limits, **options)
    all_decided, brief = heard(policy, Journal()), heard(policy, None)
    assert brief.told == all_decided.told
    assert len(all_decided.changes) > 3
    assert len(brief.decisions) <= most * len(all_decided.decisions)


@pytest.mark.parametrize("strategy", [HPA, Follows()], ids=["hpa", "a strategy without bands"])
def test_knowing_what_has_changed_changes_no_decision(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = acting((strategy,), interval=60.0)
    demand = {"formula": "1.2 + 0.1 * sin(floor(t / 15) * 7) + 0.7 * sin(t / 400)"}
    web = {
        "name": "web", "count": 12, "namespace": "shop", "cpu": "500m", "start_seconds": 100, "ready_seconds": 40,
        "demand": demand,
    }  # fmt: skip
    world = {"workloads": [web], "metrics": {"resolution": 15, "noise": 0.01}}
    known = [heard(policy, journal, **world) for journal in (None, Journal())]
    monkeypatch.setattr(SimulatedSnapshot, "changes_since", lambda self, earlier: None)
    unknown = heard(policy, Journal(), **world)
    assert [one.told for one in known] == [unknown.told] * 2
    assert known[1].decisions == unknown.decisions
    assert len(unknown.changes) > 20


def test_a_node_that_fails_is_noticed_in_between() -> None:
    policy = acting((HPA,))
    failing = {
        "name": "node", "cpu": "32", "memory": "64Gi",
        "changes": [{"at": 900, "ready": False}, {"at": 1500, "ready": True}],
    }  # fmt: skip
    nodes = [failing, {"name": "other", "cpu": "16", "memory": "64Gi"}]
    assert heard(policy, None, nodes=nodes).told == heard(policy, Journal(), nodes=nodes).told


def test_a_repeat_remembers_no_samples_of_pods_that_went() -> None:
    strategy = DoubleThreshold(low=50, high=80, samples=2, slow=15, medium=10, fast=1)
    policy = acting((strategy,), interval=5.0)
    demand = {"formula": "1.2 + 0.7 * sin(t / 100)"}
    web = {"name": "web", "count": 3, "namespace": "shop", "replicas": 3, "cpu": "500m", "demand": demand}
    world = {"workloads": [web], "metrics": {"resolution": 30, "noise": 0.5}}  # so that pods are loaded unequally
    assert heard(policy, None, **world).told == heard(policy, Journal(), **world).told
