"""The process: puts the parts together, reloads, and stops cleanly.

Knows signals, files that change, and systemd; knows nothing of how a decision is made.
"""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from elasticd.base.clock import Clock, WallClock
from elasticd.base.errors import ConfigError
from elasticd.base.text import last_heard
from elasticd.cluster.dry_run import DryRun
from elasticd.config import Settings, load_settings, policy_files, template_files
from elasticd.config.advice import examine
from elasticd.config.reading import read_policies
from elasticd.journal import Journal
from elasticd.model.listener import Listener
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.reports import PolicyInForce, StatusReport
from elasticd.ports.cluster import Cluster
from elasticd.registry import Registry, discover
from elasticd.runtime import control_file
from elasticd.runtime.disruption import Disruption
from elasticd.runtime.loop import Loop
from elasticd.runtime.plugin_listener import PluginListener
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import DISTURB, Placer
from elasticd.runtime.pools.pod_lookup import Looks, PodLookup
from elasticd.runtime.pools.pool import measured
from elasticd.runtime.pools.report import PoolReports
from elasticd.runtime.pools.surges import ROLLING
from elasticd.runtime.workers import BandWorker, DecisionWorker, EvictionOrderWorker, MovesWorker, PlanWorker
from elasticd.sources.poller import SourcePoller, opened
from elasticd.telemetry.failure_log import FailureLog
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.telemetry.mqtt_publisher import MqttPublisher
from elasticd.telemetry.systemd import Notifier
from elasticd.telemetry.web import Pages, serve

log = logging.getLogger("elasticd")

LOOK = 2.0
"""Seconds between looks at the policy files."""

STALLED = 30.0
"""Seconds without a tick after which the daemon calls itself unhealthy."""

GRACE = 10.0
"""Seconds that actions under way have to end when the daemon is stopped."""


class Loops(NamedTuple):
    """The loops: one over workloads, one over pods without a node, one over pods on the wrong node."""

    loop: Loop
    placer: Placer
    mover: Mover


class Daemon:
    """A running daemon: its loop, its files and its pages."""

    def __init__(self, loops: Loops, cluster: Cluster, journal: Journal, metrics: DaemonMetrics, clock: Clock) -> None:
        (self.loop, self.placer, self.mover), self.cluster = loops, cluster
        self.journal, self.metrics, self.clock = journal, metrics, clock
        self.outlet: MqttPublisher | None = None
        self.pollers: Sequence[SourcePoller] = ()
        self.dry_run = False
        self.policies: tuple[Policy | PoolPolicy, ...] = ()
        self.looks = Looks()

    def apply(self, policies: Sequence[Policy | PoolPolicy]) -> None:
        """Govern by these policies from now on, and no others."""
        self.policies = tuple(policies)
        self.loop.apply([policy for policy in policies if isinstance(policy, Policy)])
        pools = [policy for policy in policies if isinstance(policy, PoolPolicy)]
        self.placer.apply(pools)
        disturbs = any(pool.hooks.implements(hook) for pool in self.placer.pools for hook in DISTURB)
        self.loop.also = (
            ROLLING if disturbs else frozenset()
        )  # their rollouts must be known, because no pod of a rollout is made to leave

    async def drain(self, patience: float) -> None:
        """Wait for the actions under way in all loops, at most `patience` seconds."""
        await asyncio.gather(self.loop.drain(patience), self.placer.drain(patience), self.mover.drain(patience))

    def health(self) -> str:
        """Why the daemon should be restarted, or an empty string."""
        quiet = self.clock.now() - self.loop.last_tick
        return f"no tick for {quiet:.0f} s" if quiet > STALLED else ""

    def readiness(self) -> str:
        """Why the daemon cannot do its work now, or cannot write its journal, or an empty string."""
        journal, unfit = self.journal, self._why_unfit()
        if journal.writable:
            return unfit
        gap = f"the journal has not been written since {_format_time(journal.lacks)}: {journal.fault}"
        return f"{unfit}; {gap}" if unfit else gap

    def _why_unfit(self) -> str:
        confirmed = 0.0 if self.loop.snapshot is None else self.loop.snapshot.confirmed
        if not confirmed:
            faults = [f"{kind[1]}: {problem}" for kind, problem in self.cluster.problems().items()]
            return "; ".join(["not yet: waits for the first list of the cluster's pods", *faults])
        now = self.clock.now()
        if now - confirmed > STALLED * 3:
            return last_heard(now, confirmed)
        if not self.cluster.leading:
            for kind, problem in self.cluster.problems().items():
                return f"{kind[1]}: {problem}"
        return ""

    def pages(self) -> Pages:
        """The functions behind the web pages."""
        return Pages(
            metrics=lambda: partial(
                self.metrics.render,
                leading=self.cluster.leading,
                journal_failures=self.journal.failures,
                sources=self.loop.router.report(self.clock.now()),
                moves=self.mover.in_flight(self.loop.snapshot),
            ),
            health=self.health,
            readiness=self.readiness,
            status=self.status,
            sources=lambda: self.loop.router.report(self.clock.now()),
            query=self._query,
            nodes=PoolReports(self.cluster, self.placer, self.mover, self.clock, EvictionOrderWorker()).nodes,
            moves=self._moves,
            pod=PodLookup(self.cluster, self.placer, self.mover, self.clock, self.looks).find,
        )

    def status(self) -> StatusReport:
        """The state of the daemon, and its last decision about every workload that it governs."""
        cluster = self.cluster.describe()
        return StatusReport(
            running=True,
            leading=self.cluster.leading,
            dry_run=self.dry_run,
            decisions=tuple(self.journal.decisions()),
            policies=tuple(map(in_force, self.policies)),
            leader=str(getattr(cluster, "leader", "")),
            cluster=cluster,
            outlet=None if self.outlet is None else self.outlet.describe(),
        )

    async def _query(self, series: str, workload: str) -> object:
        series_by_policy = await self.loop.query(series, workload)
        rows = [{"policy": policy, "series": series} for policy, series in series_by_policy]
        return {"workloads": self.loop.workloads() if not series_by_policy else [], "found": rows}

    async def _moves(self) -> object:
        return {"in_flight": await self.mover.underway()}


