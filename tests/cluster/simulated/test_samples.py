"""What a simulated cluster measures."""

import gc
import weakref
from math import inf
from typing import Any

import pytest

from elasticd.cluster.simulated.samples import LazySamples
from elasticd.model.workload import Sample, SumBounds
from tests.cluster.simulated.test_kit import START, Play, web

NOTHING = (inf, -inf)


def flat(cores: float) -> dict[str, Any]:
    return {"formula": str(cores)}


def values(samples: list[Sample]) -> list[float]:
    return [sample.value for sample in samples]


@pytest.mark.parametrize(
    ("options", "each"),
    [
        pytest.param({"replicas": 4}, 0.75, id="in equal shares"),
        pytest.param({"replicas": 4, "cpu_limit": "1"}, 0.75, id="below the limit"),
        pytest.param({"replicas": 4, "cpu_limit": "500m"}, 0.5, id="up to the limit"),
        pytest.param({"replicas": 4, "cpu_limit": "500m", "max_utilisation": 0.8}, 0.4, id="up to a part of it"),
        pytest.param({"replicas": 4, "demand": flat(-3)}, 0.0, id="never below nothing"),
        pytest.param({"replicas": 4, "demand": None}, 0.0, id="nothing when nothing is demanded"),
    ],
)
async def test_demand_is_served_by_the_ready_pods(options: dict[str, Any], each: float) -> None:
    samples = await Play(web(**{"demand": flat(3.0), **options})).samples(60)
    assert values(samples) == pytest.approx([each] * 4)
    assert [sample.pod for sample in samples] == [f"web-00000{i}" for i in range(1, 5)]


async def test_pod_has_no_sample_before_the_renewal_after_its_readiness() -> None:
    play = Play(web(demand=flat(1), start_seconds=20), metrics={"resolution": 15})
    assert [len(await play.samples(t)) for t in (0, 19, 20, 29.9, 30, 44)] == [0, 0, 0, 0, 1, 1]


async def test_pod_that_becomes_ready_at_a_renewal_is_measured_then() -> None:
    play = Play(web(demand=flat(1), start_seconds=30), metrics={"resolution": 15})
    assert [len(await play.samples(t)) for t in (29, 30)] == [0, 1]


async def test_a_pod_that_is_being_deleted_serves_nothing() -> None:
    play = Play(web(demand=flat(2), replicas=2, stop_seconds=60))
    await play.scale(10.5, 1)
    assert values(await play.samples(10.9)) == [1.0, 1.0]
    assert values(await play.samples(11)) == [2.0]


@pytest.mark.parametrize(
    ("options", "t", "newest"),
    [
        pytest.param({"start_seconds": 0}, 0, 0, id="from the first renewal on"),
        pytest.param({}, 44, 30, id="the last renewal"),
        pytest.param({"start_seconds": 20}, 29, None, id="unsaid before anybody serves"),
        pytest.param({"start_seconds": 20}, 30, 30, id="with the first who serves"),
        pytest.param({"replicas": 0}, 30, None, id="unsaid where there is no pod"),
    ],
)
async def test_reading_tells_its_newest_measurement_without_computing_any_sample(
    options: dict[str, Any], t: float, newest: float | None
) -> None:
    play = Play(web(demand=flat(1), **options), metrics={"resolution": 15})
    await play.look(t)
    readings = await play.cluster.usage(START + t)
    assert readings.newest == (None if newest is None else START + newest)
    lazy = list(readings.pods.values())
    assert all(isinstance(series, LazySamples) and not series.blocks for series in lazy)
    assert {sample.measured for series in lazy for (sample,) in series.values()} == {readings.newest} - {None}


async def test_samples_date_from_the_last_renewal_and_its_first_reading() -> None:
    play = Play(web(demand={"formula": "t"}), metrics={"resolution": 15, "window": 10})
    seen = [(await play.samples(t))[0] for t in (31, 40, 45)]
    assert [(s.value, s.measured - START, s.received - START, s.window) for s in seen] == [
        (30, 30, 31, 10),
        (30, 30, 31, 10),
        (45, 45, 45, 10),
    ]
    assert seen[0] is seen[1]


