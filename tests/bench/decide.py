"""What a decision of three strategies and five limits costs, and reading workloads for them: `make bench`.

Every figure is printed with the machine it was measured on, in seconds of CPU; nothing here passes or fails.
"""

from functools import partial
from time import process_time
from timeit import repeat
from typing import Any

import msgspec
from msgspec.structs import replace

from elasticd.api import Change, Node, Past, Point, Recommendation, Room, Strategy, hookimpl
from elasticd.base.decode import convert
from elasticd.cluster.kubernetes.wire.convert import to_workload
from elasticd.cluster.kubernetes.wire.objects import Codec, WireWorkload
from elasticd.decision.decide import Case, decide
from elasticd.kit.history import begin
from elasticd.kit.windows import Rate
from elasticd.limits.behavior import Cooldown, RateLimit, Rollout, Stabilization
from elasticd.limits.capacity import Capacity
from elasticd.limits.staged import Guard, Stage, Staged
from elasticd.model.policy import Bounds, Policy
from elasticd.model.workload import Observation
from elasticd.registry import Hooks, discover
from elasticd.testing import NOW, observation
from tests.kit.measuring import alone, machine

PODS, NODES, WORKLOADS = 10, 100, 30_000


class Noon(Strategy, tag="noon", frozen=True):
    """A schedule: a floor, whatever is measured."""

    floor: int = 4

    def reads(self) -> tuple[str, ...]:
        """None."""
        return ()

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        """Always the same."""
        return Recommendation(self.floor, "Scheduled", "the floor of this hour")


def strategies() -> tuple[Strategy, ...]:
    """hpa, a schedule and cadence."""
    known = discover().strategies
    metrics = [{"type": "Resource", "resource": "cpu", "utilization": 50}]
    return (
        convert({"metrics": metrics}, known["hpa"].type, "bench"),
        Noon(),
        convert({}, known["cadence"].type, "bench"),
    )


LIMITS: dict[str, tuple[Strategy, ...]] = {
    "no limits": (),
    "five limits: stabilization, rate, cooldown, rollout, capacity": (
        Stabilization(),
        RateLimit(up=(Rate("Pods", 4, 15),), down=(Rate("Percent", 50, 60),)),
        Cooldown(),
        Rollout(),
        Capacity(),
    ),
    "five limits: staged with a guard for stabilization": (
        Staged(up=Stage(50), down=Stage(25), guards=(Guard(series="errors", above=0.05),)),
        RateLimit(up=(Rate("Pods", 4, 15),), down=(Rate("Percent", 50, 60),)),
        Cooldown(),
        Rollout(),
        Capacity(),
    ),
    "one limit: staged with a guard": (
        Staged(up=Stage(50), down=Stage(25), guards=(Guard(series="errors", above=0.05),)),
    ),
    "one limit: staged without guards": (Staged(up=Stage(50), down=Stage(25)),),
}


def shown(usage: float) -> Observation:
    """Ten pods that use so much, on a hundred nodes."""
    node = Node("n", "n", ready=True)
    rooms = tuple(
        Room(replace(node, name=f"n{index}"), {"cpu": 4.0, "memory": 16e9, "pods": 100.0}) for index in range(NODES)
    )
    return replace(observation([usage] * PODS, series={"errors": 0.01}), rooms=rooms)


def lived() -> Past:
    """A minute after a change, and as long a past as is usual at 10 s."""
    points = tuple(Point(NOW - 10 * age, 0.01, 0) for age in range(180, 0, -1))
    changes = tuple(Change(NOW - age, 8, 10, "Wanted") for age in (900, 600, 300, 130))
    return replace(begin(NOW - 4000, PODS), changes=changes, points={"errors": points}, until=NOW - 10, interval=10)


def decisions() -> None:
    """What one costs, at rest and where it grows."""
    for label, limits in LIMITS.items():
        voices = strategies()
        rules = Policy(name="bench", replicas=Bounds(min=1, max=100), strategies=voices, limits=limits, mode="act")
        for state, usage in (("keeps", 0.5), ("is restrained", 0.9)):
            case = Case(rules, shown(usage), lived(), Hooks((*voices, *limits)))
            best = min(repeat(partial(decide, case), timer=process_time, number=200, repeat=20)) / 200
            print(f"a decision that {state}, three strategies, {label}: {best * 1e6:.0f} us")


def deployment(index: int, managed: bool) -> dict[str, Any]:
    """A Deployment as a server gives it, with or without who owns which of its fields."""
    meta: dict[str, Any] = {
        "name": f"web-{index}", "namespace": "shop", "uid": f"{index:032x}", "resourceVersion": str(index),
        "generation": 3, "labels": {"app": f"web-{index}"},
    }  # fmt: skip
    env: dict[str, Any] = {f'k:{{"name":"V{one}"}}': {".": {}, "f:name": {}, "f:value": {}} for one in range(8)}
    main = {".": {}, "f:image": {}, "f:resources": {"f:requests": {".": {}, "f:cpu": {}}}, "f:env": env}
    template = {"f:spec": {"f:containers": {'k:{"name":"main"}': main}}}
    owned = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": template},
    }
    status: dict[str, Any] = {"f:status": {"f:replicas": {}, "f:readyReplicas": {}, "f:conditions": {".": {}}}}
    if managed:
        meta["managedFields"] = [
            {"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": owned},
            {"manager": "kube-controller-manager", "operation": "Update", "time": "2026-01-02T00:00:00Z",
             "fieldsV1": status},
        ]  # fmt: skip
    return {
        "metadata": meta,
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": f"web-{index}"}}},
        "status": {"replicas": 3, "updatedReplicas": 3, "observedGeneration": 3},
    }


def lists() -> None:
    """Reading a list of Deployments, with and without managedFields in it."""
    codec = Codec(WireWorkload, partial(to_workload, "apps/v1", "Deployment"))
    for managed in (False, True):
        items = [deployment(index, managed) for index in range(WORKLOADS)]
        body = msgspec.json.encode({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
        best = min(repeat(partial(codec.page, body), timer=process_time, number=1, repeat=3))
        label = "with" if managed else "without"
        print(f"a list of {WORKLOADS} Deployments {label} managedFields, {len(body) / 1e6:.0f} MB: {best:.2f} s")


def main() -> None:
    """Print all figures."""
    print(machine())
    alone()
    decisions()
    lists()


if __name__ == "__main__":
    main()
