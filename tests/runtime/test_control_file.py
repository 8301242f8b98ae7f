"""A person asks a running daemon to look at its pools now, through a file, and is answered; or told that none runs."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from elasticd.base.errors import EXIT_UNAVAILABLE, UnavailableError
from elasticd.runtime import control_file
from elasticd.runtime.control_file import ANSWER, REQUEST, ask, serve
from tests.cluster.kubernetes.fake import until


def left(folder: Path) -> list[str]:
    """What lies in it."""
    return [path.name for path in folder.iterdir()]


async def test_a_running_daemon_answers_and_nothing_is_left_behind(tmp_path: Path) -> None:
    asked = []

    def answer() -> str:
        asked.append(1)
        return "2 pools are looked at now"

    task = asyncio.create_task(serve(tmp_path, answer))
    said = await asyncio.to_thread(ask, tmp_path)
    assert (said, asked, left(tmp_path)) == ("2 pools are looked at now", [1], [])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_ask_without_a_daemon_exits_69_and_withdraws_the_request(tmp_path: Path) -> None:
    (tmp_path / ANSWER).write_text("an old one")
    with pytest.raises(UnavailableError) as told:
        ask(tmp_path, patience=0.1)
    assert told.value.exit_code == EXIT_UNAVAILABLE == 69
    assert str(told.value) == f"{tmp_path}: must be the state folder of a running elasticd, but none answers"
    assert not (tmp_path / REQUEST).exists()


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="must be writable, is not: Not a directory"):
        ask(tmp_path / "file", patience=0.1)


def test_a_full_disk_is_reported_and_the_request_is_withdrawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_file, "regular", lambda path, flags: os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(UnavailableError) as told:
        ask(tmp_path, patience=0.1)
    assert str(told.value) == f"{tmp_path / REQUEST}: must be writable, is not: No space left on device"
    assert (told.value.exit_code, left(tmp_path)) == (EXIT_UNAVAILABLE, [])


async def test_a_daemon_unable_to_answer_logs_why_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = []

    def answer() -> str:
        asked.append(1)
        if len(asked) == 1:
            (tmp_path / ANSWER).symlink_to("/dev/null/answer")
        return "1 pool is looked at now"

    task = asyncio.create_task(serve(tmp_path, answer))
    with pytest.raises(UnavailableError) as told:
        await asyncio.to_thread(ask, tmp_path, 1.0)
    why = f"{tmp_path / ANSWER}: must be writable, is not: it is a symbolic link"
    assert (str(told.value), told.value.exit_code) == (why, EXIT_UNAVAILABLE)
    await until(lambda: caplog.records)  # the next request removes the link
    assert await asyncio.to_thread(ask, tmp_path) == "1 pool is looked at now"
    assert [record.getMessage() for record in caplog.records] == [f"{why}: the request is not answered"]
    assert left(tmp_path) == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_disk_that_does_not_answer_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answers = threading.Event(), threading.Event()

    def stuck(_: Path) -> None:
        begun.set()
        answers.wait()

    monkeypatch.setattr(Path, "unlink", stuck)
    task = asyncio.create_task(serve(tmp_path, lambda: ""))
    assert await asyncio.to_thread(begun.wait, 30.0)
    task.cancel()  # while it waits, the event loop turns, and this ends it
    await asyncio.gather(task, return_exceptions=True)
    answers.set()
