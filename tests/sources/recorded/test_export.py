"""`elasticd record`: what a Prometheus remembers becomes a file that is whole or not there."""

import asyncio
import errno
import math
import os
import time
from collections.abc import AsyncIterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.cli import main
from elasticd.ports.source import TimeRange
from elasticd.sources.prometheus import Prometheus
from elasticd.sources.recorded.export import NoSampleError, Recorded, Selection, moment, seconds, write_recording
from tests.kit.sources.scripted import NOW, Handler, Say, Scripted, matrix

RANGE = "/api/v1/query_range"
MINUTE = TimeRange(NOW, NOW + 60, 15)
WEB = {"namespace": "shop", "deployment": "web"}
CART = {"namespace": "shop", "deployment": "cart"}
RATE = {"name": "rate", "query": "sum by (namespace, deployment) (rate(x[1m]))", "window": 60}


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        yield scripted


def source(server: Scripted, *series: dict[str, Any], **more: Any) -> Prometheus:
    return msgspec.convert({"type": "prometheus", "url": server.url, "series": series or [RATE], **more}, Prometheus)


async def record(
    server: Scripted, out: Path, *series: dict[str, Any], steps: TimeRange = MINUTE, **more: Any
) -> Recorded:
    force = more.pop("force", False)
    wanted = [str(one["name"]) for one in series or (RATE,)]
    return await write_recording(source(server, *series, **more), Selection(wanted, steps), out, NOW, force=force)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def ramp(*labels: dict[str, str]) -> Handler:
    """Answers with a point for each step that is asked for, and for each label set."""

    async def answer(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        first, last, step = (float(str(form[key])) for key in ("start", "end", "step"))
        times = [first + index * step for index in range(round((last - first) / step) + 1)]
        return web.json_response(matrix(*[(one, [(at, at - NOW) for at in times]) for one in labels]))

    return answer


async def test_a_row_has_the_fields_of_a_recording(server: Scripted, tmp_path: Path) -> None:
    server.on(RANGE, matrix((WEB, [(NOW, 1), (NOW + 15, "2.5")]), (CART, [(NOW, 3)])))
    done = await record(server, tmp_path / "r.jsonl")
    assert (done.rows, done.faults) == ({"rate": 3}, {})
    one = {"series": "rate", "subject": "workload", "window": 60.0}
    assert rows_of(tmp_path / "r.jsonl") == [
        {"time": NOW, "key": "shop/Deployment/web", "value": 1.0, **one},
        {"time": NOW, "key": "shop/Deployment/cart", "value": 3.0, **one},
        {"time": NOW + 15, "key": "shop/Deployment/web", "value": 2.5, **one},
    ]
    assert os.listdir(tmp_path) == ["r.jsonl"]  # noqa: PTH208


async def test_csv_has_the_same_columns(server: Scripted, tmp_path: Path) -> None:
    server.on(RANGE, matrix((WEB, [(NOW, 1), (NOW + 15, "NaN")])))
    await record(server, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text() == (
        "time,series,subject,key,value,window\n"
        "1700000000.0,rate,workload,shop/Deployment/web,1.0,60.0\n"
        "1700000015.0,rate,workload,shop/Deployment/web,nan,60.0\n"
    )


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
async def test_a_pods_containers_have_a_column(server: Scripted, tmp_path: Path, ending: str) -> None:
    pod = {"namespace": "shop", "pod": "web-1"}
    server.on(RANGE, matrix(({**pod, "c": "web"}, [(NOW, 1)]), (pod, [(NOW, 2)])))
    table = {"name": "cpu", "query": "a+b", "subject": "pod", "labels": {"container": "c"}}
    await record(server, tmp_path / f"r.{ending}", table)
    text = (tmp_path / f"r.{ending}").read_text()
    if ending == "csv":
        assert [line.rpartition(",")[2] for line in text.splitlines()] == ["container", "web", ""]
    else:
        assert [row.get("container") for row in rows_of(tmp_path / "r.jsonl")] == ["web", None]


async def test_what_is_no_number_is_null_and_not_left_out(server: Scripted, tmp_path: Path) -> None:
    server.on(RANGE, matrix((WEB, [(NOW, "NaN"), (NOW + 15, "+Inf"), (NOW + 30, "0")])))
    await record(server, tmp_path / "r.jsonl")
    assert [row["value"] for row in rows_of(tmp_path / "r.jsonl")] == [None, None, 0.0]


async def test_a_sample_has_its_own_time_and_is_given_once(server: Scripted, tmp_path: Path) -> None:
    scraped = {NOW: NOW - 5, NOW + 15: NOW - 5, NOW + 30: NOW + 25, NOW + 45: NOW + 25}
    server.on(RANGE, matrix((WEB, [(at, 7) for at in scraped])), query="queue")
    server.on(RANGE, matrix((WEB, [*scraped.items()])), query="timestamp(queue)")
    await record(server, tmp_path / "r.jsonl", {"name": "queue", "query": "queue"})
    assert [row["time"] for row in rows_of(tmp_path / "r.jsonl")] == [NOW - 5, NOW + 25]


async def test_a_time_that_is_none_leaves_the_others(server: Scripted, tmp_path: Path) -> None:
    """They would be the past of a forecast, which has a place for each step between the first and the last."""
    told = [1e308, -1e308, "NaN", 1000 * (NOW + 45), 0.0, NOW + 70]
    server.on(RANGE, matrix((WEB, [(NOW + 15 * index, 7) for index in range(len(told))])), query="queue")
    times = [(NOW + 15 * index, at) for index, at in enumerate(told)]
    server.on(RANGE, matrix((WEB, times)), query="timestamp(queue)")
    await record(server, tmp_path / "r.jsonl", {"name": "queue", "query": "queue"})
    assert [row["time"] for row in rows_of(tmp_path / "r.jsonl")] == [NOW + 70]


@pytest.mark.slow
async def test_a_long_range_is_queried_in_parts(server: Scripted, tmp_path: Path) -> None:
    server.on(RANGE, ramp(WEB))
    total = 30_000
    done = await record(server, tmp_path / "r.csv", steps=TimeRange(NOW, NOW + 15 * (total - 1), 15))
    assert done.rows == {"rate": total}
    parts = [(float(form["start"]), float(form["end"])) for form in server.forms(RANGE)]
    assert [round((last - first) / 15) + 1 for first, last in parts] == [100, 400, 1600, 6400, 11_000, 10_500]
    assert all(after[0] == before[1] + 15 for before, after in pairwise(parts))
    times = [float(line.partition(",")[0]) for line in (tmp_path / "r.csv").read_text().splitlines()[1:]]
    assert times == [NOW + 15 * index for index in range(total)]


@pytest.mark.parametrize("why", ["bytes", "samples"])
async def test_a_query_is_split_when_its_answer_is_too_large(server: Scripted, tmp_path: Path, why: str) -> None:
    asked: list[int] = []

    async def picky(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        asked.append(round((float(str(form["end"])) - float(str(form["start"]))) / 15) + 1)
        if asked[-1] > 30 and why == "samples":
            error = "query processing would load too many samples into memory in query execution"
            return web.json_response({"status": "error", "error": error}, status=422)
        return await ramp(WEB)(request)

    server.on(RANGE, picky)
    limit = {"max_bytes": 1100} if why == "bytes" else {}
    done = await record(server, tmp_path / "r.jsonl", steps=TimeRange(NOW, NOW + 15 * 59, 15), **limit)
    assert done.rows == {"rate": 60}
    assert asked[:2] == [60, 15]
    times = [row["time"] for row in rows_of(tmp_path / "r.jsonl")]
    assert times == [NOW + 15 * index for index in range(60)]


async def test_samples_of_two_label_sets_at_one_time_are_omitted(server: Scripted, tmp_path: Path) -> None:
    old, new = {**WEB, "version": "1"}, {**WEB, "version": "2"}
    server.on(RANGE, matrix((old, [(NOW, 1), (NOW + 15, 2)]), (new, [(NOW + 15, 3), (NOW + 30, 4)])))
    done = await record(server, tmp_path / "r.jsonl")
    assert [row["value"] for row in rows_of(tmp_path / "r.jsonl")] == [1.0, 4.0]
    assert "have more than one sample and are left out (shop/Deployment/web)" in done.faults["rate"]


async def test_only_rows_of_the_wanted_keys_are_written(server: Scripted, tmp_path: Path) -> None:
    server.on(RANGE, ramp(WEB, CART))
    await write_recording(source(server), Selection(["rate"], MINUTE, "shop/*/web"), tmp_path / "r.jsonl", NOW)
    assert {row["key"] for row in rows_of(tmp_path / "r.jsonl")} == {"shop/Deployment/web"}


@pytest.mark.parametrize(("labels", "others"), [(CART, True), ({}, False)], ids=["others", "none"])
async def test_keys_without_a_row_are_an_error(
    server: Scripted, tmp_path: Path, labels: dict[str, str], others: bool
) -> None:
    server.on(RANGE, ramp(labels))
    with pytest.raises(NoSampleError, match="there is no sample of rate") as caught:
        await write_recording(source(server), Selection(["rate"], MINUTE, "shop/*/web"), tmp_path / "r.jsonl", NOW)
    assert caught.value.others == others
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_series_that_rules_find_are_recorded(server: Scripted, tmp_path: Path) -> None:
    server.on("/api/v1/label/__name__/values", {"status": "success", "data": ["http_total"]})
    server.on(RANGE, matrix(({"namespace": "shop", "pod": "web-1"}, [(NOW, 1)])))
    overrides = {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}
    rule = {"series": "{a='b'}", "resources": {"overrides": overrides}, "query": "<<.Series>>{<<.LabelMatchers>>}+0"}
    options = {"type": "prometheus", "url": server.url, "rule": [rule]}
    found = msgspec.convert(options, Prometheus)
    selection = Selection(["http_total"], TimeRange(NOW, NOW + 15, 15))
    await write_recording(found, selection, tmp_path / "r.jsonl", NOW)
    assert [row["key"] for row in rows_of(tmp_path / "r.jsonl")] == ["shop/web-1"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Say(503, {"error": "starting"}), "prometheus: 503 Service Unavailable: starting"),
        (Say(422, {"error": "too many samples"}), "prometheus: 422 Unprocessable Entity: too many samples"),
        (matrix(), "prometheus: there is no sample of rate in that time"),
        (matrix(({}, [(NOW, 1)])), "in that time; rate: 1 of 1 samples have no fit labels namespace and deployment"),
        ({**matrix((WEB, [(NOW, 1)])), "warnings": ["half"]}, "a partial answer"),
        (b"{", "prometheus: the answer is not of the query API"),
    ],
    ids=["503", "422", "nothing", "no-labels", "partial", "truncated"],
)
async def test_a_server_in_trouble_leaves_no_file(server: Scripted, tmp_path: Path, answer: Any, problem: str) -> None:
    server.on(RANGE, answer)
    with pytest.raises(UnavailableError, match=problem):
        await record(server, tmp_path / "r.jsonl")
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_an_existing_file_is_overwritten_only_with_force(server: Scripted, tmp_path: Path) -> None:
    server.on(RANGE, matrix((WEB, [(NOW, 1)])))
    out = tmp_path / "r.jsonl"
    out.write_text("mine")
    with pytest.raises(ConfigError, match=r"--out: must be a new file, .* is there \(--force\)"):
        await record(server, out)
    assert (out.read_text(), server.seen) == ("mine", [])
    await record(server, out, force=True)
    assert len(rows_of(out)) == 1


async def test_a_full_disk_is_one_error_line_without_leftovers(
    server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("elasticd.base.files.os.fsync", full)
    server.on(RANGE, matrix((WEB, [(NOW, 1)])))
    out = tmp_path / "r.jsonl"
    out.write_text("mine")
    with pytest.raises(UnavailableError) as caught:
        await record(server, out, force=True)
    assert str(caught.value) == f"{out}: must be writable, is not: No space left on device"
    assert (os.listdir(tmp_path), out.read_text()) == ([out.name], "mine")  # noqa: PTH208


async def test_a_folder_that_is_not_there_is_reported(server: Scripted, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="must be writable, is not: No such file or directory"):
        await record(server, tmp_path / "none" / "r.jsonl")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", NOW), ("-7d", NOW - 604800), ("-1.5h", NOW - 5400), ("-90s", NOW - 90), ("1700000000", NOW),
        ("2023-11-14T22:13:20Z", NOW), ("2023-11-14T23:13:20+01:00", NOW),
    ],
)  # fmt: skip
def test_times_are_written_as_people_do(text: str, at: float) -> None:
    assert moment(text, NOW) == at