async def test_no_sample_is_from_the_future_after_rounding() -> None:
    samples = await Play(web(), start=0.0, metrics={"resolution": 0.1}).samples(7007.2)
    assert [sample.measured <= 7007.2 for sample in samples] == [True]


async def test_readings_keep_the_values_of_their_time_when_read_later() -> None:
    play = Play(web(demand=flat(6), replicas=2))
    await play.look(20)
    readings = await play.cluster.usage(START + 20)
    await play.scale(21, 3)
    await play.look(50)
    keys = [f"default/web-00000{i}" for i in (1, 2, 3)]
    assert [readings.pods["cpu"].get(key) is not None for key in keys] == [True, True, False]
    assert readings.pods["cpu"][keys[0]][0].value == 3.0


async def test_containers_split_the_usage_of_their_pod_by_share() -> None:
    containers = [{"name": "app", "share": 3}, {"name": "log"}]
    samples = await Play(web(demand=flat(2), containers=containers)).samples(60)
    assert [(sample.container, sample.value) for sample in samples] == [("app", 1.5), ("log", 0.5)]


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        pytest.param({"memory_per_pod": "1Ki"}, 1024, id="as given"),
        pytest.param({"memory": "2Ki"}, 2048, id="else what is requested"),
    ],
)
async def test_a_ready_pod_uses_its_memory(options: dict[str, Any], memory: float) -> None:
    assert values(await Play(web(**options)).samples(60, "memory")) == [memory]


async def test_series_are_per_workload_or_divided_over_its_ready_pods() -> None:
    queue = {"name": "queue", "demand": {"table": [[0, 7], [30, 9]]}}
    requests = {"name": "requests", "per": "pod", "demand": flat(100)}
    play = Play(web(replicas=4, series=[queue, requests]), {"name": "other"})
    sample = Sample(25.0, START + 40, START + 40, 0.0, "web-000001", "")
    assert (await play.samples(40, "requests"))[0] == sample
    readings = await play.cluster.usage(START + 40)
    assert dict(readings.workloads["queue"]) == {"default/Deployment/web": (Sample(9.0, START + 40, START + 40),)}
    assert await play.samples(40, "requests", "other") == []


async def test_a_workload_without_ready_pods_still_has_its_own_series() -> None:
    series = {"name": "queue", "demand": flat(7)}
    play = Play(web(replicas=0, series=[series, {**series, "name": "requests", "per": "pod"}]))
    readings = await play.cluster.usage(START)
    assert (len(readings.workloads["queue"]), len(readings.pods["requests"])) == (1, 0)


async def test_demand_that_cannot_be_told_gives_no_sample() -> None:
    wrong = {"formula": "1 / (t - 77)"}
    play = Play(web(demand=wrong, series=[{"name": "queue", "demand": wrong}]))
    assert values(await play.samples(77)) == []
    assert dict((await play.cluster.usage(START + 77)).workloads["queue"]) == {}
    assert values(await play.samples(78)) == [1.0]


async def test_readings_are_a_mapping_of_what_has_samples() -> None:
    play = Play(web(replicas=2), {"name": "slow", "start_seconds": 99})
    await play.look(10)
    cpu = (await play.cluster.usage(START + 10)).pods["cpu"]
    assert sorted(cpu) == ["default/web-000001", "default/web-000002"]
    assert (len(cpu), "default/slow-000001" in cpu, "nonsense" in cpu, cpu.get("a/b-1", ())) == (
        2,
        False,
        False,
        (),
    )
    with pytest.raises(KeyError):
        cpu["default/slow-000001"]


async def test_noise_is_bounded_varies_and_is_reproducible_by_its_seed() -> None:
    async def run(seed: int) -> list[float]:
        play = Play(web(replicas=50, demand=flat(50)), metrics={"noise": 0.1}, seed=seed)
        return [value for t in (10, 11) for value in values(await play.samples(t))]

    one, again, other = await run(1), await run(1), await run(2)
    assert one == again
    assert len(set(one) | set(other)) == 200
    assert all(0.9 <= value <= 1.1 for value in one)
    assert sum(one) / 100 == pytest.approx(1.0, abs=0.03)
    assert max(one) - min(one) > 0.15


