"""The source endpoints: scrapes the metrics pages of a sample of pods.

Knows how many pods to sample, and which; and that a page comes from outside: what is too long, too slow or unreadable
is no page.
"""

import asyncio
import heapq
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from ipaddress import IPv6Address, ip_address
from typing import Annotated, ClassVar
from zlib import crc32

import aiohttp
from msgspec import Meta, Struct, field
from prometheus_client.parser import text_string_to_metric_families

from elasticd.api import hookimpl
from elasticd.base.clock import Clock, ServerTime
from elasticd.base.text import one_line, raised
from elasticd.kit.unseen import why_unseen
from elasticd.model.policy import Select
from elasticd.model.workload import Pod, Readings, Sample
from elasticd.ports.source import Every, Reader, SampleTable, Site, Source
from elasticd.sources.http import read_body
from elasticd.sources.rates import CounterRates
from elasticd.sources.rounds import LATE, PATIENCE, Fault, Rounds, describe_silent

_ENOUGH = 0.75
_AVOID = 30.0
_LINES = 10_000
_LINE, _ALL_LINES = 4096, 512 << 10
"""Bytes of one line, and of all."""
_LABELS = 64
"""Labels of one line."""
_FEW = 32 << 10
"""Bytes of lines that are parsed beside what else is done; more of them in a thread."""
_HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "elasticd"}
_NOT_YET = "a rate takes two looks at a pod, and too few have had them"
_X = 1.96**2 * 100.0 / 5.0**2

Page = Mapping[str, Sample]
"""The samples that were read off a page, by the name of the series."""


def sample_size(population: int) -> int:
    """How many pods are sampled, at 95 % confidence: all of up to 3, 7 of 10, 14 of 100, and never more than 16.

    n = ceil(N X / (N + X - 1)) with X = C^2 s^2 / E^2 = 15.37, the sample size for the mean of a finite population. The
    formula and its numbers (C = 1.96, s^2 = 100, E = 5) are those of Knative, serving's
    pkg/autoscaler/metrics/sample_size.go. They are a convention: how far the pods really differ is not looked at.
    """
    return population if population <= 3 else math.ceil(population * _X / (population + _X - 1))


class EndpointSeries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of the pages, as the series of the workload as a whole."""

    name: Annotated[str, Meta(min_length=1, max_length=253, description="in policies")]
    metric: Annotated[
        str, Meta(pattern="^([a-zA-Z_:][a-zA-Z0-9_:]*)?$", description="on the page; empty: as the series")
    ] = ""
    labels: Annotated[dict[str, str], Meta(description="only samples with all these labels; they are added up")] = (
        field(default_factory=dict)
    )
    rate: Annotated[bool, Meta(description="a counter: per second between two scrapes")] = False

    def __post_init__(self) -> None:
        if not self.metric and not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", self.name):
            raise ValueError(f'metric: must be given where the name is none for a metric, name is "{self.name}"')

    @property
    def on_page(self) -> str:
        """The metric's name on the page."""
        return self.metric or self.name


class Endpoints(Source, frozen=True, kw_only=True, tag="endpoints"):
    """What pods say of themselves in the Prometheus text format, at http://POD_IP:PORT/PATH.

    Of a large workload only some are asked, the same each time, and what they say on average is taken for all of its
    ready pods."""

    complete: ClassVar[bool] = False
    """It looks at some workloads, and at those with ready pods."""

    select: Annotated[Select, Meta(description="which of the governed workloads")]
    port: Annotated[int, Meta(ge=1, le=65535, description="of the page, on every pod")]
    series: Annotated[tuple[EndpointSeries, ...], Meta(min_length=1, description="what to read off the page")]
    path: Annotated[str, Meta(pattern=r"^/[^\s#]*$", description="of the page")] = "/metrics"
    young: Annotated[float, Meta(ge=0, le=3600, description="seconds: a younger pod is asked last")] = 15.0
    timeout: Annotated[float, Meta(gt=0, le=60, description="seconds that one page may take")] = 1.0
    max_bytes: Annotated[int, Meta(ge=1024, le=1 << 28, description="bytes of one page, at most")] = 4 << 20
    at_once: Annotated[int, Meta(ge=1, le=1000, description="pages read at the same time")] = 32
    every: Every = 2.0

    def __post_init__(self) -> None:
        names = [series.name for series in self.series]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'series: must have different names, has "{name}" twice')

    def offers(self) -> tuple[str, ...]:
        return tuple(series.name for series in self.series)

    def offers_of_nodes(self) -> tuple[str, ...]:
        return ()

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        # No proxy, no redirect: only pods are asked. Compressed data may unpack to any size, so nothing is unpacked.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.at_once),
            timeout=aiohttp.ClientTimeout(total=self.timeout),
            headers=_HEADERS,
            auto_decompress=False,
        ) as session:
            endpoints = _Endpoints(site, self, Scraper(session, self, site.clock))
            async with aclosing(endpoints.rounds):
                yield endpoints


