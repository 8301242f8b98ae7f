"""For plugin authors: try a strategy without a cluster, a file or a second of waiting.

For workloads: `observation` and `judge`. For pools: `node`, `pod`, `node_table` and `pool_observation`, `judge_pods`
and `judge_moves`. For both: `check_strategy`, `simulate` and `registry`. For sources: `site`.

Knows how a Case is put together and how a policy runs in virtual time; plugins' own tests import it, the daemon
never does.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from elasticd.base.clock import Clock, VirtualClock, WallClock
from elasticd.cluster.simulated import Simulated
from elasticd.config.tables import PLACING
from elasticd.decision.decide import Case, decide
from elasticd.decision.quality import failed, grade
from elasticd.decision.workload.zero import ZERO
from elasticd.journal import Journal
from elasticd.kit.history import begin
from elasticd.lab.simulate import play
from elasticd.model.history import Past
from elasticd.model.listener import Listener
from elasticd.model.policy import Bounds, Policy, PoolPolicy, Strategy, Target
from elasticd.model.records import Decision
from elasticd.model.workload import Container, Observation, Pod, Quality, Ref, Sample, Workload
from elasticd.ports.cluster import Cluster, Snapshot
from elasticd.ports.metrics_api import MetricsReader
from elasticd.ports.source import Site, Source, Subject
from elasticd.registry import Hooks, Registry, implemented
from elasticd.testing.pools import GIB, MIB, NOW, judge_moves, judge_pods, node, node_table, pod, pool_observation
from elasticd.testing.trials import faults

__all__ = [
    # for workloads
    "observation", "judge",
    # for pools
    "GIB", "MIB", "NOW", "node", "pod", "node_table", "pool_observation", "judge_pods", "judge_moves",
    # for both, and for sources
    "check_strategy", "simulate", "registry", "site",
]  # fmt: skip

_TIMES = 3


def observation(
    usage: Sequence[float] = (),
    *,
    request: float = 1.0,
    replicas: int | None = None,
    at: float = NOW,
    series: Mapping[str, float] | None = None,
) -> Observation:
    """A Deployment with one ready pod for each entry of `usage`, which is its CPU in cores, each requesting
    `request` cores; `series` adds samples of the workload as a whole, by name. `replicas`: if not one for each."""
    ref = Ref("default", "Deployment", "web")
    pods = tuple(
        Pod(
            namespace="default",
            name=f"web-{index}",
            uid=f"uid-{index}",
            phase="Running",
            containers=(Container("web", {"cpu": request}),),
            started=at - 3600,
            ready=True,
            ready_changed=at - 3500,
        )
        for index in range(len(usage))
    )
    samples = [Sample(value, at, at, pod=pod.name, container="web") for value, pod in zip(usage, pods, strict=True)]
    graded = {"cpu": grade("cpu", "test", samples, at, 120, {pod.name for pod in pods})}
    for name, value in (series or {}).items():
        graded[name] = grade(name, "test", [Sample(value, at, at)], at, 120)
    count = len(usage) if replicas is None else replicas
    workload = Workload(ref, "uid", "1", count, status_replicas=len(usage), selector="app=web")
    return Observation(at=at, workload=workload, pods=pods, series=graded, confirmed=at)


def judge(
    *strategies: Strategy,
    seen: Observation,
    past: Past | None = None,
    limits: Sequence[Strategy] = (),
    bounds: tuple[int, int] = (1, 100),
) -> Decision:
    """The decision that a policy of these strategies makes about one observation. A count of 0 that the bounds allow is
    taken for a decision before this one, and not for a person's."""
    ref = seen.workload.ref
    if seen.workload.replicas == 0 and bounds[0] == 0:
        seen = replace(seen, workload=replace(seen.workload, annotations={ZERO: "test"}))
    policy = Policy(
        name="test",
        replicas=Bounds(min=bounds[0], max=bounds[1]),
        strategies=strategies,
        limits=tuple(limits),
        workload=Target(ref.namespace, ref.name, ref.kind, ref.api_version),
        mode="act",
    )
    remembered = begin(seen.at, seen.workload.replicas) if past is None else past
    return decide(Case(policy, seen, remembered, Hooks((*strategies, *limits))))


