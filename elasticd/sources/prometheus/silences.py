"""How long a server gave no answer, and until when an average over its past may be too low for that.

A server that was down or suspended has no samples of this time. That cannot be seen in its answers: `rate(x[60s])` of
samples of which most are missing is a number like any other, and a smaller one. Who begins to read a server knows of
no such time before, until it has read for a window, or the server shows that it scraped all the time. Pure; knows
nothing of queries.
"""

from collections import deque
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from elasticd.base.shapes import moment
from elasticd.sources.prometheus.tables import LONGEST_WINDOW

ALLOWED = 0.1
"""The part of a window that may be missing: so much is within the usual tolerance. A read that was lost in a network
thus makes no series of long windows unknown."""

FOUND = 5.0
"""Seconds after which a Prometheus that has started has found what it scrapes."""

SCRAPES = 4
"""Scrapes that a window has, at least: so long may it take until the first."""

_MOST = 10_000


class Silence(NamedTuple):
    """A time without an answer, ends included, in seconds since the epoch."""

    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


def full_after(window: float) -> float:
    """Seconds after an answer until so many seconds of samples are there again."""
    return window + window / SCRAPES + FOUND


class Silences:
    """Those of one server. One begins with the last answer before a read that failed, as the server may have been down
    since; before the first answer, with the first read that failed."""

    def __init__(self) -> None:
        self._heard: float | None = None
        self._begun: float | None = None
        self._past: deque[Silence] = deque(maxlen=_MOST)

    def failed(self, asked: float) -> None:
        """A read that was begun at this time had no answer."""
        if self._begun is None:
            self._begun = asked if self._heard is None else self._heard

    def answered(self, now: float) -> None:
        """There was an answer."""
        if self._begun is not None:
            self._past.append(Silence(self._begun, now))
        self._heard, self._begun = now, None
        while self._past and self._past[0].ended <= now - full_after(LONGEST_WINDOW):
            self._past.popleft()

    def doubt(self, window: float, now: float) -> str:
        """Why an average over so many seconds may be too low now, and until when; empty: it is not."""
        if not window:
            return ""
        silences = [silence for silence in self._past if silence.ended > now - full_after(window)]
        missing, until = sum(silence.seconds for silence in silences), now
        for silence in silences:
            if missing <= ALLOWED * window:
                break
            missing -= silence.seconds
            until = silence.ended + full_after(window)
        if until <= now:
            return ""
        last = silences[-1]
        return (
            f"it averages over {window:g} s, and the server gave no answer for {last.seconds:.0f} s until "
            f"{moment(last.ended)}: it may be too low until {moment(until)}"
        )


class Beginning:
    """Since when one server has been read, and of which windows it has shown that nothing is missing from before."""

    def __init__(self) -> None:
        self._led = self._since = -inf
        self._flaws: dict[float, str] = {}

    def begin(self, led: float, now: float) -> None:
        """Reads begin anew with the one that ends now, if the daemon has begun to lead since the one before."""
        if led != self._led:
            self._led, self._since = led, now
            self._flaws.clear()

    def unknown(self, windows: Iterable[float], now: float) -> list[float]:
        """The windows of which the server is to show that nothing is missing."""
        return [window for window in sorted({*windows}) if self._is_early(window, now) and self._flaws.get(window, "?")]

    def note(self, window: float, longest: float, fault: str = "") -> None:
        """The longest time without any scrape in this window; NaN, and the fault, where it cannot be had."""
        if longest <= ALLOWED * window:
            self._flaws[window] = ""
        elif longest < full_after(LONGEST_WINDOW):
            self._flaws[window] = f"the server scraped nothing for {longest:.0f} s"
        else:
            self._flaws[window] = fault or "the server shows no scrapes (up)"

    def doubt(self, window: float, now: float) -> str:
        """Why an average over so many seconds may be too low now, and until when; empty: it is not."""
        if not self._is_early(window, now) or not (flaw := self._flaws.get(window, "it was not asked")):
            return ""
        return (
            f"it averages over {window:g} s, elasticd has read it since {moment(self._since)}, and {flaw} before: "
            f"it may be too low until {moment(self._since + full_after(window))}"
        )

    def _is_early(self, window: float, now: float) -> bool:
        return window > 0 and now < self._since + full_after(window)
