"""Reads a few metrics off a page in the Prometheus text format.

Knows HTTP and the format, and that a page comes from outside: what is too long, too slow or unreadable is no page.
Knows nothing of whose page it is, nor of how many are read.
"""

import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address

import aiohttp
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from elasticd.base.clock import Clock
from elasticd.base.server_time import ServerTime
from elasticd.base.text import one_line, raised
from elasticd.model.workload import Sample
from elasticd.sources.http import read_body
from elasticd.sources.rounds import Fault

_HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "elasticd"}

Page = Mapping[str, Sample]
"""The samples that were read off a page, by the name of the series."""


class Wanted(Struct, frozen=True):
    """The sum of a metric's samples that have all these labels."""

    name: str
    metric: str
    labels: dict[str, str]


class Place(Struct, frozen=True):
    """Where pages are, and how much of them is read at most: `lines` counts those of wanted metrics."""

    port: int
    path: str
    timeout: float
    largest: int
    lines: int
    at_once: int


@asynccontextmanager
async def scraping(place: Place, series: Sequence[Wanted], clock: Clock) -> AsyncIterator["Scraper"]:
    """A Scraper, for as long as the context lasts."""
    connector = aiohttp.TCPConnector(limit=place.at_once)
    limits = aiohttp.ClientTimeout(total=place.timeout)
    # No proxy, no redirect: only pods are asked. Compressed data may unpack to any size, so nothing is unpacked.
    async with aiohttp.ClientSession(
        connector=connector, timeout=limits, headers=_HEADERS, auto_decompress=False
    ) as session:
        yield Scraper(session, place, series, clock)


class Scraper:
    """Reads pages."""

    def __init__(self, session: aiohttp.ClientSession, place: Place, series: Sequence[Wanted], clock: Clock) -> None:
        self._session, self._place, self._series = session, place, series
        self._now, self._offset = clock.now, ServerTime(clock).offset
        names = "|".join(sorted({re.escape(wanted.metric) for wanted in series}))
        # Parsing takes a hundred times as long as finding the few lines that are needed.
        self._lines = re.compile(rb"^(?:%s)[{ \t].*$" % names.encode(), re.MULTILINE)

    async def read(self, address: str) -> Page | Fault:
        """The wanted series on the page at an IP address; missing ones are left out. Never raises."""
        try:
            ip = ip_address(address)
            host = f"[{ip}]" if isinstance(ip, IPv6Address) else str(ip)
            body = await self._fetch(f"http://{host}:{self._place.port}{self._place.path}")
            return body if isinstance(body, Fault) else self._parse(body)
        except TimeoutError:
            return Fault(f"no answer within {self._place.timeout:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Fault(raised(error))

    async def _fetch(self, url: str) -> bytes | Fault:
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                return Fault(f"it answers {answer.status}")
            packed = answer.headers.get("Content-Encoding", "identity")
            if answer.content_type != "text/plain" or packed != "identity":
                return Fault(one_line(f"it answers in {answer.content_type}, {packed}"))
            body = await read_body(answer, self._place.largest)
            return Fault(f"its page is larger than {self._place.largest} bytes") if body is None else body

    def _parse(self, body: bytes) -> Page | Fault:
        lines = self._lines.findall(body)
        if len(lines) > self._place.lines:
            return Fault(f"its page has {len(lines)} lines of these metrics, at most {self._place.lines}")
        try:
            families = list(text_string_to_metric_families(b"\n".join(lines).decode() + "\n"))
        except Exception as error:  # whatever a malformed line makes the parser raise
            return Fault(f"its page cannot be read: {raised(error)}")
        now, page = self._now(), dict[str, Sample]()
        for sample in (sample for family in families for sample in family.samples):
            for series in self._series:
                if sample.name == series.metric and series.labels.items() <= sample.labels.items():
                    measured = now if sample.timestamp is None else float(sample.timestamp) + self._offset()
                    page[series.name] = _add(page.get(series.name), _number(sample.value), measured, now)
        return page


def _number(value: float) -> float:
    """As a float: the parser gives integers of any size."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _add(so_far: Sample | None, value: float, measured: float, now: float) -> Sample:
    """Add to a sum, which is as old as its oldest part."""
    if so_far is None:
        return Sample(value, measured, now)
    return Sample(so_far.value + value, min(so_far.measured, measured), now)
