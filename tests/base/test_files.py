"""Only what is a file is opened: nothing else is followed, waited on or written to."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticd.base import files
from elasticd.base.files import content_of, linked, regular, replacing


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


STRANGERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda path: path.symlink_to(path.with_name("other")), "it is a symbolic link"),
    "link to a device": (lambda path: path.symlink_to("/dev/zero"), "it is a symbolic link"),
    "link to itself": (lambda path: path.symlink_to(path), "it is a symbolic link"),
    "FIFO": (os.mkfifo, "it is a FIFO"),
    "socket": (_socket, "it is a socket"),
    "folder": (Path.mkdir, "it is a folder"),
}
"""What may stand in the place of a file, how it is made, and what is said of it."""


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(os.O_RDONLY, id="read"),
        pytest.param(os.O_WRONLY | os.O_CREAT | os.O_TRUNC, id="write"),
        pytest.param(os.O_WRONLY | os.O_CREAT | os.O_APPEND, id="append"),
    ],
)
@pytest.mark.parametrize("kind", STRANGERS)
def test_what_is_no_file_is_refused_at_once(kind: str, flags: int, tmp_path: Path) -> None:
    path, other = tmp_path / "it", tmp_path / "other"
    other.write_text("mine")
    make, what = STRANGERS[kind]
    make(path)
    with pytest.raises(OSError, match=rf"{what}|Is a directory"):
        regular(str(path), flags)
    assert other.read_text() == "mine"


@pytest.mark.parametrize("opener", [regular, linked])
def test_a_device_is_refused(opener: Callable[[str, int], int]) -> None:
    with pytest.raises(OSError, match="it is a device"):
        opener("/dev/zero", os.O_RDONLY)


def test_a_fifo_of_a_person_is_not_waited_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with pytest.raises(OSError, match="it is a FIFO"):
        linked(str(tmp_path / "link"), os.O_RDONLY)


@pytest.mark.parametrize("path", ["/proc/self/status", "/proc/kmsg", "/sys/kernel/notes"])
@pytest.mark.parametrize("opener", [regular, linked])
def test_a_file_of_the_kernel_is_refused(opener: Callable[[str, int], int], path: str) -> None:
    with pytest.raises(OSError, match=r"it is a file of the kernel|not permitted|Permission denied|No such file"):
        opener(path, os.O_RDONLY)


def test_a_file_with_nothing_to_read_yet_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe2(os.O_NONBLOCK)
    monkeypatch.setattr(files, "linked", lambda *_: reading)
    with pytest.raises(OSError, match="it has nothing to read yet"):
        content_of(tmp_path / "empty pipe", 10)
    os.close(writing)


def test_a_file_of_a_person_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    (tmp_path / "link").symlink_to("data")
    with open(tmp_path / "link", encoding="utf-8", opener=linked) as file:
        assert file.read() == "mine"


def test_a_file_is_made_written_and_read(tmp_path: Path) -> None:
    for mode in ("w", "a"):
        with open(tmp_path / "file", mode, encoding="utf-8", opener=regular) as file:
            file.write("x")
    with open(tmp_path / "file", encoding="utf-8", opener=regular) as file:
        assert file.read() == "xx"


def test_a_replaced_file_is_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    with replacing(tmp_path / "file", "w", encoding="utf-8") as file:
        file.write("x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode
