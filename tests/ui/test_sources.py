"""How sources fare: a table that fits 80 columns, and lines below it in words."""

from typing import Any

import pytest

from elasticd.sources.poller import NOT_READ, SourceReport
from elasticd.ui.sources import sources
from tests.ui.test_decisions import text

WELL: dict[str, Any] = {
    "name": "resource-metrics",
    "type": "resource-metrics",
    "health": "ok",
    "resolution": 15.0,
    "age": 3.2,
    "reads": 1234567,
    "failures": 12345,
    "seconds": 0.0123,
    "samples": 100000,
    "series": ("cpu", "memory"),
}
BROKER = {"connected": True, "since": 17e8, "reconnects": 0, "received": 12, "refused": {"clock": 2}, "trouble": ""}
REFUSED = "connection refused: [Errno 111] Connect call failed ('127.0.0.1', 9090)"


def report(**changes: Any) -> SourceReport:
    """A source that is well, but for what is changed."""
    return SourceReport(**{**WELL, **changes})


def said(*reports: SourceReport, width: int = 80) -> list[str]:
    """The lines, without what fills up rows."""
    return [line.rstrip() for line in text(sources(reports), width).splitlines()]


def test_a_source_is_a_row_and_a_line() -> None:
    assert said(report()) == [
        "source            health  age    renewed     reads    failed  takes  subjects",
        "resource-metrics  ok      3.2 s  every 15 s  1234567  12345   12 ms  100000",
        "",
        "resource-metrics: cpu, memory",
    ]


def test_a_source_that_is_not_read_yet_does_not_fail() -> None:
    lines = said(report(health=NOT_READ, quiet="unread", reads=0, failures=0, age=None))
    assert lines[1].split() == ["resource-metrics", "unread", "-", "every", "15", "s", "0", "0", "-", "100000"]
    assert "  not read yet" in lines


def test_what_has_too_few_samples_is_learning() -> None:
    lines = said(report(health="cpu_p95: too early: 3 without 12 h of samples", quiet="learning"), width=120)
    assert lines[1].split()[:2] == ["resource-metrics", "learning"]
    assert lines[4:] == ["  cpu_p95: too early: 3 without 12 h of samples"]


@pytest.mark.parametrize(
    ("health", "below"), [("ok", []), (REFUSED, [f"  {REFUSED}"])], ids=["its last read was good", "its last failed"]
)
def test_what_nobody_reads_any_more_is_unread(health: str, below: list[str]) -> None:
    lines = said(report(health=health, quiet="unread"), width=120)
    assert lines[1].split()[:2] == ["resource-metrics", "unread"]
    assert lines[4:] == below


def test_no_row_exceeds_80_columns_and_none_is_broken() -> None:
    many = tuple(f"series_{number}" for number in range(30))
    lines = said(report(name="a", type="prometheus", series=many, health=REFUSED, age=None, resolution=None))
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["a", "fails", "-", "-", "1234567", "12345", "12", "ms", "100000"]
    assert "and 22 more" in " ".join(lines)
    assert REFUSED in " ".join(" ".join(lines).split())


def test_a_sources_details_are_words_without_python_syntax() -> None:
    lines = said(report(name="sensors", type="mqtt", details=BROKER), width=200)
    assert lines[-2:] == [
        "sensors, a source of type mqtt: cpu, memory",
        "  connected, received 12, refused (clock 2)",
    ]


@pytest.mark.parametrize(
    ("details", "line"),
    [
        pytest.param({"asked": 3, "for_example": {"n1": "late"}}, "asked 3, for example (n1 late)", id="a round"),
        pytest.param([{"a": 1}, {"b": 0.5}], "a 1, b 0.5", id="an array"),
        pytest.param("all is well", "all is well", id="a sentence"),
        pytest.param({"a": {"b": {"c": [1, 2]}}}, "a (b (c (1, 2)))", id="deep"),
        pytest.param({"text": "two\nlines\x1b[1m"}, "text two lines\\x1b[1m", id="lines and escapes"),
    ],
)
def test_details_are_told_however_deep(details: Any, line: str) -> None:
    assert said(report(details=details), width=200)[-1] == f"  {line}"


def test_without_a_source_that_is_reported() -> None:
    assert said() == ["elasticd.toml has no source"]
