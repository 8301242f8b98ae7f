"""A workload's past for its chart, and why it was scaled at a time, from the journal on disk."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.base.errors import UnavailableError
from elasticd.journal import Journal
from elasticd.ui import past
from elasticd.ui.past import Past
from tests.kit.records import decision, outcome

WEB = "shop/Deployment/web"
NOW = 10_000.0


def journaled(folder: Path, *records: Any) -> Past:
    journal = Journal(folder)
    for record in records:
        journal.append(record)
    journal.flush()
    journal.close()
    return Past(folder, VirtualClock(NOW))


@pytest.mark.parametrize(
    ("seconds", "since", "ends"),
    [pytest.param(100.0, NOW - 90, "asked", id="as long as asked"), pytest.param(1e6, NOW - 300, "journal", id="all")],
)
async def test_the_past_goes_back_as_far_as_asked_or_known(
    tmp_path: Path, seconds: float, since: float, ends: str
) -> None:
    made = [decision(NOW - age, id=f"{age}") for age in (300, 90, 30)]
    found = await journaled(tmp_path, *made).history(WEB, "", seconds)
    assert (found.since, found.ends, len(found.points)) == (since, ends, 3 if ends == "journal" else 2)


async def test_decisions_that_say_the_same_share_a_row(tmp_path: Path) -> None:
    keeps = [decision(NOW - 90 + age, id=f"{age}", verdict="keep", action=None) for age in (0, 30, 60)]
    scales = decision(NOW - 95, id="scale")
    done = replace(outcome(NOW - 94), decision="scale", reason="SucceededRescale")
    found = await journaled(tmp_path, scales, done, *keeps).history(WEB, "shop", 200.0)
    rows = [(row.verdict, row.at, row.until, row.decisions, row.result) for row in found.decisions]
    assert rows == [
        ("scale", NOW - 95, NOW - 95, 1, "done: SucceededRescale"),
        ("keep", NOW - 90, NOW - 30, 3, ""),
    ]


async def test_a_steady_workload_has_few_points_and_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "POINTS", 10)
    made = [decision(NOW - 1000 + at, id=f"{at}", current=2 + (at == 505), wish=3) for at in range(0, 1000, 5)]
    found = await journaled(tmp_path, *made).history(WEB, "", 2000.0)
    assert len(found.points) < 20
    assert [point.at for point in found.points if point.current == 3] == [NOW - 495]
    assert found.points[-1].at == NOW - 5


async def test_reading_ends_when_it_takes_too_long(tmp_path: Path) -> None:
    journaled(tmp_path, *[decision(NOW - age, id=f"{age}") for age in (90, 60, 30)])
    found = await Past(tmp_path, VirtualClock(NOW), patience=-1.0).history(WEB, "", 1000.0)
    assert (found.ends, len(found.points)) == ("patience", 0)


@pytest.mark.parametrize(("at", "made"), [(NOW - 90, "90"), (NOW - 31, "60"), (NOW, "30")])
async def test_the_decision_in_force_at_a_time_is_found(tmp_path: Path, at: float, made: str) -> None:
    records = [decision(NOW - age, id=f"{age}") for age in (90, 60, 30)]
    found = await journaled(tmp_path, *records, replace(outcome(NOW - 29), decision="30")).explain(WEB, "", at)
    assert found["decision"] == next(record for record in records if record.id == made)
    assert bool(found["outcome"]) == (made == "30")


@pytest.mark.parametrize("workload", ["shop/Deployment/other", WEB])
async def test_no_decision_is_said_to_be_none(tmp_path: Path, workload: str) -> None:
    with pytest.raises(UnavailableError, match=rf"^the journal has no decision about {workload} that is so old$"):
        await journaled(tmp_path, decision(NOW)).explain(workload, "", NOW - 1)


async def test_a_journal_in_memory_has_no_past_to_read() -> None:
    with pytest.raises(UnavailableError, match="kept in memory alone"):
        await Past(None, VirtualClock(NOW)).history(WEB, "", 60.0)