async def simulate(
    cluster: Simulated,
    policies: Sequence[Policy | PoolPolicy],
    seconds: float,
    *,
    sources: Sequence[Source],
    listeners: Sequence[Listener] = (),
    start: float = 0.0,
) -> Journal:
    """Run policies on a simulated cluster in virtual time, and give the journal of what they did."""
    journal = Journal()
    world = cluster.build(VirtualClock(start))
    await play(world, policies, start + seconds, journal, sources=sources, listeners=listeners)
    return journal


def site(
    cluster: Cluster | None = None,
    clock: Clock | None = None,
    *,
    wake: Callable[[Subject, str], None] = lambda subject, key: None,
    governed: Collection[Ref] = (),
    snapshot: Snapshot | None = None,
) -> Site:
    """Where a source under test is opened; without a cluster, an empty simulated one."""
    time = clock or WallClock()
    metrics = MetricsReader(cluster or Simulated(nodes=()).build(time))
    return Site(metrics, time, wake, lambda: governed, lambda: snapshot)


def check_strategy(strategy: Strategy) -> list[str]:
    """What a strategy does that no strategy may, a line each: fail or answer nonsense where data are missing,
    wish for less on what it cannot know, change what it is shown, or answer twice differently. One for the pods of a
    pool is tried on pools instead."""
    if implemented(type(strategy)) & PLACING:
        return faults(strategy)
    problems = []
    for name, trial in _trials().items():
        # As the daemon gives it: with an unreadable series for each that is read and not there.
        lacking = [series for series in strategy.reads() or () if series not in trial.series]
        unreadable = {series: failed(series, "test", "not in this trial") for series in lacking}
        seen = replace(trial, series={**trial.series, **unreadable})
        before = msgspec.json.encode(seen)
        first, *others = [judge(strategy, seen=seen) for _ in range(_TIMES)]
        problems += [f"{name}: {failure.hook} {failure.message}" for failure in first.failures]
        if any(first != other for other in others):
            problems.append(f"{name}: answered differently when asked again")
        if msgspec.json.encode(seen) != before:
            problems.append(f"{name}: changed what it was shown")
        current = seen.workload.replicas
        # Who reads nothing lacks nothing.
        if name.startswith("unknown") and strategy.reads() != () and first.wish is not None and first.wish < current:
            problems.append(f"{name}: wished to shrink from {current} to {first.wish}")
    return problems


def _trials() -> dict[str, Observation]:
    nan, inf = float("nan"), float("inf")
    idle = observation([0.0, 0.0, 0.0])
    return {
        "busy": observation([0.9, 0.8, 0.7]),
        "idle": idle,
        "one pod": observation([0.5]),
        "no request": observation([0.5, 0.5], request=0.0),
        "unknown: no pods": observation([], replicas=3),
        "unknown: NaN": observation([nan, nan, nan]),
        "unknown: infinite": observation([inf, inf, inf]),
        "unknown: negative": observation([-1.0, -1.0, -1.0]),
        "unknown: unreadable": replace(idle, series={"cpu": failed("cpu", "test", "the source is down")}),
        "unknown: stale": replace(idle, series={"cpu": replace(idle.series["cpu"], quality=Quality.STALE)}),
        "unknown: nothing was read": replace(idle, series={}),
    }


def registry(*modules: object) -> Registry:
    """A registry of just these plugin modules. Raises ValueError for the first that cannot be used."""
    made = Registry()
    for module in modules:
        made.add(getattr(module, "__name__", str(module)), module)
    if made.problems:
        raise ValueError(made.problems[0])
    return made
