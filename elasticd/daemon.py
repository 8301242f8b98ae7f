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
from elasticd.model.pool_listener import MovingListener, PlacingListener
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
    """What turns: one for workloads, one for pods without a node, one for pods on the wrong node."""

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
        self.loop.also = ROLLING if disturbs else frozenset()  # of no rollout a pod is made to leave

    async def drain(self, patience: float) -> None:
        """Wait for what is under way anywhere, at most `patience` seconds in all."""
        await asyncio.gather(self.loop.drain(patience), self.placer.drain(patience), self.mover.drain(patience))

    def health(self) -> str:
        """Why the daemon should be restarted, or an empty string."""
        quiet = self.clock.now() - self.loop.last_tick
        return f"no tick for {quiet:.0f} s" if quiet > STALLED else ""

    def readiness(self) -> str:
        """Why the daemon cannot do its work just now, or tell of it, or an empty string."""
        journal, unfit = self.journal, self._unfit()
        if journal.writable:
            return unfit
        told = f"the journal has not been written since {_moment(journal.lacks)}: {journal.fault}"
        return f"{unfit}; {told}" if unfit else told

    def _unfit(self) -> str:
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
        """What the web pages ask."""
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
        """How it stands, and what it decided last about all that it governs."""
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
        found = await self.loop.query(series, workload)
        told = [{"policy": policy, "series": one} for policy, one in found]
        return {"workloads": self.loop.workloads() if not found else [], "found": told}

    async def _moves(self) -> object:
        return {"in_flight": await self.mover.underway()}


def in_force(policy: Policy | PoolPolicy) -> PolicyInForce:
    """What is told of a policy."""
    return PolicyInForce(policy.name, policy.mode, isinstance(policy, PoolPolicy))


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def calm_collector() -> None:
    """Look for cycles a hundred times less often than Python does: records have none, and there are many."""
    gc.set_threshold(70_000, 10, 100)


@contextlib.asynccontextmanager
async def assembled(
    settings: Settings, registry: Registry, metrics: DaemonMetrics, listeners: Sequence[Listener]
) -> AsyncIterator[Daemon]:
    """A daemon with all it stands on open: cluster, sources, journal."""
    calm_collector()
    clock = WallClock()
    async with contextlib.AsyncExitStack() as stack:
        kept = settings.journal
        journal = Journal(settings.state, int(kept.megabytes * 2**20), kept.segments, clock.now())
        stack.callback(journal.close)
        cluster: Cluster = await stack.enter_async_context(
            settings.cluster.open(clock, metrics.called, elect=not settings.dry_run)
        )
        if settings.dry_run:
            cluster = DryRun(cluster)
        broker = cluster = Disruption(cluster, settings.disruption, clock)
        plugins = PluginListener(registry)
        stack.callback(plugins.close)
        told: list[Listener] = [metrics, plugins, FailureLog(), *listeners]
        outlet = None
        if settings.outlet is not None:
            outlet = await stack.enter_async_context(settings.outlet.open())
            told.append(outlet)
        loop = Loop(cluster, journal, clock, told, DecisionWorker())
        pollers = await stack.enter_async_context(
            opened(settings.sources, loop.site, metrics.read, settings.max_samples, threads=True)
        )
        loop.set_sources(pollers, bander=BandWorker())
        broker.known["series"] = journal.series
        placing = [metrics.pods, *[one for one in listeners if isinstance(one, PlacingListener)]]
        looks = Looks()
        placer = Placer(cluster, loop.look, journal, clock, placing, looks.placing(PlanWorker()))
        placer.set_sources(pollers)
        broker.known["series of nodes"] = lambda: measured(placer.pools)
        moving = [metrics.pods, *[one for one in listeners if isinstance(one, MovingListener)]]
        mover = Mover(cluster, placer, journal, clock, moving, MovesWorker())
        mover.surging.stayed.append(broker.stayed)
        daemon = Daemon(Loops(loop, placer, mover), cluster, journal, metrics, clock)
        stack.push_async_callback(daemon.drain, GRACE)
        daemon.outlet, daemon.looks, daemon.pollers = outlet, looks, pollers
        daemon.dry_run = settings.dry_run
        yield daemon