def in_force(policy: Policy | PoolPolicy) -> PolicyInForce:
    """What the status report says of a policy."""
    return PolicyInForce(policy.name, policy.mode, isinstance(policy, PoolPolicy))


def _format_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def calm_collector() -> None:
    """Collect cyclic garbage a hundred times less often than Python does: there are many records, and none has
    cycles."""
    gc.set_threshold(70_000, 10, 100)


@contextlib.asynccontextmanager
async def assembled(
    settings: Settings, registry: Registry, metrics: DaemonMetrics, listeners: Sequence[Listener]
) -> AsyncIterator[Daemon]:
    """A daemon with its cluster, sources and journal open for as long as the block runs."""
    calm_collector()
    clock = WallClock()
    async with contextlib.AsyncExitStack() as stack:
        journal_settings = settings.journal
        journal = Journal(
            settings.state, int(journal_settings.megabytes * 2**20), journal_settings.segments, clock.now()
        )
        stack.callback(journal.close)
        cluster: Cluster = await stack.enter_async_context(
            settings.cluster.open(clock, metrics.called, elect=not settings.dry_run)
        )
        if settings.dry_run:
            cluster = DryRun(cluster)
        disruption = cluster = Disruption(cluster, settings.disruption, clock)
        plugins = PluginListener(registry)
        stack.callback(plugins.close)
        publisher = None if settings.outlet is None else await stack.enter_async_context(settings.outlet.open())
        listeners = [metrics, plugins, FailureLog(), *listeners, *([publisher] if publisher else [])]
        loop = Loop(cluster, journal, clock, listeners, DecisionWorker())
        pollers = await stack.enter_async_context(
            opened(settings.sources, loop.site, metrics.read, settings.max_samples, threads=True)
        )
        loop.set_sources(pollers, bander=BandWorker())
        disruption.known["series"] = journal.series
        looks = Looks()
        placer = Placer(cluster, loop.look, journal, clock, listeners, looks.placing(PlanWorker()))
        placer.set_sources(pollers)
        disruption.known["series of nodes"] = lambda: measured(placer.pools)
        mover = Mover(cluster, placer, journal, clock, listeners, MovesWorker())
        mover.surging.stayed.append(disruption.stayed)
        daemon = Daemon(Loops(loop, placer, mover), cluster, journal, metrics, clock)
        stack.push_async_callback(daemon.drain, GRACE)
        daemon.outlet, daemon.looks, daemon.pollers = publisher, looks, pollers
        daemon.dry_run = settings.dry_run
        yield daemon


async def run(path: Path, listeners: Sequence[Listener] = (), started: Callable[[str], None] = log.info) -> None:
    """Run until SIGTERM or SIGINT. Raises ElasticdError, in one line, for what a person must put right first."""
    registry = discover()
    settings = load_settings(path, registry)
    for unfit in examine(settings, str(path)):
        raise unfit
    loaded = _files_state(settings.policies)
    policies, errors = read_policies(settings.policies, registry, settings)
    if errors:
        raise ConfigError("", "", "\n".join(str(error) for error in errors))
    for problem in (*registry.problems, *settings.renamed):
        log.warning("%s", problem)
    notifier, stop, reload = Notifier(), asyncio.Event(), asyncio.Event()
    for number, event in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    work = asyncio.create_task(
        _run_tasks(settings, policies, registry, listeners, _Wires(path, started, notifier, reload, loaded))
    )
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        notifier.stopping()
        stopped.cancel()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


