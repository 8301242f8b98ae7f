"""What sources remember of workloads: a Prometheus, a recording, the daemon's own journal."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from elasticd.base.clock import VirtualClock
from elasticd.base.errors import UnavailableError
from elasticd.journal import Journal, lines_after
from elasticd.journal.segments import compress
from elasticd.model.records import Decision
from elasticd.model.workload import Quality, Ref, Sample, Series
from elasticd.ports.source import History, TimeRange
from elasticd.sources.forecast.journal import JournalMemory
from elasticd.sources.prometheus import Prometheus
from elasticd.sources.prometheus.history import OVERLAP, Remembering
from elasticd.sources.recording import RecordingSource
from elasticd.testing import site
from tests.kit.sources.scripted import NOW, Handler, Say, Scripted, matrix

RANGE = "/api/v1/query_range"
WEB, CART = "shop/Deployment/web", "shop/Deployment/cart"
LABELS = {WEB: {"namespace": "shop", "deployment": "web"}, CART: {"namespace": "shop", "deployment": "cart"}}
RATE = {"name": "rate", "query": "sum by (namespace, deployment) (rate(x[1m]))"}


def listed(found: Any) -> dict[str, list[tuple[float, float]]]:
    return {key: [*zip(*points, strict=True)] for key, points in found.items()}


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        yield scripted


def remembering(server: Scripted, *series: dict[str, Any]) -> Remembering:
    table = {"type": "prometheus", "url": server.url, "series": series or [RATE]}
    return Remembering(msgspec.convert(table, Prometheus), VirtualClock(NOW))


def counting(*keys: str) -> Handler:
    """A point for each step that is asked for: how many seconds it is from NOW."""

    async def answer(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        first, last, step = (float(str(form[key])) for key in ("start", "end", "step"))
        times = [first + index * step for index in range(round((last - first) // step) + 1)]
        return web.json_response(matrix(*[(LABELS[key], [(at, at - NOW) for at in times]) for key in keys]))

    return answer


async def test_a_prometheus_memory_returns_only_the_requested_workloads(server: Scripted) -> None:
    server.on(RANGE, counting(WEB, CART))
    async with msgspec.convert({"type": "prometheus", "url": server.url, "series": [RATE]}, Prometheus).memory(
        site()
    ) as memory:
        found = await memory.past("rate", [WEB], TimeRange(NOW, NOW + 30, 15))
    assert listed(found) == {WEB: [(NOW, 0), (NOW + 15, 15), (NOW + 30, 30)]}


@pytest.mark.slow
async def test_two_weeks_come_in_portions_and_each_sample_once(server: Scripted) -> None:
    server.on(RANGE, counting(WEB))
    found = await remembering(server).past("rate", [WEB], TimeRange(NOW, NOW + 14 * 86400, 60))
    assert len(found[WEB].times) == 14 * 1440 + 1
    assert sorted(set(found[WEB].times)) == list(found[WEB].times)
    steps = [(float(form["end"]) - float(form["start"])) / 60 for form in server.forms(RANGE)]
    assert max(steps) < 11_000


async def test_later_queries_fetch_only_new_samples_and_drop_old_samples(server: Scripted) -> None:
    server.on(RANGE, counting(WEB))
    memory = remembering(server)
    await memory.past("rate", [WEB], TimeRange(NOW, NOW + 6000, 60))
    asked = len(server.forms(RANGE))
    found = await memory.past("rate", [WEB], TimeRange(NOW + 600, NOW + 6600, 60))
    assert [float(form["start"]) for form in server.forms(RANGE)[asked:]] == [NOW + 6000 - OVERLAP * 60]
    assert listed(found) == {WEB: [(NOW + at, at) for at in range(600, 6601, 60)]}


@pytest.mark.parametrize(
    ("workloads", "span"),
    [
        pytest.param([WEB, CART], TimeRange(NOW + 60, NOW + 660, 60), id="another workload"),
        pytest.param([WEB], TimeRange(NOW - 60, NOW + 660, 60), id="farther back"),
        pytest.param([WEB], TimeRange(NOW + 60, NOW + 660, 30), id="other steps"),
        pytest.param([WEB], TimeRange(NOW + 9000, NOW + 9600, 60), id="after a long pause"),
    ],
)
async def test_the_whole_range_is_queried_again_outside_the_cache(
    server: Scripted, workloads: list[str], span: TimeRange
) -> None:
    server.on(RANGE, counting(WEB, CART))
    memory = remembering(server)
    await memory.past("rate", [WEB], TimeRange(NOW, NOW + 600, 60))
    found = await memory.past("rate", workloads, span)
    assert {key: (one.times[0], one.times[-1]) for key, one in found.items()} == dict.fromkeys(
        workloads, (span.first, span.last)
    )


@pytest.mark.parametrize(
    ("answer", "series", "problem"),
    [
        pytest.param(Say(503, b"{}"), "rate", "prometheus: ", id="a server in trouble"),
        pytest.param(matrix(), "other", 'prometheus: has no series "other"', id="no such series"),
        pytest.param(matrix(), "cpu", 'prometheus: "cpu" must be a series of workloads, is not', id="a series of pods"),
    ],
)
async def test_a_prometheus_error_is_raised_then_everything_is_queried_again(
    server: Scripted, answer: Any, series: str, problem: str
) -> None:
    server.on(RANGE, counting(WEB))
    memory = remembering(server, RATE, {"name": "cpu", "query": "cpu", "subject": "pod"})
    await memory.past("rate", [WEB], TimeRange(NOW, NOW + 600, 60))
    server.on(RANGE, answer)
    with pytest.raises(UnavailableError, match=problem):
        await memory.past(series, [WEB], TimeRange(NOW + 60, NOW + 660, 60))
    server.on(RANGE, counting(WEB))
    found = await memory.past("rate", [WEB], TimeRange(NOW + 120, NOW + 720, 60))
    assert (found[WEB].times[0], found[WEB].times[-1]) == (NOW + 120, NOW + 720)


def recorded(folder: Path, **options: Any) -> RecordingSource:
    rows = "".join(f"{1000 + 10 * at},queue,workload,{WEB},{at}\n" for at in range(6))
    (folder / "day.csv").write_text("time,series,subject,key,value\n" + rows + "1000,cpu,pod,shop/web-1,1\n")
    return RecordingSource(file=str(folder / "day.csv"), **options)


async def past_of(source: RecordingSource, now: float, span: TimeRange, series: str = "queue") -> dict[str, list[Any]]:
    async with source.memory(site(clock=VirtualClock(now))) as memory:
        return listed(await memory.past(series, [WEB, CART], span))


async def test_a_recording_remembers_what_it_has_played(tmp_path: Path) -> None:
    found = await past_of(recorded(tmp_path, start="recorded"), 0, TimeRange(1005, 1030, 10))
    assert found == {WEB: [(1010, 1), (1020, 2), (1030, 3)]}


async def test_a_recording_played_from_now_has_the_times_of_playing(tmp_path: Path) -> None:
    found = await past_of(recorded(tmp_path, speed=10), 5000, TimeRange(5000, 5003, 1))
    assert found == {WEB: [(5000, 0), (5001, 1), (5002, 2), (5003, 3)]}


async def test_one_that_plays_over_and_over_remembers_all_its_rounds(tmp_path: Path) -> None:
    found = await past_of(recorded(tmp_path, repeat=60), 5000, TimeRange(5040, 5130, 10))
    assert found == {WEB: [(5040, 4), (5050, 5), (5060, 0), (5070, 1), (5080, 2), (5090, 3), (5100, 4), (5110, 5),
                           (5120, 0), (5130, 1)]}  # fmt: skip


@pytest.mark.parametrize("series", ["cpu", "none"], ids=["of pods", "not there"])
async def test_a_series_missing_from_a_recording_is_an_error(tmp_path: Path, series: str) -> None:
    with pytest.raises(UnavailableError, match=f'recording: has no series "{series}" of workloads'):
        await past_of(recorded(tmp_path), 0, TimeRange(0, 1, 1), series)


REF = Ref("shop", "Deployment", "web")


def decided(
    at: float, *values: float, quality: Quality = Quality.FRESH, name: str = "rps", policy: str = "p"
) -> Decision:
    samples = tuple(Sample(value, at, at, pod=f"web-{index}") for index, value in enumerate(values))
    series = (Series(name, "meter", quality, samples),)
    return Decision(
        id=f"{at}", at=at, policy="p", workload=REF, mode="act", current=len(values), replicas=1, verdict="keep",
        reason="", message="", series=series,
    )  # fmt: skip


def written(folder: Path, *decisions: Decision, bytes_: int = 1 << 20) -> None:
    journal = Journal(folder, segment_bytes=bytes_, segments=1000)
    for one in decisions:
        journal.append(one)
        journal.flush()
    journal.close()


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl*"))


EVER = TimeRange(0, 1e12, 60)


async def journalled(memory: History, series: str = "rps", span: TimeRange = EVER) -> list[tuple[float, float]]:
    return listed(await memory.past(series, [WEB], span)).get(WEB, [])


async def test_the_journal_remembers_the_sum_over_the_pods(tmp_path: Path) -> None:
    written(tmp_path, decided(60, 1.0, 2.0), decided(120, 4.0))
    memory = JournalMemory(tmp_path)
    assert await journalled(memory) == [(60, 3), (120, 4)]
    assert await journalled(memory, "replicas") == [(60, 2), (120, 1)]
    assert await journalled(memory) == [(60, 3), (120, 4)]
    assert await journalled(memory, span=TimeRange(100, 200, 60)) == [(120, 4)]
    assert await journalled(memory, "none") == []


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(decided(120, 4.0, quality=Quality.PARTIAL), id="a part of the pods is not the whole"),
        pytest.param(decided(120, 4.0, quality=Quality.STALE), id="what is stale"),
        pytest.param(decided(120, quality=Quality.FRESH), id="no sample is not zero"),
        pytest.param(decided(120, 4.0, name="other"), id="another series"),
        pytest.param(decided(60, 4.0), id="another policy at the same time"),
        pytest.param(decided(30, 4.0), id="an earlier time"),
    ],
)
async def test_what_tells_no_load_is_left_out(tmp_path: Path, decision: Decision) -> None:
    written(tmp_path, decided(60, 1.0), decision)
    assert await journalled(JournalMemory(tmp_path)) == [(60, 1)]


async def test_only_new_journal_lines_are_read_and_torn_lines_skipped(tmp_path: Path) -> None:
    written(tmp_path, decided(60, 1.0))
    memory = JournalMemory(tmp_path)
    assert await journalled(memory) == [(60, 1)]
    path = segments(tmp_path)[0]
    with path.open("ab") as file:
        file.write(b'{"type":"outcome"}\nnonsense\n{"type":"deci')
    assert await journalled(memory) == [(60, 1)]
    with path.open("ab") as file:
        file.write(b"sion\n" + msgspec.json.encode(decided(120, 2.0)) + b"\n")
    assert await journalled(memory) == [(60, 1), (120, 2)]


async def test_decisions_that_were_written_shorter_tell_their_load() -> None:
    memory = JournalMemory(Path("tests/journal/shortened"))
    assert await journalled(memory, "cpu") == [(1, 0.75), (2, 1.25), (3, 1 / 3 + 0.1), (4, 0.5), (5, 0.25)]
    assert [at for at, _ in await journalled(memory, "replicas")] == [1, 2, 3, 4, 5]


async def test_it_goes_on_into_the_next_segments(tmp_path: Path) -> None:
    written(tmp_path, *[decided(60.0 * at, float(at)) for at in range(1, 4)], bytes_=10)
    memory = JournalMemory(tmp_path)
    assert await journalled(memory) == [(60, 1), (120, 2), (180, 3)]
    written(tmp_path, *[decided(60.0 * at, float(at)) for at in range(4, 6)], bytes_=10)
    assert [at for at, _ in await journalled(memory)] == [60, 120, 180, 240, 300]
    assert len(segments(tmp_path)) > 2


async def test_it_goes_on_within_a_segment_compressed_meanwhile(tmp_path: Path) -> None:
    written(tmp_path, decided(60, 1.0), decided(120, 2.0))
    memory = JournalMemory(tmp_path)
    assert await journalled(memory) == [(60, 1), (120, 2)]
    written(tmp_path, decided(180, 3.0))
    compress(segments(tmp_path)[0])
    assert await journalled(memory) == [(60, 1), (120, 2), (180, 3)]


def test_each_line_has_the_place_behind_it(tmp_path: Path) -> None:
    written(tmp_path, decided(60, 1.0), decided(120, 2.0))
    (first, one), (second, two) = lines_after(tmp_path)
    assert [*lines_after(tmp_path, first)] == [(second, two)]
    assert [*lines_after(tmp_path, second)] == []
    assert (first, second) == ((1, len(one)), (1, len(one) + len(two)))


async def test_a_journal_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="the journal must be readable"):
        await journalled(JournalMemory(tmp_path / "none"))
