"""The process that fits: that it answers, and what is told of one that is killed, hangs, ends or talks nonsense."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from elasticd.sources.forecast.fitter import Apart, Here, Lost, lacking
from elasticd.sources.forecasting.__main__ import humble, serve
from elasticd.sources.forecasting.request import (
    HEAD_BYTES,
    LARGEST,
    PackedSamples,
    Question,
    Reply,
    Wish,
    frame,
    length,
    reply,
)
from tests.kit.waves import track, wave

QUESTION = Question(Wish(step=300.0), track(wave(7, each=288), 300.0))


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


Processes = list[asyncio.subprocess.Process]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Every process that has begun, in this order."""
    made, begin = Processes(), asyncio.create_subprocess_exec

    async def note(*command: str, **options: Any) -> asyncio.subprocess.Process:
        made.append(await begin(*command, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "create_subprocess_exec", note)
        yield made


async def begun(processes: Processes, before: int) -> asyncio.subprocess.Process:
    """The next process, when it has begun."""
    while len(processes) == before:  # noqa: ASYNC110 - it begins without saying so
        await asyncio.sleep(0.01)
    return processes[-1]


ANSWERS = script("""
import sys
from elasticd.sources.forecasting.request import HEAD_BYTES, Reply, frame, length
while head := sys.stdin.buffer.read(HEAD_BYTES):
    sys.stdin.buffer.read(length(head))
    sys.stdout.buffer.write(frame(Reply(problem="said")))
    sys.stdout.flush()
""")
"""One that answers, and has nothing to import for it."""

ANSWER_ONE = ANSWERS[-1].replace("while head :=", "if head :=")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def genuine(processes: Processes) -> AsyncIterator[Apart]:
    """The process that the daemon has, of which it takes a second to import what it needs."""
    async with aclosing(Apart(60.0)) as fitter:
        yield fitter


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_it_answers_as_it_would_have_here(genuine: Apart) -> None:
    expected = await Here().fit(QUESTION)
    assert await genuine.fit(QUESTION) == expected
    assert expected.forecast is not None


@pytest.mark.asyncio(loop_scope="module")
async def test_one_process_answers_many_questions(genuine: Apart, processes: Processes) -> None:
    said = await genuine.fit(QUESTION)
    (only,) = processes
    assert await genuine.fit(QUESTION) == said
    assert processes == [only]


@pytest.mark.asyncio(loop_scope="module")
async def test_it_yields_to_others(genuine: Apart, processes: Processes) -> None:
    await genuine.fit(QUESTION)
    pid = processes[0].pid
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"  # noqa: ASYNC240


@pytest.mark.asyncio(loop_scope="module")
async def test_the_loop_turns_while_it_fits(genuine: Apart) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    turning = asyncio.create_task(turn())
    await genuine.fit(Question(Wish(), track(wave(14))))
    turning.cancel()
    assert turns > 10  # one that blocked would leave one or two


async def test_none_is_left_afterwards(processes: Processes) -> None:
    async with aclosing(Apart(60.0, ANSWERS)) as fitter:
        await fitter.fit(QUESTION)
        assert processes[-1].returncode is None
    assert processes[-1].returncode is not None


async def test_who_is_cancelled_while_closing_leaves_no_process(processes: Processes) -> None:
    fitter = Apart(60.0, script(ANSWER_ONE + "import os, time; os.close(1); time.sleep(60)"))
    await fitter.fit(QUESTION)
    process = processes[-1]
    assert process.stdout is not None
    await process.stdout.read()  # it has said its last, and does not end
    closing = asyncio.create_task(fitter.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert process.returncode == -signal.SIGKILL


async def test_who_is_cancelled_while_it_is_killed_leaves_no_process(processes: Processes) -> None:
    async with aclosing(Apart(60.0, ANSWERS)) as fitter:
        await fitter.fit(QUESTION)
        process = processes[-1]
        closing = asyncio.create_task(fitter.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("text", "patience", "why"),
    [
        pytest.param("import time; time.sleep(60)", 0.3, "it took more than 0.3 s", id="hangs"),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)", 10, "killed by signal 9, perhaps for its memory", id="killed"
        ),
        pytest.param("raise SystemExit(3)", 10, "it ended with code 3", id="ends"),
        pytest.param("import sys; sys.stdout.write('x' * 9)", 10, "a frame must have at most", id="talks"),
        pytest.param(
            "import sys; sys.stdout.buffer.write(bytes([0, 0, 0, 1, 0xc1])); sys.stdout.flush(); input()",
            10,
            "malformed|Expected|invalid|MessagePack",
            id="talks nonsense",
        ),
    ],
)
async def test_one_that_does_not_answer_is_reported_and_ended(
    processes: Processes, text: str, patience: float, why: str
) -> None:
    fitter = Apart(patience, script(text))
    with pytest.raises(Lost, match=why):
        await fitter.fit(QUESTION)
    assert processes[-1].returncode is not None


async def test_after_one_that_was_lost_a_fresh_one_answers(tmp_path: Path) -> None:
    first = f"""
import pathlib
try:
    pathlib.Path({str(tmp_path / "ended")!r}).mkdir()
except OSError:
    pass
else:
    raise SystemExit(3)
"""
    fitter = Apart(60.0, script(first + ANSWERS[-1]))
    with pytest.raises(Lost):
        await fitter.fit(QUESTION)
    assert (await fitter.fit(QUESTION)).problem == "said"
    await fitter.aclose()


async def test_one_that_is_killed_while_it_fits_is_reported(processes: Processes) -> None:
    fitter = Apart(30.0, script("import time; print('x', end='', flush=True); time.sleep(60)"))
    before, fitting = len(processes), asyncio.create_task(fitter.fit(QUESTION))
    process = await begun(processes, before)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(Lost, match="killed by signal 9"):
        await fitting


async def test_a_command_that_is_not_there_is_reported() -> None:
    with pytest.raises(Lost, match="No such file"):
        await Apart(1.0, ("/no/such/python",)).fit(QUESTION)


async def test_who_is_cancelled_leaves_no_process(processes: Processes) -> None:
    fitter = Apart(30.0, script("import time; time.sleep(60)"))
    before, fitting = len(processes), asyncio.create_task(fitter.fit(QUESTION))
    process = await begun(processes, before)
    fitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fitting
    assert process.returncode == -signal.SIGKILL


def test_nothing_is_lacking_here() -> None:
    assert lacking() == ""


@pytest.mark.slow
def test_the_fitter_answers_every_question_though_one_fails() -> None:
    bad = Question(Wish(), PackedSamples(b"odd", b"odd"))
    questions, replies = io.BytesIO(frame(bad) + frame(QUESTION) + b"\0\0"), io.BytesIO()
    serve(questions, replies)
    replies.seek(0)
    found = []
    while head := replies.read(HEAD_BYTES):
        found.append(reply(replies.read(length(head))))
    assert found[0].problem.startswith("the fit failed: ValueError: ")
    assert found[1].forecast is not None
    assert len(found) == 2


def test_a_frame_that_nobody_sends_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at most {LARGEST} bytes"):
        length(b"\xff\xff\xff\xff")
    assert reply(frame(Reply(problem="x"))[HEAD_BYTES:]) == Reply(problem="x")


def test_a_process_that_may_not_yield_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.nice", refuse)
    monkeypatch.setattr("resource.setrlimit", refuse)
    monkeypatch.setattr("pathlib.Path.write_text", refuse)
    humble()


@pytest.mark.slow
async def test_here_is_arithmetic_alone() -> None:
    found = await Here().fit(QUESTION)
    assert found.forecast is not None
    assert np.isfinite(found.forecast.values).all()