async def test_a_node_uses_what_its_pods_use() -> None:
    nodes = [{"name": name, "cpu": "2", "memory": "8Gi"} for name in ("one", "two", "idle")]
    play = Play(web(replicas=2, demand=flat(2)), nodes=nodes)
    used = {sample.pod: sample.value for sample in await play.samples(60)}
    placed = {name: pod.node for name, pod in (await play.pods(60)).items()}
    readings = await play.cluster.node_usage(play.start + 60)
    found = {node: [sample.value for sample in samples] for node, samples in readings.nodes["cpu"].items()}
    assert found == {"one": [0.0], "two": [0.0], "idle": [0.0]} | {placed[pod]: [value] for pod, value in used.items()}
    assert sorted(value for (value,) in found.values()) == [0.0, 1.0, 1.0]
    assert readings.nodes["cpu"].keys() == readings.nodes["memory"].keys()


async def test_samples_nobody_looks_at_any_more_are_gone_at_once() -> None:
    """Without a circle of references that only Python's collector could break: there are many, every second."""
    play = Play(web(demand=flat(1)))
    old = weakref.ref((await play.cluster.usage(START + 60)).pods["cpu"])
    gc.disable()
    try:
        assert len(old() or ()) == 1
        await play.cluster.usage(START + 120)
        assert old() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("noise", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("series", ["cpu", "memory", "queue"])
async def test_a_sum_is_between_the_values_that_are_known_before(noise: float, series: str) -> None:
    queue = [{"name": "queue", "per": "pod", "demand": {"formula": "7 + t / 60"}}]
    containers = [{"name": "web", "share": 2}, {"name": "proxy", "share": 1}]
    play = Play(web(demand=flat(3.3), replicas=7, series=queue, containers=containers), metrics={"noise": noise})
    for t in range(60, 90):
        table = (await play.cluster.usage(START + t)).pods[series]
        assert isinstance(table, LazySamples)
        bounds = table.bounds()
        assert bounds is not None
        (keys,) = bounds.places
        assert keys == tuple(table)
        lowest, highest = bounds.of(keys) or NOTHING
        assert lowest <= table.sum(keys) <= highest
        assert table.sum(keys) == sum(values(list(table.together(keys))))
        assert {sample.measured for sample in table.together(keys)} == {bounds.measured}


@pytest.mark.parametrize("series", ["cpu", "memory"])
async def test_sums_of_workloads_have_bounds_of_their_own(series: str) -> None:
    """Two of a table have as many pods, one has more, and one is of another table."""
    api = web(name="api", demand=flat(1.1), replicas=2)
    play = Play(web(demand=flat(3.3), count=3, replicas=2), api, metrics={"noise": 0.1})
    await play.scale(10, 5, "web-1")
    table = (await play.cluster.usage(START + 300)).pods[series]
    assert isinstance(table, LazySamples)
    bounds = table.bounds()
    assert bounds is not None
    assert sorted(map(len, bounds.places)) == [2, 2, 2, 5]
    assert len(bounds.ends) == 3
    for keys in bounds.places:
        lowest, highest = bounds.of(keys) or NOTHING
        assert lowest <= table.sum(keys) <= highest


async def test_bounds_have_the_same_places_while_the_same_pods_serve() -> None:
    play = Play(web(demand={"formula": "t"}, count=2, replicas=2))
    bounds = []
    for t in (60, 90, 300):
        if t == 300:
            await play.scale(200, 3, "web-1")
        table = (await play.cluster.usage(START + t)).pods["cpu"]
        assert isinstance(table, LazySamples)
        bounds.append(table.bounds() or SumBounds(0.0, {}, []))
    before, same, other = bounds
    assert before.places is same.places
    assert before.ends != same.ends
    assert len(other.ends) == 2 == 1 + len(same.ends)


async def test_of_sums_below_zero_each_sample_is_looked_at() -> None:
    play = Play(web(series=[{"name": "queue", "per": "pod", "demand": flat(-2)}]))
    table = (await play.cluster.usage(START + 60)).pods["queue"]
    assert isinstance(table, LazySamples)
    assert table.bounds() == SumBounds(START + 60, {tuple(table): 0}, [None])
    assert table.sum(tuple(table)) == -2.0