async def run(path: Path, listeners: Sequence[Listener] = (), started: Callable[[str], None] = log.info) -> None:
    """Run until SIGTERM or SIGINT. Raises ElasticdError with one line for what a person must mend first."""
    registry = discover()
    settings = load_settings(path, registry)
    for unfit in examine(settings, str(path)):
        raise unfit
    loaded = _state_of(settings.policies)
    policies, errors = read_policies(settings.policies, registry, settings)
    if errors:
        raise ConfigError("", "", "\n".join(str(error) for error in errors))
    for problem in (*registry.problems, *settings.renamed):
        log.warning("%s", problem)
    notifier, stop, reload = Notifier(), asyncio.Event(), asyncio.Event()
    for number, event in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    work = asyncio.create_task(
        _work(settings, policies, registry, listeners, _Wires(path, started, notifier, reload, loaded))
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
    """What connects the work to the process around it; `loaded` is how the policies' files were when they were read."""

    path: Path
    started: Callable[[str], None]
    notifier: Notifier
    reload: asyncio.Event
    loaded: object


async def _work(
    settings: Settings,
    policies: list[Policy | PoolPolicy],
    registry: Registry,
    listeners: Sequence[Listener],
    wires: _Wires,
) -> None:
    """Everything between start and stop, until cancelled."""
    metrics, notifier = DaemonMetrics(), wires.notifier
    async with assembled(settings, registry, metrics, listeners) as daemon:
        daemon.apply(policies)
        metrics.reloaded(len(policies), ok=True)
        async with serve(daemon.pages(), settings.http.host, settings.http.port) as address:
            status = f"{_count(policies)} in force, pages at {address}"
            wires.started(status)
            notifier.ready(status)
            tasks = [
                asyncio.create_task(daemon.loop.run()),
                asyncio.create_task(daemon.placer.run()),
                asyncio.create_task(daemon.mover.run()),
                asyncio.create_task(daemon.mover.surging.run()),
                asyncio.create_task(control_file.serve(settings.state, daemon.mover.trigger)),
                asyncio.create_task(_watch(settings.policies, wires)),
                asyncio.create_task(_reload(settings, daemon, registry, wires)),
                asyncio.create_task(_live(daemon, notifier)),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _count(policies: Sequence[Policy | PoolPolicy]) -> str:
    return f"{len(policies)} {'policy' if len(policies) == 1 else 'policies'}"


def _state_of(folder: Path) -> object:
    """Changes whenever a policy file or a template does, also where a mounted ConfigMap swaps its links."""
    try:
        stats = [(path.name, path.stat()) for path in (*policy_files(folder), *template_files(folder))]
        return [(name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats]
    except (ConfigError, OSError) as error:
        return str(error)


async def _watch(folder: Path, wires: _Wires) -> None:
    """Ask for a reload when the policy files are others than were read last, and have been left alone since the last
    look."""
    before = wires.loaded
    while True:
        await asyncio.sleep(LOOK)
        now = await asyncio.to_thread(_state_of, folder)
        if now != wires.loaded and now == before:
            wires.reload.set()
        before = now


def _unapplied(path: Path, settings: Settings, registry: Registry) -> list[str]:
    """That elasticd.toml is no longer what the daemon was started with: only the policies are read again."""
    try:
        now = load_settings(path, registry)
    except ConfigError as error:
        return [str(error)]
    return [] if now == settings else [f"{path} has changed: restart to apply it"]


async def _reload(settings: Settings, daemon: Daemon, registry: Registry, wires: _Wires) -> None:
    """All or nothing: with one bad file, everything goes on as it was, and the mistakes are told."""
    errors: list[ConfigError] = []
    while True:
        await wires.reload.wait()
        wires.reload.clear()
        wires.notifier.reloading()
        wrong = bool(errors)
        wires.loaded = await asyncio.to_thread(
            _state_of, settings.policies
        )  # before, so that what comes in between is seen
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
            status = f"{_count(policies)} in force"
            if wrong:
                log.info("all policies are right again")
            log.log(logging.INFO if policies else logging.WARNING, "%s", status)
        for line in await asyncio.to_thread(_unapplied, wires.path, settings, registry):
            log.warning("%s", line)
        daemon.metrics.reloaded(len(policies), ok=not errors)
        wires.notifier.ready(status)


async def _live(daemon: Daemon, notifier: Notifier) -> None:
    """Tell systemd that the loop turns, as long as it does."""
    while notifier.watchdog:
        if not daemon.health():
            notifier.alive()
        await asyncio.sleep(notifier.watchdog / 3)
    await asyncio.Event().wait()