@dataclass
class _Wires:
    """What connects the work to the process around it; `loaded` is the state of the policies' files when last read."""

    path: Path
    started: Callable[[str], None]
    notifier: Notifier
    reload: asyncio.Event
    loaded: object


async def _run_tasks(
    settings: Settings,
    policies: list[Policy | PoolPolicy],
    registry: Registry,
    listeners: Sequence[Listener],
    wires: _Wires,
) -> None:
    """Run all tasks of the daemon, until cancelled."""
    metrics, notifier = DaemonMetrics(), wires.notifier
    async with assembled(settings, registry, metrics, listeners) as daemon:
        daemon.apply(policies)
        metrics.reloaded(len(policies), ok=True)
        async with serve(daemon.pages(), settings.http.host, settings.http.port) as address:
            status = f"{_count_text(policies)} in force, pages at {address}"
            wires.started(status)
            notifier.ready(status)
            tasks = [
                asyncio.create_task(daemon.loop.run()),
                asyncio.create_task(daemon.placer.run()),
                asyncio.create_task(daemon.mover.run()),
                asyncio.create_task(daemon.mover.surging.run()),
                asyncio.create_task(control_file.serve(settings.state, daemon.mover.trigger)),
                asyncio.create_task(_watch_files(settings.policies, wires)),
                asyncio.create_task(_reload(settings, daemon, registry, wires)),
                asyncio.create_task(_feed_watchdog(daemon, notifier)),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _count_text(policies: Sequence[Policy | PoolPolicy]) -> str:
    return f"{len(policies)} {'policy' if len(policies) == 1 else 'policies'}"


def _files_state(folder: Path) -> object:
    """A value that changes with every policy file and template, also where a mounted ConfigMap swaps its links."""
    try:
        stats = [(path.name, path.stat()) for path in (*policy_files(folder), *template_files(folder))]
        return [(name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats]
    except (ConfigError, OSError) as error:
        return str(error)


async def _watch_files(folder: Path, wires: _Wires) -> None:
    """Ask for a reload when the policy files differ from those read last, and have not changed since the last look."""
    previous = wires.loaded
    while True:
        await asyncio.sleep(LOOK)
        present = await asyncio.to_thread(_files_state, folder)
        if present != wires.loaded and present == previous:
            wires.reload.set()
        previous = present


def _unapplied_changes(path: Path, settings: Settings, registry: Registry) -> list[str]:
    """Messages where elasticd.toml has changed since the start: a reload reads only the policies."""
    try:
        present = load_settings(path, registry)
    except ConfigError as error:
        return [str(error)]
    return [] if present == settings else [f"{path} has changed: restart to apply it"]


async def _reload(settings: Settings, daemon: Daemon, registry: Registry, wires: _Wires) -> None:
    """Reload the policies, all or none: with one bad file the old ones stay in force, and the mistakes are logged."""
    errors: list[ConfigError] = []
    while True:
        await wires.reload.wait()
        wires.reload.clear()
        wires.notifier.reloading()
        had_errors = bool(errors)
        wires.loaded = await asyncio.to_thread(
            _files_state, settings.policies
        )  # before reading, so that a change in between is noticed
        policies, errors = await asyncio.to_thread(read_policies, settings.policies, registry, settings)
        if errors:
            for mistake in errors:
                log.error("%s", mistake)
            log.error("the policies in force are kept as they were")
            status = f"kept the old policies: {errors[0]}"
        else:
            daemon.apply(policies)
            for poller in daemon.pollers:
                poller.reopen()
            status = f"{_count_text(policies)} in force"
            if had_errors:
                log.info("all policies are right again")
            log.log(logging.INFO if policies else logging.WARNING, "%s", status)
        for line in await asyncio.to_thread(_unapplied_changes, wires.path, settings, registry):
            log.warning("%s", line)
        daemon.metrics.reloaded(len(policies), ok=not errors)
        wires.notifier.ready(status)


async def _feed_watchdog(daemon: Daemon, notifier: Notifier) -> None:
    """Feed systemd's watchdog for as long as the loop ticks."""
    while notifier.watchdog:
        if not daemon.health():
            notifier.alive()
        await asyncio.sleep(notifier.watchdog / 3)
    await asyncio.Event().wait()