@pytest.mark.parametrize(
    ("text", "here"),
    [
        pytest.param("22:13", "2023-11-14T22:13:00", id="today"),
        pytest.param("22:13:20", "2023-11-14T22:13:20", id="now"),
        pytest.param("22:14", "2023-11-13T22:14:00", id="yesterday"),
        pytest.param("3:12", "2023-11-14T03:12:00", id="in the night"),
    ],
)
def test_a_time_of_day_is_the_last_one_here(text: str, here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert moment(text, NOW) == datetime.fromisoformat(f"{here}+00:00").timestamp()
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text", ["", "24:00", "3:1", "-7", "7d", "-7y", "2023-11-14T22:13:20", "2023-11-14", "yesterday", "nan"]
)
def test_a_time_that_could_mean_another_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be now, as -7d, as 03:12, or as"):
        moment(text, NOW)


@pytest.mark.parametrize(("text", "step"), [("15s", 15), ("1m", 60), ("15", 15), ("500ms", 0.5), ("0", math.nan)])
def test_a_step_is_seconds_or_has_a_unit(text: str, step: float) -> None:
    if math.isnan(step):
        with pytest.raises(ValueError, match="must be seconds or as 15s or 1m"):
            seconds(text)
    else:
        assert seconds(text) == step


# The command.