class _Plan(Struct, frozen=True):
    """The pods that are asked for a workload, by key, out of `population` that are ready; and why these may be too few
    (empty: they are not); and how many its controller counted."""

    keys: tuple[str, ...]
    population: int
    doubt: str = ""
    counted: int = 0


class _Endpoints:
    def __init__(self, site: Site, options: Endpoints, scraper: "Scraper") -> None:
        self._site, self._options, self._scraper = site, options, scraper
        self._rates = CounterRates()
        self._addresses: dict[str, str] = {}
        self._avoided: dict[str, float] = {}
        patience, keep = min(PATIENCE, options.timeout), options.timeout + options.every
        self.rounds = Rounds(self._page, site.clock, options.at_once, patience, keep)
        self.describe = self.rounds.describe

    async def _page(self, key: str) -> Page:
        """The page of a pod that is in the present plan."""
        return await self._scraper.read(self._addresses[key])

    async def read(self, now: float) -> Readings:
        """Scrape a sample of the pods, and extrapolate to whole workloads."""
        self._avoided = {key: until for key, until in self._avoided.items() if until > now}
        plans = self._plan_workloads(now)
        keys = list(dict.fromkeys(key for plan in plans.values() for key in plan.keys))
        answers, silent = await self.rounds.round(keys, now)
        self._avoided.update({key: now + _AVOID for key, why in silent.items() if why != LATE})
        by_pod_name = {key.rpartition("/")[0]: why for key, why in silent.items()}
        label, fault = self._options.label, describe_silent(by_pod_name, len(keys), "pods")
        if keys and not answers:
            return Readings(label, now, error=fault)
        self._rates.retain([f"{series.name}/{key}" for series in self._options.series if series.rate for key in keys])
        by_series = self._samples_by_series(answers)
        workloads: SampleTable = {series.name: {} for series in self._options.series}
        faults = dict.fromkeys(workloads, fault) if fault else {}
        for workload, plan in plans.items():
            for name, by_pod in by_series.items():
                samples = [by_pod[key] for key in plan.keys if key in by_pod]
                if len(samples) >= max(1, math.ceil(_ENOUGH * len(plan.keys))):
                    workloads[name][workload] = (whole(samples, plan.population, now),)
                elif plan.keys:
                    faults[name] = self._missing_metric(name, workload, plan, answers) or faults.get(name, _NOT_YET)
        doubted = {workload: plan.doubt for workload, plan in plans.items() if plan.doubt}
        counted = {workload: plan.counted for workload, plan in plans.items()}
        return Readings(label, now, workloads=workloads, faults=faults, doubted_workloads=doubted, counted=counted)

    def _plan_workloads(self, now: float) -> dict[str, _Plan]:
        snapshot, plans, addresses = self._site.snapshot(), dict[str, _Plan](), dict[str, str]()
        if snapshot is None:
            return plans
        for ref in sorted(self._site.governed()):
            workload = snapshot.workload(ref)
            if workload is not None and self._options.select.matches(ref, workload.labels):
                pods = snapshot.pods(workload)
                ready = {_key(pod): pod for pod in pods if _serves(pod)}
                order = {key: self._order(key, pod, now) for key, pod in ready.items()}
                keys = heapq.nsmallest(sample_size(len(ready)), order, key=order.__getitem__)
                addresses.update((key, ready[key].address) for key in keys)
                doubt = why_unseen(workload, pods)
                plans[str(ref)] = _Plan(tuple(keys), len(ready), doubt, workload.status_replicas)
        self._addresses = addresses
        return plans

    def _order(self, key: str, pod: Pod, now: float) -> tuple[bool, bool, int]:
        """Sort key: lately failed pods last, young ones before; else random but lasting: a rate takes two scrapes."""
        young = pod.started is None or now - pod.started < self._options.young
        return key in self._avoided, young, crc32(pod.uid.encode())

    def _samples_by_series(self, answers: Mapping[str, Page]) -> dict[str, dict[str, Sample]]:
        """By series, then pod: a counter's rate, or the value as it stands on the page."""
        by_series: dict[str, dict[str, Sample]] = {series.name: {} for series in self._options.series}
        for series in self._options.series:
            for key, page in answers.items():
                sample = page.get(series.name)
                if sample is not None and series.rate:
                    sample = self._rates.rate(f"{series.name}/{key}", sample)
                if sample is not None:
                    by_series[series.name][key] = sample
        return by_series

    def _missing_metric(self, name: str, workload: str, plan: _Plan, answers: Mapping[str, Page]) -> str:
        """Says how many pods answered without this metric on their page; empty if all of them have it."""
        lacking = sum(1 for key in plan.keys if key in answers and name not in answers[key])
        return f"{lacking} of {len(plan.keys)} pods of {workload} do not have it" if lacking else ""


