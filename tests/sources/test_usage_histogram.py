"""Use that is learnt: which samples count, what is said of them, and that it outlives the daemon."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.base.clock import Clock, VirtualClock, WallClock
from elasticd.base.errors import ConfigError
from elasticd.cluster.simulated import Simulated
from elasticd.config import load_settings
from elasticd.kit.histograms import DAY
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import Container, Node, Pod, Readings, Ref, Sample
from elasticd.ports.source import Reader, Site, Source
from elasticd.registry import discover
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd.sources.usage_histogram import SERIES, UsageHistogram, UsageLedger
from elasticd.testing import judge, observation, simulate, site
from elasticd_plugins.vertical import Vertical
from tests.kit.clusters import Shown

NOW = 1_700_000_000.0
WEB = "shop/Deployment/web"
REF = Ref("shop", "Deployment", "web")
OPTIONS = UsageHistogram(cpu_half_life=43200.0, memory_half_life=172800.0, enough=0.0)


def pod(name: str = "web-0", *containers: str, **changes: Any) -> Pod:
    made = tuple(Container(one, {"memory": 1e9}) for one in containers or ("main",))
    return replace(Pod("shop", name, f"uid-{name}", "Running", containers=made), **changes)


def sample(value: float, age: float = 0.0, container: str = "main") -> Sample:
    return Sample(value, NOW - age, NOW, 15.0, "web-0", container)


def said(*samples: Sample, series: str = "cpu", pod: str = "web-0") -> dict[str, dict[str, tuple[Sample, ...]]]:
    return {series: {f"shop/{pod}": samples}}


def learnt(ledger: UsageLedger, series: str = "cpu_max") -> dict[str, float]:
    return {one.container: one.value for one in ledger.say(NOW)[0][series].get(WEB, ())}


@pytest.mark.parametrize(
    ("pods", "use", "new"),
    [
        pytest.param([pod()], said(sample(1.0)), 1, id="a sample"),
        pytest.param([pod()], said(sample(1.0), sample(1.0)), 1, id="one measurement counts once"),
        pytest.param([pod()], said(sample(1.0, container="")), 1, id="of the pod as a whole is of its only container"),
        pytest.param([pod("web-0", "a", "b")], said(sample(1.0, container="")), 0, id="of several it is of nobody"),
        pytest.param([pod("web-0", "a", "b")], said(sample(1, 0, "a"), sample(2, 0, "b")), 2, id="of each container"),
        pytest.param([pod(phase="Pending")], said(sample(1.0)), 0, id="a pod that does not run"),
        pytest.param([pod(deleted=True)], said(sample(1.0)), 0, id="a pod that goes"),
        pytest.param([pod("web-1")], said(sample(1.0)), 0, id="another pod's"),
        pytest.param([pod()], said(sample(float("nan"))), 0, id="no number"),
        pytest.param([pod()], said(sample(float("inf"))), 0, id="without end"),
        pytest.param([pod()], said(sample(-1.0)), 0, id="less than nothing"),
        pytest.param([pod()], said(sample(1.0, age=400)), 0, id="old"),
        pytest.param([pod()], said(sample(1.0, age=-100)), 0, id="from the future"),
        pytest.param([pod()], {}, 0, id="nothing is said"),
        pytest.param([], said(sample(1.0)), 0, id="no pods"),
    ],
)
def test_what_counts_as_use(pods: list[Pod], use: Mapping[str, Any], new: int) -> None:
    assert UsageLedger(OPTIONS).fold(WEB, pods, use, NOW) == new


@pytest.mark.parametrize(
    ("node", "series", "value", "new"),
    [
        pytest.param({"allocatable": {"cpu": 4.0}}, "cpu", 4.5, 0, id="more than is allocatable"),
        pytest.param({"allocatable": {"cpu": 4.0}}, "cpu", 4.3, 1, id="all of it, and the error of a rate"),
        pytest.param({"allocatable": {"cpu": 0.94}, "capacity": {"cpu": 2.0}}, "cpu", 1.9, 1, id="what is set aside"),
        pytest.param({"allocatable": {"cpu": 0.94}, "capacity": {"cpu": 2.0}}, "cpu", 2.3, 0, id="more than there is"),
        pytest.param({"allocatable": {"memory": 1e9}}, "memory", 2e9, 0, id="of memory"),
        pytest.param({"allocatable": {"memory": 1e9}}, "cpu", 1e7, 1, id="what the node has is not known"),
        pytest.param({"name": "other", "allocatable": {"cpu": 4.0}}, "cpu", 1e7, 1, id="the node is not known"),
    ],
)
def test_a_sample_above_what_its_node_has_is_unknown(node: Any, series: str, value: float, new: int) -> None:
    ledger, found = UsageLedger(OPTIONS), Node(**{"name": "n", "uid": "n", "ready": True} | node)
    use = said(sample(value), series=series)
    assert ledger.fold(WEB, [pod(node="n")], use, NOW, {found.name: found}) == new
    assert bool(learnt(ledger, f"{series}_max")) == bool(new)
    told = f"{series}: {value:g} of shop/web-0/main is left out, its node n has less"
    assert ledger.impossible == ({} if new else {series: told})


def test_of_memory_only_the_peak_of_each_window_counts() -> None:
    ledger, start = UsageLedger(OPTIONS), NOW - NOW % 300
    for second, value in [(0, 1e9), (60, 3e9), (120, 2e9), (300, 1e9)]:
        one = Sample(value, start + second, NOW, 0.0, "web-0", "main")
        ledger.fold(WEB, [pod()], said(one, series="memory"), start + second)
    found = msgspec.json.decode(ledger.save(NOW))["entries"][0]["content"]
    assert found["count"] == 2  # the 1 GB before the peak was taken back
    assert sorted(found["weights"].values()) == pytest.approx([1.0, 1.0], rel=0.01)
    assert learnt(ledger, "memory_max")["main"] == pytest.approx(3e9, rel=0.05)


@pytest.mark.parametrize(
    ("used", "expected"),
    [pytest.param(None, 1.2e9, id="by its request"), pytest.param(2e9, 2.4e9, id="by what it used, which was more")],
)
def test_an_oom_kill_counts_once_above_its_request_and_use(used: float | None, expected: float) -> None:
    ledger, killed = UsageLedger(OPTIONS), pod(killed={"main": NOW - 5})
    use = said(sample(used, 10), series="memory") if used else {}
    ledger.fold(WEB, [killed], use, NOW)
    first = learnt(ledger, "memory_max")["main"]
    assert first == pytest.approx(expected, rel=0.05)
    assert first >= expected
    ledger.fold(WEB, [killed], {}, NOW)
    assert learnt(ledger, "memory_max")["main"] == first


def test_nothing_is_said_before_there_are_enough_hours() -> None:
    ledger = UsageLedger(replace(OPTIONS, enough=1.0))
    ledger.fold(WEB, [pod()], said(sample(1.0, 3700)), NOW - 3700)
    assert (learnt(ledger), ledger.say(NOW)[1]) == ({}, 1)
    ledger.fold(WEB, [pod()], said(sample(1.0)), NOW)
    assert learnt(ledger)["main"] == pytest.approx(1.0, rel=0.06)
    assert ledger.say(NOW)[1] == 0


def test_what_is_said_is_as_old_as_its_newest_sample() -> None:
    ledger = UsageLedger(OPTIONS)
    ledger.fold(WEB, [pod()], said(sample(1.0, 100)), NOW)
    (one,) = ledger.say(NOW)[0]["cpu_p95"][WEB]
    assert (one.measured, one.received, one.pod, one.container) == (NOW - 100, NOW, "", "main")


def test_every_series_has_a_value_for_each_container() -> None:
    ledger = UsageLedger(OPTIONS)
    both = {**said(sample(1.0, 0, "a"), sample(2.0, 0, "b")), **said(sample(1e9, 0, "a"), series="memory")}
    ledger.fold(WEB, [pod("web-0", "a", "b")], both, NOW)
    found, _ = ledger.say(NOW)
    assert set(found) == set(SERIES)
    assert {len(table[WEB]) for name, table in found.items() if name.startswith("cpu")} == {2}
    assert {len(table[WEB]) for name, table in found.items() if name.startswith("memory")} == {1}


def test_what_is_gone_is_forgotten_after_its_history() -> None:
    ledger = UsageLedger(OPTIONS)
    ledger.fold(WEB, [pod()], said(sample(1.0)), NOW)
    ledger.retain((), NOW + 7.9 * DAY)
    assert len(ledger) == 1
    ledger.retain((), NOW + 8.1 * DAY)
    assert len(ledger) == 0


def test_a_checkpoint_gives_back_what_was_learnt() -> None:
    first, again = UsageLedger(OPTIONS), UsageLedger(OPTIONS)
    first.fold(WEB, [pod()], {**said(sample(1.0)), **said(sample(1e9), series="memory")}, NOW)
    again.load(first.save(NOW))
    assert again.say(NOW) == first.say(NOW)


def broken(**changes: Any) -> bytes:
    ledger = UsageLedger(OPTIONS)
    ledger.fold(WEB, [pod()], said(sample(1.0)), NOW)
    body = json.loads(ledger.save(NOW))
    entry = body["entries"][0]
    entry["content"] |= changes.pop("content", {})
    entry["key"] = changes.pop("key", entry["key"])
    return json.dumps(body | changes).encode()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"", "is no checkpoint", id="empty"),
        pytest.param(b"{", "is no checkpoint", id="cut off"),
        pytest.param(b"\xff\x00", "is no checkpoint", id="garbage"),
        pytest.param(b"{}", "is no checkpoint", id="something else"),
        pytest.param(broken(version=2), "must be of version 1, is of 2", id="another version"),
        pytest.param(broken(buckets=[1, 2]), "has other buckets", id="other buckets"),
        pytest.param(broken(content={"weights": {"100000": 1.0}}), "a bucket that there is not", id="no such bucket"),
        pytest.param(broken(content={"weights": {"0": -1.0}}), "a bucket that there is not", id="negative weight"),
        pytest.param(broken(key=[WEB, "main", "disk"]), "a bucket that there is not", id="no such resource"),
        pytest.param(broken(content={"weights": "none"}), "is no checkpoint", id="of another shape"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_changes_nothing(body: bytes, told: str) -> None:
    ledger = UsageLedger(OPTIONS)
    ledger.fold(WEB, [pod()], said(sample(1.0)), NOW)
    before = ledger.say(NOW)
    with pytest.raises(ValueError, match=told):
        ledger.load(body)
    assert ledger.say(NOW) == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"of": "usage-histogram"}, 'of: must be another source, is "usage-histogram"', id="itself"),
        pytest.param({"of": ""}, "of", id="nobody"),
        pytest.param({"enough": 200.0}, "enough: must be <= history = 192 hours, is 200", id="more than is kept"),
        pytest.param({"enough": -1.0}, "enough", id="less than no time"),
        pytest.param({"each": 0.5}, "each", id="too often"),
        pytest.param({"cpu_half_life": 1.0}, "cpu_half_life", id="cpu forgets at once"),
        pytest.param({"memory_half_life": 1.0}, "memory_half_life", id="memory forgets at once"),
        pytest.param({"memory_window": 0.0}, "memory_window", id="no window"),
        pytest.param({"weigh": "size"}, "weigh", id="by what"),
        pytest.param({"history": 0.5}, "history", id="less than a day"),
        pytest.param({"save": 0.0}, "save", id="all the time"),
        pytest.param({"file": 5}, "file", id="no path"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert({"type": "usage-histogram", **options}, UsageHistogram)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('of = "metrics"', "source[1].of: must be one of resource-metrics, is", id="not there"),
        pytest.param('of = "usage-histogram"', "source[1]", id="itself"),
        pytest.param(
            'of = "more"\n[[source]]\ntype = "usage-histogram"\nname = "more"',
            'must be one of resource-metrics, is "more", a source made of another',
            id="one that is made of another",
        ),
    ],
)
def test_the_source_that_it_reads_must_be_there(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "elasticd.toml"
    file.write_text(f'[[source]]\ntype = "resource-metrics"\n[[source]]\ntype = "usage-histogram"\n{text}\n')
    with pytest.raises(ConfigError) as error:
        load_settings(file, discover())
    assert told in str(error.value)


class Meter(Source, frozen=True, kw_only=True, tag="meter"):
    """A source that says what it is told."""

    says: dict[str, Any] = msgspec.field(default_factory=dict)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        yield _Meter(self.says, site.clock)


class _Meter:
    def __init__(self, says: dict[str, Any], clock: Clock) -> None:
        self._says, self._clock = says, clock

    async def read(self, now: float) -> Readings:
        self._says["reads"] = self._says.get("reads", 0) + 1
        if "raises" in self._says:
            raise RuntimeError(self._says["raises"])
        of = self._says.get("pod", "web-0")
        samples = {f"shop/{of}": (Sample(self._says.get("value", 1.0), now, now, 15.0, of, "main"),)}
        error = self._says.get("error", "")
        return Readings("meter", now, {} if error else {"cpu": samples}, error=error)


@asynccontextmanager
async def opened(clock: Clock, says: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Any]:
    view = Shown((_workload(), (pod(node="n"),)), nodes=(Node("n", "n", True, allocatable={"cpu": 32.0}),))
    meter = Meter(says={} if says is None else says)
    here = site(clock=clock, governed=[REF], snapshot=view)
    here = replace(here, beside={"meter": meter})
    table = {"type": "usage-histogram", "of": "meter", "enough": 0.0, "each": 1.0} | options
    source = msgspec.convert(table, UsageHistogram)
    async with source.open(here) as reader:
        yield reader


async def until(there: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not there():  # noqa: ASYNC110  # nobody sets an event for it
            await asyncio.sleep(0.01)


def _workload() -> Any:
    return replace(observation([1.0]).workload, ref=REF)


async def test_the_source_reads_at_its_interval_and_describes_its_histograms() -> None:
    clock, says = VirtualClock(NOW), dict[str, Any]()
    async with opened(clock, says, each=60.0) as reader:
        assert (await reader.read(NOW)).workloads["cpu_max"][WEB][0].value == pytest.approx(1.0, rel=0.06)
        await reader.read(NOW + 59)
        assert says["reads"] == 1
        await reader.read(NOW + 60)
        assert says["reads"] == 2
        assert reader.describe() == {"histograms": 1, "too_young": 0, "reads": "ok", "file": "none"}


@pytest.mark.parametrize("trouble", [{"error": "it is down"}, {"raises": "oh"}], ids=["tells", "raises"])
async def test_a_failing_meter_is_reported_beside_values_learnt_before(trouble: dict[str, Any]) -> None:
    says = dict[str, Any]()
    async with opened(VirtualClock(NOW), says) as reader:
        await reader.read(NOW)
        says |= trouble
        found = await reader.read(NOW + 60)
        assert "meter: " in found.faults["cpu_p95"]
        assert found.workloads["cpu_p95"][WEB][0].measured == NOW  # it ages, and is soon not trusted


@pytest.mark.parametrize(
    ("says", "enough", "after", "learning", "fault"),
    [
        pytest.param({}, 12.0, 60, True, "too early: 1 without 12 h of samples", id="too few hours"),
        pytest.param({}, 0.0, 60, False, "", id="enough"),
        pytest.param({"pod": "other"}, 12.0, 60, True, "nothing was learnt yet", id="no sample yet"),
        pytest.param(
            {"pod": "other"}, 12.0, 400, False, "meter: no sample of a governed pod for 400 s", id="never one"
        ),
        pytest.param({"error": "it is down"}, 12.0, 60, False, "meter: it is down", id="what it learns from is down"),
        pytest.param(
            {"value": 1e7},
            12.0,
            60,
            False,
            "nothing was learnt yet; meter: cpu: 1e+07 of shop/web-0/main is left out, its node n has less",
            id="absurd",
        ),
    ],
)
async def test_learning_is_no_failure_while_samples_come(
    says: dict[str, Any], enough: float, after: float, learning: bool, fault: str
) -> None:
    clock = VirtualClock(NOW)
    async with opened(clock, says, enough=enough) as reader:
        await reader.read(NOW)
        found = await reader.read(NOW + after)
    assert (found.learning, found.faults.get("cpu_p95", "")) == (learning, fault)


async def test_learning_that_gets_no_further_sample_has_failed() -> None:
    says = dict[str, Any]()
    async with opened(VirtualClock(NOW), says, enough=12.0) as reader:
        await reader.read(NOW)
        says["pod"] = "other"
        assert (await reader.read(NOW + 300)).learning
        assert not (await reader.read(NOW + 301)).learning


async def test_an_absurd_sample_changes_nothing_and_is_told_once() -> None:
    says = dict[str, Any]()
    async with opened(VirtualClock(NOW), says) as reader:
        before = await reader.read(NOW)
        says["value"] = 1e7
        absurd = await reader.read(NOW + 60)
        says["value"] = 1.0
        after = await reader.read(NOW + 120)
    (first,), (second,) = before.workloads["cpu_p95"][WEB], absurd.workloads["cpu_p95"][WEB]
    assert (second.value, second.measured) == (first.value, first.measured)
    assert absurd.faults["cpu_p95"] == "meter: cpu: 1e+07 of shop/web-0/main is left out, its node n has less"
    assert "cpu_p95" not in after.faults
    assert after.workloads["cpu_p95"][WEB][0].value == first.value


async def test_it_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    file = str(tmp_path / "deep" / "learnt.json")
    async with opened(VirtualClock(NOW), file=file) as reader:
        first = await reader.read(NOW)
    async with opened(VirtualClock(NOW), {"error": "down"}, file=file) as reader:
        again = await reader.read(NOW)
    assert again.workloads == first.workloads
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["learnt.json"]


async def test_a_damaged_checkpoint_is_set_aside_and_learning_starts_afresh(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "learnt.json"
    file.write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        async with opened(VirtualClock(NOW), file=str(file)) as reader:
            assert "set aside" in str(reader.describe()["file"])
            assert (await reader.read(NOW)).workloads["cpu_max"][WEB]
    assert "is no checkpoint" in caplog.text
    assert (tmp_path / "learnt.json.damaged").read_bytes() == b"{"
    assert json.loads(file.read_bytes())["version"] == 1


@pytest.mark.parametrize("what", ["folder", "parent"])
async def test_an_unwritable_checkpoint_is_logged_and_stops_nothing(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "learnt.json"
    if what == "folder":
        file.mkdir()
    else:
        file.write_text("")
        file = file / "learnt.json"
    async with opened(VirtualClock(NOW), file=str(file)) as reader:
        assert (await reader.read(NOW)).workloads["cpu_max"][WEB]
    assert "must be writable, is not" in caplog.text


async def test_learning_and_saving_go_on_without_any_readers(tmp_path: Path) -> None:
    file, says = tmp_path / "learnt.json", dict[str, Any]()
    async with opened(WallClock(), says, file=str(file), save=1.0) as reader:
        assert (await reader.read(0.0)).workloads.get("cpu_max", {}) == {}
        await until(lambda: bool(reader.describe()["histograms"]))
        await until(file.exists)
    assert says["reads"] >= 1


async def test_a_site_without_the_source_is_refused() -> None:
    with pytest.raises(ConfigError, match='must be another source, is "meter"'):
        async with UsageHistogram(of="meter").open(site(clock=VirtualClock(NOW))):
            pass


@pytest.mark.slow
async def test_requests_on_a_simulated_cluster_converge_to_usage_by_pod() -> None:
    """A service that asks for 2 cores and uses half a one in each of three pods."""
    table = {
        "name": "web", "namespace": "shop", "replicas": 3, "cpu": "2", "memory": "4Gi", "memory_per_pod": "1Gi",
        "demand": {"formula": "1.5"},
    }  # fmt: skip
    cluster = msgspec.convert(
        {"type": "simulated", "nodes": [{"name": "n", "cpu": "32", "memory": "64Gi"}], "workloads": [table]}, Simulated
    )
    policy = Policy(
        name="sizes",
        replicas=Bounds(9),
        strategies=(Vertical(),),
        workload=Target("shop", "web"),
        mode="act",
        max_age=300.0,
    )
    sources = [ResourceMetrics(), UsageHistogram(enough=0.5)]
    journal = await simulate(cluster, [policy], 4000, sources=sources, start=NOW)
    last = journal.latest("sizes", REF)
    assert last is not None
    assert (last.verdict, last.reason, last.current) == ("keep", "CountLeftAlone", 3)
    (asked,) = last.sizing.resources
    assert asked.requests["cpu"] == pytest.approx(0.5 * 1.15, rel=0.06)
    assert asked.requests["memory"] == pytest.approx(2**30 * 1.15, rel=0.06)
    assert last.sizing.resizes == ()
    assert asked.present == asked.requests
    assert len(journal.past("sizes", REF, NOW + 4000, 3).resizes) == 3


def test_judgement_reads_what_the_source_has() -> None:
    assert set(Vertical().reads()) <= {*SERIES, "cpu", "memory"}
    assert set(Vertical(confident=True).reads()) <= {*SERIES, "cpu", "memory"}
    assert judge(Vertical(), seen=observation([0.5])).sizing.resizes == ()


async def test_cancelling_leaves_no_task_behind() -> None:
    async with opened(WallClock()):
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "learn usage-histogram" in names
    assert "learn usage-histogram" not in {task.get_name() for task in asyncio.all_tasks()}