@pytest.fixture
def config(tmp_path: Path, server: Scripted) -> Path:
    path = tmp_path / "elasticd.toml"
    path.write_text(f"""
        [[source]]
        type = "resource-metrics"
        [[source]]
        type = "prometheus"
        name = "shop"
        url = "{server.url}"
        [[source.series]]
        name = "rate"
        query = "sum by (namespace, deployment) (rate(x[1m]))"
    """)
    return path


async def run(config: Path, *words: str) -> int:
    """The command, which has a loop of its own."""
    given = ["record", "--config", str(config), "--out", str(config.parent / "r.csv"), *words]
    return await asyncio.to_thread(main, given)


async def test_the_command_says_what_it_wrote(
    server: Scripted, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on(RANGE, ramp(WEB, CART, {"namespace": "shop"}))
    assert await run(config, "--source", "shop", "--series", "rate,rate", "--from", "-1m", "--to", "now") == 0
    said = capsys.readouterr()
    assert said.out == f"{config.parent / 'r.csv'}: 10 samples of rate\n"
    assert said.err == "rate: 1 of 3 samples have no fit labels namespace and deployment\n"


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ({"--source": "shp"}, 78, '--source: must be one of resource-metrics, shop, is "shp", did you mean "shop"?'),
        ({"--source": "resource-metrics"}, 78, '--source: must be of type "prometheus", which remembers'),
        ({"--series": "rat"}, 78, '--series: no series "rat", did you mean "rate"?'),
        ({"--series": ","}, 78, "--series: must name a series, is empty"),
        ({"--from": "now"}, 78, "--from: must be a --step before --to, or more"),
        ({"--out": "r.xml"}, 78, '--out: must end in .jsonl or .csv, is "r.xml"'),
        ({"--config": "/none.toml"}, 78, "/none.toml: must be readable"),
        ({}, 69, "shop: 404 Not Found"),
    ],
    ids=["source", "type", "series", "no-series", "times", "ending", "config", "server"],
)  # fmt: skip
async def test_what_is_wrong_is_one_line_and_an_exit_code(
    config: Path, capsys: pytest.CaptureFixture[str], words: dict[str, str], code: int, problem: str
) -> None:
    given = {"--source": "shop", "--series": "rate", "--from": "-1m", **words}
    assert await run(config, *[word for pair in given.items() for word in pair]) == code
    said = capsys.readouterr()
    assert said.err.startswith(problem)
    assert (said.out, said.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("words", [["--from", "soon"], ["--from", "-1m", "--step", "often"], []])
def test_wrong_arguments_are_refused(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["record", "--source", "shop", "--series", "rate", "--out", str(tmp_path / "r.csv"), *words])
    assert caught.value.code == 2
    assert "usage: elasticd record" in capsys.readouterr().err