def _key(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}/{pod.uid}"


def _serves(pod: Pod) -> bool:
    return bool(pod.ready) and pod.phase == "Running" and not pod.deleted and bool(pod.address)


def whole(samples: Sequence[Sample], population: int, now: float) -> Sample:
    """The sum over all pods, if the others are on average as these are. It is as old as its oldest part."""
    value = sum(sample.value for sample in samples) / len(samples) * population
    oldest, window = min(sample.measured for sample in samples), max(sample.window for sample in samples)
    return Sample(value, oldest, now, window)


class Scraper:
    """Reads pages in the Prometheus text format."""

    def __init__(self, session: aiohttp.ClientSession, options: Endpoints, clock: Clock) -> None:
        self._session, self._options = session, options
        self._now, self._offset = clock.now, ServerTime(clock).offset
        names = "|".join(sorted({series.on_page for series in options.series}))
        # Parsing takes a hundred times as long as finding the few lines that are needed.
        self._lines = re.compile(rb"^(?:%s)[{ \t].*$" % names.encode(), re.MULTILINE)

    async def read(self, address: str) -> Page:
        """The wanted series on the page at an IP address; missing ones are left out. Raises Fault."""
        ip = ip_address(address)
        host = f"[{ip}]" if isinstance(ip, IPv6Address) else str(ip)
        try:
            body = await self._fetch(f"http://{host}:{self._options.port}{self._options.path}")
        except TimeoutError:
            raise Fault(f"no answer within {self._options.timeout:g} s") from None
        lines = self._wanted_lines(body)
        return self._parse(lines) if len(lines) <= _FEW else await asyncio.to_thread(self._parse, lines)

    async def _fetch(self, url: str) -> bytes:
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise Fault(f"it answers {answer.status}")
            packed = answer.headers.get("Content-Encoding", "identity")
            if answer.content_type != "text/plain" or packed != "identity":
                raise Fault(one_line(f"it answers in {answer.content_type}, {packed}"))
            body = await read_body(answer, self._options.max_bytes)
            if body is None:
                raise Fault(f"its page is larger than {self._options.max_bytes} bytes")
            return body

    def parse(self, body: bytes) -> Page:
        """The wanted series on a page, as `read` gives them. Raises Fault."""
        return self._parse(self._wanted_lines(body))

    def _wanted_lines(self, body: bytes) -> bytes:
        lines = self._lines.findall(body)
        if len(lines) > _LINES:
            raise Fault(f"its page has {len(lines)} lines of these metrics, at most {_LINES}")
        if (longest := max(map(len, lines), default=0)) > _LINE:
            raise Fault(f"its page has a line of {longest} bytes of these metrics, at most {_LINE}")
        if (most := max((line.count(b'="') for line in lines), default=0)) > _LABELS:  # it takes the square of them
            raise Fault(f"its page has a line of {most} labels of these metrics, at most {_LABELS}")
        if (total := sum(map(len, lines))) > _ALL_LINES:
            raise Fault(f"its page has {total} bytes of these metrics, at most {_ALL_LINES}")
        if odd := next((line for line in lines if not _ends_well(line)), None):
            raise Fault(one_line(f"its page cannot be read: no number and time: {odd.decode(errors='replace')[:100]}"))
        return b"\n".join(lines)

    def _parse(self, lines: bytes) -> Page:
        try:
            families = list(text_string_to_metric_families(lines.decode() + "\n"))
        except Exception as error:  # whatever a malformed line makes the parser raise
            raise Fault(f"its page cannot be read: {raised(error)}") from None
        now, page = self._now(), dict[str, Sample]()
        for sample in (sample for family in families for sample in family.samples):
            for series in self._options.series:
                if sample.name == series.on_page and series.labels.items() <= sample.labels.items():
                    measured = now if sample.timestamp is None else float(sample.timestamp) + self._offset()
                    page[series.name] = _add(page.get(series.name), _number(sample.value), measured, now)
        return page


def _ends_well(line: bytes) -> bool:
    """Whether a value and at most a time follow the labels, in ASCII: the parser also takes digits of other scripts,
    and of "1 234 567" the first."""
    _, labels, end = line.rpartition(b"}")
    return end.isascii() and len(end.split()) <= (2 if labels else 3)


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


@hookimpl
def register_sources() -> Sequence[type[Source]]:
    return [Endpoints]
