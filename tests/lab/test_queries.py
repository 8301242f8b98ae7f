"""`elasticd backtest --prometheus`: the load as a server remembers it."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.kit.daemons import called
from tests.kit.sources.scripted import Handler, Say, Scripted, drop, matrix

RANGE = "/api/v1/query_range"
POLICY = """
workload = { namespace = "shop", name = "web" }
replicas = { min = 1, max = 10 }

[[strategy]]
type = "hpa"
metrics = [{ type = "Resource", resource = "cpu", utilization = 60 }]
"""
PODS = [{"namespace": "shop", "pod": f"web-7d4-{pod}"} for pod in range(3)]
CART = {"namespace": "shop", "pod": "cart-5c9-1"}
WEB = {"namespace": "shop", "deployment": "web"}
OTHER = {"namespace": "shop", "deployment": "api"}


def always(value: float, *labels: dict[str, str]) -> Handler:
    """Answers with this value at each step that is asked for, for each label set."""

    async def answer(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        first, last, step = (float(str(form[key])) for key in ("start", "end", "step"))
        times = [first + index * step for index in range(round((last - first) / step) + 1)]
        return web.json_response(matrix(*[(each, [(at, value) for at in times]) for each in labels]))

    return answer


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as scripted:
        yield scripted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy, and a folder of its own for what is temporary."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lean.toml").write_text(POLICY)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


ASKED = ("backtest", "lean.toml", "--cpu", "500m", "--since", "20m", "--query", "load + 0", "--jobs", "1")


async def asked(server: Scripted, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return await asyncio.to_thread(called, capsys, *ASKED, "--prometheus", server.url, *words)


@pytest.mark.parametrize(
    ("labels", "words", "counts"),
    [
        pytest.param([*PODS, CART], [], 3, id="pods"),
        pytest.param([*PODS, CART], ["--replicas-query", "count + 0"], 4, id="pods and their count"),
        pytest.param([WEB, OTHER], [], None, id="workloads"),
        pytest.param([{}], [], None, id="one series"),
        pytest.param([{"job": "x"}], ["--replicas-query", "count + 0"], 4, id="one series and a count"),
    ],
)
async def test_labels_say_what_an_answer_is_about(
    server: Scripted,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    labels: list[dict[str, str]],
    words: list[str],
    counts: int | None,
) -> None:
    server.on(RANGE, always(0.3, *labels), query="load + 0")
    server.on(RANGE, always(4, WEB, OTHER), query="count + 0")
    code, out, err = await asked(server, capsys, "--json", *words)
    runs = {run["policies"]: run["figures"] for run in json.loads(out)}
    cores = 0.3 * (3 if labels[0] in PODS else 1)
    assert (code, err) == (0, "")
    assert runs["lean"]["demand"] == pytest.approx(cores / 3)
    assert ("(what was)" in runs) == (counts is not None)
    if counts is not None:
        assert runs["(what was)"]["replica_hours"] == pytest.approx(counts / 3)
    assert not list((folder / "temporary").iterdir())


async def test_a_run_of_a_longer_step_has_no_gaps(
    server: Scripted, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on(RANGE, always(0.3, {}))
    code, out, _ = await asked(server, capsys, "--json", "--step", "5m")
    assert code == 0
    assert json.loads(out)[0]["figures"]["demand"] == pytest.approx(0.1)


async def test_what_was_left_out_is_told(server: Scripted, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.on(RANGE, always(0.3, *PODS, {"namespace": "shop"}))
    code, _, err = await asked(server, capsys)
    assert (code, err) == (0, "--query: 1 of 4 samples have no fit labels namespace and pod\n")


BAD = Say(400, {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "query": 1:5: parse error'})
NEEDED = "must give one series, or the labels namespace and pod, or the labels namespace and deployment"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(BAD, '--query: 400 Bad Request: invalid parameter "query": 1:5: parse error', id="query"),
        pytest.param(drop, "--query: no answer: Server disconnected", id="no answer"),
        pytest.param(matrix(), "--query: there is no sample in that time", id="nothing"),
        pytest.param(
            always(1, CART),
            "--query: there is no sample of cpu of shop/web-* in that time",
            id="another workload",
        ),
        pytest.param(
            always(1, {"a": "1"}, {"a": "2"}),
            f"--query: {NEEDED}: 2 of 2 samples have no fit labels namespace and pod; "
            "2 of 2 samples have no fit labels namespace and deployment; "
            "1 subjects have more than one sample and are left out (shop/Deployment/web)",
            id="other labels",
        ),
    ],
)
async def test_an_answer_that_is_no_load_costs_one_line(
    server: Scripted, folder: Path, capsys: pytest.CaptureFixture[str], answer: Any, problem: str
) -> None:
    server.on(RANGE, answer)
    assert await asked(server, capsys) == (69, "", f"{problem}\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(
            ["--prometheus", "localhost:9090"],
            '--prometheus: must be http:// or https:// and a host, is "localhost:9090"',
            id="url",
        ),
        pytest.param(
            ["--prometheus", "http://x", "--query", ""],
            "--query: must be given with --prometheus, is not",
            id="no query",
        ),
        pytest.param(
            ["--prometheus", "http://x", "--since", "yesterday"],
            '--since: must be as 7d or 12h, from a --step to 3650d, is "yesterday"',
            id="since",
        ),
        pytest.param(
            ["--prometheus", "http://x", "--since", "10s"],
            '--since: must be as 7d or 12h, from a --step to 3650d, is "10s"',
            id="less than a step",
        ),
        pytest.param(
            ["--prometheus", "http://x", "--step", "often"],
            '--step: must be seconds or as 15s or 1m, is "often"',
            id="step",
        ),
        pytest.param(
            ["--recording", "r.csv", "--query", "load"],
            "--query: must stand beside --prometheus, does not",
            id="query of a recording",
        ),
    ],
)
def test_what_cannot_be_asked_costs_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], problem: str
) -> None:
    assert called(capsys, *ASKED, *words) == (78, "", f"{problem}\n")
