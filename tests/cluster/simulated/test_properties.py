"""What holds for every simulated run, whatever it is made of and whenever it is looked at."""

import asyncio
from collections import defaultdict
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.model.workload import Pod, Readings
from tests.cluster.simulated.test_kit import START, Play, web

DELAYS = st.sampled_from([0.0, 0.5, 3.0, 20.0])
TABLES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["Deployment", "StatefulSet"]),
        "replicas": st.integers(0, 6),
        "cpu": st.sampled_from(["100m", "700m", "1"]),
        "memory": st.sampled_from(["100Mi", "1Gi"]),
        "start_seconds": DELAYS,
        "ready_seconds": DELAYS,
        "stop_seconds": DELAYS,
    }
)
SCRIPTS = st.lists(
    st.tuples(st.floats(0, 30, allow_nan=False), st.sampled_from(["a", "b"]), st.integers(0, 9)), max_size=8
)
SMALL_NODES = [{"name": "n", "count": 2, "cpu": "2", "memory": "3Gi", "pods": 5}]


class Seen(NamedTuple):
    """What one look showed: when, each workload's count and pods, and what was measured."""

    t: float
    replicas: dict[str, int]
    pods: dict[str, tuple[Pod, ...]]
    readings: dict[str, Any]


def play(tables: list[dict[str, Any]], script: list[tuple[float, str, int]], **options: Any) -> list[Seen]:
    """The run in which each step waits, looks and scales; with one look long after the last."""
    return asyncio.run(_play(tables, script, **options))


async def _play(tables: list[dict[str, Any]], script: list[tuple[float, str, int]], **options: Any) -> list[Seen]:
    run = Play(*({"name": name, **table} for name, table in zip("ab", tables, strict=True)), **options)
    t, seen = 0.0, []
    for wait, name, after in script:
        t += wait
        await run.scale(t, after, name)
        seen.append(await _look(run, t))
    return [*seen, await _look(run, t + 1000)]


async def _look(run: Play, t: float) -> Seen:
    snapshot = await run.look(t)
    workloads = snapshot.workloads()
    readings = await run.cluster.usage(START + t)
    return Seen(
        t,
        {workload.ref.name: workload.replicas for workload in workloads},
        {workload.ref.name: snapshot.pods(workload) for workload in workloads},
        _plain(readings),
    )


def _plain(readings: Readings) -> dict[str, Any]:
    return {series: dict(samples) for series, samples in readings.pods.items()}


@given(st.lists(TABLES, min_size=2, max_size=2), SCRIPTS, st.integers(0, 3))
def test_two_runs_with_equal_options_and_times_are_equal(
    tables: list[dict[str, Any]], script: list[tuple[float, str, int]], seed: int
) -> None:
    options = {"nodes": SMALL_NODES, "seed": seed, "metrics": {"noise": 0.5}}
    assert play(tables, script, **options) == play(tables, script, **options)


@given(st.lists(TABLES, min_size=2, max_size=2), SCRIPTS)
def test_there_are_never_more_live_pods_than_are_asked_for(
    tables: list[dict[str, Any]], script: list[tuple[float, str, int]]
) -> None:
    for seen in play(tables, script, nodes=SMALL_NODES):
        for name, pods in seen.pods.items():
            live = [pod for pod in pods if not pod.deleted]
            assert len(live) <= seen.replicas[name]
            assert len({pod.name for pod in pods}) == len({pod.uid for pod in pods}) == len(pods)


@given(st.lists(TABLES, min_size=2, max_size=2), SCRIPTS)
def test_all_requested_pods_become_ready_when_there_is_room(
    tables: list[dict[str, Any]], script: list[tuple[float, str, int]]
) -> None:
    end = play(tables, script)[-1]
    for name, pods in end.pods.items():
        assert [pod.ready for pod in pods] == [True] * end.replicas[name]


@given(st.lists(TABLES, min_size=2, max_size=2), SCRIPTS)
def test_no_node_ever_holds_more_than_it_can(
    tables: list[dict[str, Any]], script: list[tuple[float, str, int]]
) -> None:
    for seen in play(tables, script, nodes=SMALL_NODES):
        held: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for pod in (pod for pods in seen.pods.values() for pod in pods if pod.node):
            held[pod.node] += [(c.requests["cpu"], c.requests["memory"]) for c in pod.containers]
        for requests in held.values():
            assert len(requests) <= 5
            assert sum(cpu for cpu, _ in requests) <= 2 + 1e-9
            assert sum(memory for _, memory in requests) <= 3 * 2**30


@given(st.lists(TABLES, min_size=2, max_size=2), SCRIPTS)
def test_a_pod_waits_only_while_no_node_has_room(
    tables: list[dict[str, Any]], script: list[tuple[float, str, int]]
) -> None:
    for seen in play(tables, script, nodes=[{"name": "n", "cpu": "2", "memory": "3Gi", "pods": 5}]):
        pods = [pod for pods in seen.pods.values() for pod in pods]
        bound = [pod.containers[0].requests for pod in pods if pod.node]
        left = {key: whole - sum(r[key] for r in bound) for key, whole in (("cpu", 2), ("memory", 3 * 2**30))}
        for requests in (pod.containers[0].requests for pod in pods if not pod.node):
            fits = all(left[key] >= requests[key] - 1e-9 for key in left)
            assert not (fits and len(bound) < 5)


@given(
    st.lists(TABLES, min_size=2, max_size=2),
    SCRIPTS,
    st.floats(0, 20),
    st.sampled_from([None, "250m", "1"]),
    st.sampled_from([0.3, 1.0, 15.0]),
)
def test_usage_sums_to_the_demand_or_the_limit_of_pods(
    tables: list[dict[str, Any]],
    script: list[tuple[float, str, int]],
    cores: float,
    limit: str | None,
    resolution: float,
) -> None:
    tables = [{**table, "demand": {"formula": str(cores)}, "cpu_limit": limit} for table in tables]
    most = {None: float("inf"), "250m": 0.25, "1": 1.0}[limit]
    for seen in play(tables, script, metrics={"resolution": resolution}):
        for name in "ab":
            found = [s for key, s in seen.readings["cpu"].items() if key.startswith(f"default/{name}-")]
            total = sum(sample.value for samples in found for sample in samples)
            assert total == pytest.approx(min(cores, most * len(found)) if found else 0.0)


@given(st.lists(TABLES, min_size=2, max_size=2), SCRIPTS, st.lists(st.floats(0, 200), max_size=20))
def test_state_at_a_time_does_not_depend_on_earlier_looks(
    tables: list[dict[str, Any]], script: list[tuple[float, str, int]], looks: list[float]
) -> None:
    async def run(times: list[float]) -> Seen:
        run = Play(*({"name": name, **table} for name, table in zip("ab", tables, strict=True)), nodes=SMALL_NODES)
        steps = [(float(i), name, after) for i, (_, name, after) in enumerate(script)]
        for t, name, after in sorted([*steps, *((t, "", 0) for t in times)], key=lambda step: (step[0], step[1])):
            await (run.scale(t, after, name) if name else run.look(t))
        return await _look(run, 200)

    assert asyncio.run(run([])) == asyncio.run(run(looks))


@pytest.mark.slow
async def test_every_look_of_a_day_at_30_seconds_has_samples() -> None:
    run = Play(web(replicas=10, demand={"formula": "2 + 1.5*sin(2*pi*t/600)"}))
    seen = [await _look(run, step * 30.0) for step in range(2880)]
    assert [len(look.readings["cpu"]) for look in seen] == [0] + [10] * 2879
