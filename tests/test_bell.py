"""A person asks a running daemon to look at its pools now, through a file, and is answered; or told that none runs."""

import asyncio
from pathlib import Path

import pytest

from elasticd.bell import ANSWER, REQUEST, heed, ring
from elasticd.errors import EXIT_UNAVAILABLE, UnavailableError


def left(folder: Path) -> list[str]:
    """What lies in it."""
    return [path.name for path in folder.iterdir()]


async def test_a_running_daemon_answers_and_nothing_is_left_behind(tmp_path: Path) -> None:
    asked = []

    def answer() -> str:
        asked.append(1)
        return "2 pools are looked at now"

    task = asyncio.create_task(heed(tmp_path, answer))
    said = await asyncio.to_thread(ring, tmp_path)
    assert (said, asked, left(tmp_path)) == ("2 pools are looked at now", [1], [])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_without_a_daemon_that_is_said_with_exit_code_69_and_the_request_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / ANSWER).write_text("an old one")
    with pytest.raises(UnavailableError) as told:
        ring(tmp_path, patience=0.1)
    assert told.value.exit_code == EXIT_UNAVAILABLE == 69
    assert str(told.value) == f"{tmp_path}: must be the state folder of a running elasticd, but none answers"
    assert not (tmp_path / REQUEST).exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="must be writable, is not: Not a directory"):
        ring(tmp_path / "file", patience=0.1)
