"""How long a server gave no answer, and for how long that makes an average over its past doubtful."""

import math
from math import nan

import pytest

from elasticd.base.shapes import moment
from elasticd.sources.prometheus.silences import Beginning, Silences

START = 1_700_000_000.0

Reads = list[tuple[float, bool]]
"""When reads began or were answered, and whether they were."""


def told(reads: Reads) -> Silences:
    silences = Silences()
    for at, answered in reads:
        if answered:
            silences.answered(START + at)
        else:
            silences.failed(START + at)
    return silences


def doubted(silences: Silences, window: float, at: float) -> bool:
    return bool(silences.doubt(window, START + at))


OUTAGE: Reads = [(0, True), (15, False), (30, False), (45, True)]
HICCUP: Reads = [(0, True), (15, False), (25, True)]
RESTLESS: Reads = [each for at in range(0, 300, 60) for each in ((at, True), (at + 15, False), (at + 25, True))]


@pytest.mark.parametrize(
    ("reads", "window", "until"),
    [
        pytest.param([(0, True), (15, True)], 60, None, id="it always answered"),
        pytest.param([(0, True), (3600, True)], 60, None, id="it was not asked for an hour"),
        pytest.param(OUTAGE, 60, 125, id="an outage, until the window is full"),
        pytest.param(OUTAGE, 300, 425, id="and a longer one"),
        pytest.param(OUTAGE, 3600, None, id="not one of which a hundredth is missing"),
        pytest.param(OUTAGE, 0, None, id="nor what averages over nothing"),
        pytest.param(HICCUP, 60, 105, id="one lost read of a short window"),
        pytest.param(HICCUP, 300, None, id="not of a long one"),
        pytest.param(RESTLESS, 300, 585, id="several, of which each alone is short: until few enough are left"),
        pytest.param([(0, False), (40, True)], 60, 120, id="since its first read, as far as is known"),
        pytest.param([(0, False), (1, True)], 60, None, id="it was ready a moment later"),
        pytest.param([(0, True), (7200, False), (7201, True)], 60, 7281, id="longer than a window"),
    ],
)
def test_an_average_is_doubted_until_its_window_is_full(reads: Reads, window: float, until: float | None) -> None:
    silences, now = told(reads), reads[-1][0]
    assert doubted(silences, window, now) is (until is not None)
    if until is not None:
        assert doubted(silences, window, until - 0.1)
        assert not doubted(silences, window, until)
        assert silences.doubt(window, START + now).endswith(f"until {moment(START + until)}")


def test_what_is_doubted_says_why_and_until_when() -> None:
    assert told(OUTAGE).doubt(60, START + 50) == (
        "it averages over 60 s, and the server gave no answer for 45 s until 2023-11-14T22:14:05.000Z: "
        "it may be too low until 2023-11-14T22:15:25.000Z"
    )


def test_it_is_not_doubted_before_it_answers_again() -> None:
    """It has no samples then that could be."""
    assert not doubted(told([(0, True), (15, False)]), 60, 20)


def begun(*notes: tuple[float, str], window: float = 60) -> Beginning:
    """Read since START by a daemon that leads since then, with what the server showed of its scrapes."""
    beginning = Beginning()
    beginning.begin(START, START)
    for longest, fault in notes:
        beginning.note(window, longest, fault)
    return beginning


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        pytest.param([], "it was not asked", id="it was not asked"),
        pytest.param([(6.0, "")], "", id="it scraped all the time, nearly"),
        pytest.param([(31.2, "")], "the server scraped nothing for 31 s", id="it was away"),
        pytest.param([(31.2, ""), (2.0, "")], "", id="it was away before what counts now"),
        pytest.param([(START, "")], "the server shows no scrapes (up)", id="it has none"),
        pytest.param([(nan, "no answer")], "no answer", id="it did not answer"),
        pytest.param([(nan, "")], "the server shows no scrapes (up)", id="it answered without a number"),
    ],
)
def test_a_beginning_is_doubted_until_scrapes_are_shown(notes: list[tuple[float, str]], told: str) -> None:
    beginning = begun(*notes)
    words = beginning.doubt(60, START + 79.9)
    assert (bool(words), told in words) == (bool(told), True)
    assert beginning.unknown([60, 60, 0], START + 79.9) == [60] * bool(told)
    assert words.endswith(f"until {moment(START + 80)}") is bool(told)
    assert (beginning.doubt(60, START + 80), beginning.unknown([60], START + 80)) == ("", [])
    assert beginning.doubt(0, START) == ""


def test_each_window_of_a_beginning_is_shown_apart() -> None:
    assert begun((5.0, ""), window=60).unknown([0, 60, 300], START) == [300]


def test_who_leads_again_begins_to_read_again() -> None:
    beginning = begun((0.0, ""))
    beginning.begin(START, START + 600)
    assert beginning.unknown([60], START + 600) == []
    beginning.begin(START + 590, START + 601)
    assert beginning.unknown([60], START + 680.9) == [60]
    assert beginning.doubt(60, START + 681) == ""


def test_nothing_is_doubted_where_nobody_leads() -> None:
    beginning = Beginning()
    beginning.begin(-math.inf, START)
    assert beginning.doubt(60, START) == ""
