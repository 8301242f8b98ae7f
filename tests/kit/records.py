"""Decisions and outcomes as a journal keeps them."""

import errno
import io
from math import inf
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.journal import Journal, Record
from elasticd.journal.lines import write_line
from elasticd.model.actions import Scale
from elasticd.model.history import Past
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Condition, Failure, Limit, Measure, Quality, Recommendation, Ref, Sample, Series

WEB = Ref("shop", "Deployment", "web")
KEY = ("shop", WEB)


def decision(at: float, wish: int | None = 3, current: int = 2, **changes: Any) -> Decision:
    """A judged one, with something of everything."""
    made = Decision(
        id=f"shop@{at}",
        at=at,
        policy="shop",
        workload=WEB,
        mode="act",
        current=current,
        replicas=current if wish is None else wish,
        verdict="scale",
        reason="Wanted",
        message="more",
        uid="uid",
        wish=wish,
        recommendations=(Recommendation(wish, "Wanted", "", (Measure("cpu", "70%", "50%", 3),), "hpa"),),
        limits=(Limit("ScaleUpLimit", "", 1, None, name="rate", bound=True),),
        conditions=(Condition("AbleToScale", True, "ReadyForNewScale"),),
        failures=(Failure("bad", "limit", "raised"),),
        series=(Series("cpu", "meter", Quality.FRESH, (Sample(0.5, at, at, 15.0, "web-0", "web"),), "", at),),
        interval=30.0,
        interval_by="policy",
        action=Scale(WEB, "uid", "7", 2, 3, "more"),
    )
    return replace(made, **changes)


def outcome(at: float, before: int = 2, after: int = 3) -> Outcome:
    return Outcome("shop@0", at, "shop", WEB, "done", before, after, 200, seconds=0.1)


def encode(record: Record) -> bytes:
    """Its line, without the end."""
    lines = bytearray()
    write_line(record, lines)
    return bytes(lines[:-1])


def fill(journal: Journal, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        journal.append(decision(number * 30.0, wish=2 + number % 5))
        journal.append(outcome(number * 30.0 + 1))
        journal.flush()


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


class Disk:
    """The disk of files that are opened from now on. It takes only `room` bytes more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = inf
        disk = self

        class File(io.FileIO):
            def write(self, data: Any, /) -> int:
                if not disk.room:
                    raise OSError(errno.ENOSPC, "No space left on device")
                taken = super().write(bytes(data if disk.room == inf else data[: int(disk.room)]))
                disk.room -= taken
                return taken

        monkeypatch.setattr(io, "FileIO", File)


def pasts(journal: Journal, *refs: Ref) -> list[Past]:
    """What is remembered of these workloads of the policy, as it was left: at the start of time there is no gap."""
    return [journal.past(KEY[0], ref, 0.0, 1) for ref in refs]


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{one.levelname} {one.getMessage()}" for one in caplog.records]
