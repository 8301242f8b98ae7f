"""The process: puts the parts together, reloads, and stops cleanly.

Knows signals, files that change, and systemd; knows nothing of how a decision is made.
"""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from elasticd.base.blocking import DaemonThreads
from elasticd.base.clock import Clock, WallClock
from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.files import share_of_files
from elasticd.base.tasks import cancel
from elasticd.base.text import counted, last_heard, named
from elasticd.cluster.disruption import DisruptionGuard
from elasticd.cluster.dry_run import DryRun
from elasticd.cluster.resize_room import ResizeRoom
from elasticd.config import HttpSettings, Settings, load_settings
from elasticd.config.digest import summarized
from elasticd.config.files import files_state
from elasticd.config.reading import Read, read_policies
from elasticd.config.settings import examine
from elasticd.config.timed import TimedReads
from elasticd.journal import Journal, Key
from elasticd.model.disruption import PolicyCaps
from elasticd.model.listener import Governed, Listener, Notice
from elasticd.model.moves import Underway
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.model.records import Decision
from elasticd.model.reports import PolicyInForce, StatusReport, in_force
from elasticd.ports.cluster import (
    LEFT_ALONE,
    OTHER_POLICIES,
    RECORDS,
    SCALES,
    VERSIONS,
    Cluster,
    Kind,
    Reviewing,
    Shared,
)
from elasticd.registry import Registry, discover
from elasticd.runtime import control_file
from elasticd.runtime.loop import Loop
from elasticd.runtime.plugin_listener import PluginListener
from elasticd.runtime.pools.mover import Mover
from elasticd.runtime.pools.placer import IN_FLIGHT, Placer
from elasticd.runtime.pools.pool import measured
from elasticd.runtime.pools.report import PoolReports
from elasticd.runtime.views import StaleViews, stale
from elasticd.runtime.workers import (
    BandWorker,
    DecisionWorker,
    EvictionOrderWorker,
    MovesWorker,
    PlanWorker,
    SeparateWorker,
)
from elasticd.sources.poller import SourcePoller, opened
from elasticd.telemetry import memory
from elasticd.telemetry.access import Access, Reviewer
from elasticd.telemetry.connections import most_connections
from elasticd.telemetry.events import STREAMS, Events
from elasticd.telemetry.failure_log import FailureLog
from elasticd.telemetry.metrics import ClusterHealth, DaemonMetrics
from elasticd.telemetry.mqtt_publisher import MqttPublisher
from elasticd.telemetry.out_of_memory import MemoryGuard, guarded
from elasticd.telemetry.summaries import DaemonSummary
from elasticd.telemetry.systemd import Notifier
from elasticd.telemetry.watchdog import watched
from elasticd.telemetry.web import Pages, serve
from elasticd.ui.installed import described, everything
from elasticd.ui.past import Past
from elasticd.ui.pods import waiting_line

log = logging.getLogger("elasticd")

LOOK = 2.0
"""Seconds between looks at the policy files."""

STALLED = 30.0
"""Seconds without a tick after which the daemon calls itself unhealthy."""

PREVIEW = 10.0
"""Seconds that a preview waits for the cluster and the sources."""

MEMORY_LOOK = 10.0
"""Seconds between looks at how much memory is in use."""

TAKEOVER_LOOK = 5.0
"""Seconds between looks for workloads that nobody scales."""

VIEWS_LOOK = 5.0
"""Seconds between looks for views of the cluster that are too old to act on."""

FILES = 64
"""Files that a daemon must be allowed to have open: with connections to its pages it has 13 to 26 (docs/faults.md)."""

SWITCH = 0.0005
"""Seconds after which a thread that decides gives way to the event loop. That loses its turn with each packet that it
sends or reads; by Python's default it would wait ten times as long for the next, and bind few pods during a plan."""

GRACE = 10.0
"""Seconds that actions under way have to end when the daemon is stopped."""


@dataclass
class Daemon:
    """A running daemon: its loops, its files and its pages."""

    loop: Loop
    placer: Placer
    mover: Mover
    cluster: Cluster
    journal: Journal
    metrics: DaemonMetrics
    clock: Clock
    pollers: Sequence[SourcePoller] = ()
    outlet: MqttPublisher | None = None
    dry_run: bool = False
    caps: PolicyCaps | None = None
    registry: Registry = field(default_factory=Registry)
    events: Events = field(default_factory=lambda: Events(lambda: None, list))
    reviewer: Reviewer | None = None
    """Asks the API server whose token counts."""
    shared: Shared | None = None
    """The cluster, where other daemons are told which policies this one has."""
    failures: FailureLog = field(default_factory=FailureLog)
    policies: tuple[Policy | PoolPolicy, ...] = ()
    memory: str = ""
    """That the limit of memory is near, and what there is most of; empty while it is not."""
    unscaled: str = ""
    """Which workloads nobody scales since a takeover; empty: there are none."""
    kept: str = ""
    """Why the last reload has not replaced the policies in force; empty if it has."""
    stale_views: StaleViews = field(default_factory=StaleViews)

    def apply(self, policies: Sequence[Policy | PoolPolicy]) -> None:
        """Govern by these policies from now on, and no others."""
        self.policies = tuple(policies)
        if self.shared is not None:
            self.shared.note_policies(summarized(policies))
        self.placer.apply([policy for policy in policies if isinstance(policy, PoolPolicy)])
        workloads = [policy for policy in policies if isinstance(policy, Policy)]
        self.loop.apply(workloads, self.placer.also_observed, self.caps)

    async def drain(self, patience: float) -> None:
        """Wait for the actions under way in all loops, at most `patience` seconds."""
        loops = (self.loop, self.placer, self.mover)
        await asyncio.gather(*(loop.actions.drain(patience) for loop in loops))

    def health(self) -> str:
        """Why the daemon should be restarted, or an empty string."""
        quiet = self.clock.now() - self.loop.last_tick
        return f"no tick for {quiet:.0f} s" if quiet > STALLED else ""

    def readiness(self) -> str:
        """Why the daemon cannot do its work now, or cannot write its journal, or an empty string."""
        journal, unfit = self.journal, self._why_unfit()
        if journal.writable:
            return unfit
        lacks = f"{datetime.fromtimestamp(journal.lacks, UTC):%Y-%m-%d %H:%M:%S} UTC"
        gap = f"the journal has not been written since {lacks}: {journal.fault}"
        return f"{unfit}; {gap}" if unfit else gap

    def _why_unfit(self) -> str:
        confirmed, now = self.loop.snapshot.confirmed if self.loop.snapshot else 0.0, self.clock.now()
        # Only kinds: that a write must wait is no reason not to be ready.
        faults = [f"{kind[1]}: {problem}" for kind, problem in self.cluster.problems().items() if kind[0]]
        if not confirmed:
            return "; ".join(["not yet: waits for the first list of the cluster's pods", *faults])
        if now - confirmed > STALLED * 3:
            return last_heard(now, confirmed)
        return faults[0] if faults and not self.cluster.leading else ""

    def pages(self) -> Pages:
        """The functions behind the web pages."""
        pools = PoolReports(self.cluster, self.placer, self.mover, self.clock, EvictionOrderWorker())
        past = Past(self.journal.folder, self.clock)
        return Pages(
            metrics=lambda: partial(
                self.metrics.render,
                leading=self.cluster.leading and not self.dry_run,
                journal_failures=self.journal.failures,
                journal_writable=self.journal.writable,
                sources=self.loop.router.report(self.clock.now()),
                moves=self.mover.in_flight(self.loop.snapshot),
                cluster=ClusterHealth(self.cluster.problems(), self._view_ages()),
            ),
            health=self.health,
            readiness=self.readiness,
            status=self.status,
            sources=lambda: self.loop.router.report(self.clock.now()),
            query=self._query,
            nodes=pools.nodes,
            moves=self._moves,
            pod=pools.pod,
            history=past.history,
            explain=past.explain,
            plugins=lambda: [described(plugin, self.registry) for plugin in everything(self.registry)],
            events=self.events,
        )

    def access(self, http: HttpSettings) -> Access:
        """Who may read the pages."""
        return Access(http.token if http.token_file else None, self.reviewer, http.metrics_need_token)

    def summary(self) -> DaemonSummary:
        """The state of the daemon as a whole, for the status page."""
        now, snapshot, cluster = self.clock.now(), self.loop.snapshot, self.cluster.describe()
        sources = self.loop.router.report(now)
        return DaemonSummary(
            at=now,
            leading=self.cluster.leading,
            leader=str(getattr(cluster, "leader", "")),
            dry_run=self.dry_run,
            unready=self.readiness(),
            confirmed=snapshot.confirmed if snapshot else 0.0,
            faults=tuple(self._move_faults()),
            problems=tuple(self._cluster_problems()),
            memory=self.memory,
            kept=self.kept,
            policies=self._in_force(),
            sources=tuple([replace(report, details=None) for report in sources]),
            moves=tuple(self._explained(self.mover.in_flight(snapshot))),
            outlet=None if self.outlet is None else self.outlet.describe(),
        )

    def status(self) -> StatusReport:
        """The state of the daemon, and its last decision about every workload that it governs."""
        cluster = self.cluster.describe()
        leader = str(getattr(cluster, "leader", ""))
        leaderless = (self._why_unfit(),) if not (self.cluster.leading or leader or self.dry_run) else ()
        return StatusReport(
            running=True,
            leading=self.cluster.leading,
            dry_run=self.dry_run,
            decisions=tuple(self.journal.decisions()),
            policies=self._in_force(),
            leader=leader,
            cluster=cluster,
            outlet=None if self.outlet is None else self.outlet.describe(),
            memory=self.memory,
            faults=(
                *filter(None, leaderless),
                *self._stale().values(),
                *self._notes_of_cluster(),
                *self._move_faults(),
            ),
            kept=self.kept,
            undone=self.failures.undone,
            under_way=tuple(sorted({ref for _, ref in [*self.loop.actions.keys()]})),
        )

    def _in_force(self) -> tuple[PolicyInForce, ...]:
        return tuple(map(in_force, self.policies))

    def _cluster_problems(self) -> Iterator[str]:
        """What of the cluster cannot be watched, and what should be known of it, in a line each."""
        old = self._stale()
        yield from old.values()
        problems = self.cluster.problems().items()
        yield from (f"{kind[1]}: {problem}" for kind, problem in problems if kind[0] and kind not in old)
        yield from self._notes_of_cluster()

    def _stale(self) -> dict[Kind, str]:
        return stale(self.cluster.views(), self.clock.now())

    def _view_ages(self) -> dict[str, float]:
        """By kind, how old what is known of it is; of kinds of one name in several groups the greatest age."""
        now, ages = self.clock.now(), dict[str, float]()
        for view in self.cluster.views():
            ages[view.kind[1]] = max(ages.get(view.kind[1], 0.0), now - view.current)
        return ages

    def look_for_stale_views(self) -> None:
        """Log, once, which views of the cluster have become too old to act on, and which are current again."""
        self.stale_views.note(self.cluster.views(), self.clock.now())

    def _notes_of_cluster(self) -> Iterator[str]:
        """That it was restored, that who leads has other policies, which scales cannot be read, that pods are not
        bound for long, and that nobody scales some workloads."""
        yield from self.placer.hanging()
        for kind, problem in self.cluster.problems().items():
            if kind in (VERSIONS, OTHER_POLICIES) or kind[1].startswith(SCALES):
                yield problem
        yield from filter(None, (self.unscaled,))

    def look_for_unscaled(self) -> None:
        """Note, and log once, which workloads nobody scales, as their HPA was stopped by a takeover."""
        names = [] if self.dry_run else self.loop.unscaled()
        before, self.unscaled = self.unscaled, _described_unscaled(names) if names else ""
        if self.unscaled and self.unscaled != before:
            log.warning("%s", self.unscaled)

    def _move_faults(self) -> Iterator[str]:
        """What keeps evicted pods from running again, or pods from being moved, in a line each."""
        yield from (move.fault for move in self._explained(self.cluster.restoring()) if move.fault)
        yield from self.mover.surging.faults()
        problems = self.cluster.problems()
        yield from (problems[kind] for kind in (RECORDS, LEFT_ALONE) if kind in problems)

    def holdings(self) -> list[tuple[int, str]]:
        """How much there is of what takes memory, in numbers that cost little."""
        counts = [(report.samples, f"samples of source {report.name}") for report in self.loop.router.report(0.0)]
        by_policy = Counter(decision.policy for decision in self.journal.decisions())
        counts += [(count, f"workloads of policy {policy}") for policy, count in by_policy.items()]
        if (snapshot := self.loop.snapshot) is not None:
            counts += [(len(snapshot.workloads()), "workloads"), (len(snapshot.nodes()), "nodes")]
            counts.append((sum(map(len, snapshot.on_nodes().values())), "pods on nodes"))
        return counts

    async def _query(self, series: str, workload: str) -> object:
        series_by_policy = await self.loop.query(series, workload)
        rows = [{"policy": policy, "series": series} for policy, series in series_by_policy]
        return {"workloads": [] if rows else sorted(map(str, self.loop.governed())), "found": rows}

    async def _moves(self) -> object:
        in_flight, problems = self._explained(await self.mover.underway()), self.cluster.problems()
        left_alone, unread = (problems.get(kind, "") for kind in (LEFT_ALONE, RECORDS))
        old = [*self._stale().values()]
        return {"in_flight": in_flight, "left_alone": left_alone, "unread": unread, "stale": old}

    def _explained(self, moves: Iterable[Underway]) -> list[Underway]:
        """Moves, with why pods that were created again have no node yet, as `explain pod` says it."""
        return [self._explain(move) if move.copy else move for move in moves]

    def _explain(self, move: Underway) -> Underway:
        standing = self.placer.decisions.standing(move.copy)
        if standing is None:
            return move
        why = waiting_line(*standing)
        return replace(move, waits=why, fault=f"{move.fault}: {why}" if move.fault else "")


def _described_unscaled(names: Sequence[str]) -> str:
    shown = named(names)
    theirs = "whose HPA was" if len(names) == 1 else "whose HPAs were"
    return f"no policy of this daemon acts for {shown}, {theirs} stopped by takeover (elasticd takeover --back)"


class _FirstDecisions:
    """The first decision about each workload that was made with knowledge of it, or the last one without."""

    def __init__(self) -> None:
        self.decisions: dict[Key, Decision] = {}
        self._keys: AbstractSet[Key] | None = None

    def on(self, record: Notice) -> None:
        """Take in a decision, or which workloads are governed."""
        if isinstance(record, Governed):
            self._keys = record.keys
        elif isinstance(record, Decision):
            key = record.policy, record.workload
            if key not in self.decisions or self.decisions[key].blind:
                self.decisions[key] = record

    def complete(self) -> bool:
        known = {key for key, decision in self.decisions.items() if not decision.blind}
        return self._keys is not None and self._keys <= known


async def preview(
    settings: Settings, registry: Registry, policies: Sequence[Policy | PoolPolicy], patience: float = PREVIEW
) -> list[Decision]:
    """What these policies decide now about each workload, once they know enough or after `patience` seconds.

    A daemon of its own decides, which writes nothing anywhere and does not lead. Raises UnavailableError if the cluster
    does not answer.
    """
    first = _FirstDecisions()
    with tempfile.TemporaryDirectory(prefix="elasticd-") as state:
        apart = replace(settings, dry_run=True, state=Path(state), outlet=None)
        async with assembled(apart, registry, DaemonMetrics(), [first]) as daemon:
            daemon.apply(policies)
            work = asyncio.create_task(daemon.loop.run())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    while daemon.readiness() or not first.complete():
                        await asyncio.wait([work], timeout=0.1)
                        if work.done():
                            work.result()
            await cancel(work)
            if why := daemon.readiness():
                raise UnavailableError(f"cluster: must answer, does not: {why}")
    return [first.decisions[key] for key in sorted(first.decisions)]


def _check_files() -> None:
    """Raises UnavailableError where this process may open too few files to answer anybody."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limit < FILES:
        raise UnavailableError(f"open files (ulimit -n, LimitNOFILE): must be >= {FILES}, is {limit}")


def tune_interpreter() -> None:
    """Collect cyclic garbage a hundred times less often than Python does: of the many records none has cycles. And let
    the event loop take its turn from a thread that decides after SWITCH seconds."""
    gc.set_threshold(70_000, 10, 100)
    sys.setswitchinterval(SWITCH)


@contextlib.asynccontextmanager
async def assembled(
    settings: Settings, registry: Registry, metrics: DaemonMetrics, listeners: Sequence[Listener]
) -> AsyncIterator[Daemon]:
    """A daemon with its cluster, sources and journal open for as long as the block runs."""
    tune_interpreter()
    clock = WallClock()
    async with contextlib.AsyncExitStack() as stack:
        table = settings.journal
        journal = Journal(settings.state, int(table.megabytes * 2**20), table.segments, clock.now())
        stack.callback(journal.close)
        opening = settings.cluster.open(clock, metrics.called, elect=not settings.dry_run)
        cluster: Cluster = await stack.enter_async_context(opening)
        reviewer = cluster.may_read if settings.http.token_review and isinstance(cluster, Reviewing) else None
        shared = cluster if isinstance(cluster, Shared) else None
        if settings.dry_run:
            cluster = DryRun(cluster)
        placer: Placer  # is made below, around the guards that ask it how much it knows, and whom it promised a place
        cluster = ResizeRoom(cluster, clock, lambda *seen: placer.promised(*seen))  # noqa: PLW0108  # it is not there yet
        measured_series = {"series of nodes": lambda: measured(placer.pools)}
        guard = cluster = DisruptionGuard(cluster, settings.disruption, clock, measured_series, journal)
        plugins = PluginListener(registry)
        stack.callback(plugins.close)
        publisher = None if settings.outlet is None else await stack.enter_async_context(settings.outlet.open())
        daemon: Daemon  # is made below, of loops that tell it what they do
        streams = max(1, min(STREAMS, most_connections() // 4))
        events = Events(lambda: daemon.summary(), journal.decisions, most=streams)  # noqa: PLW0108  # it is not there yet
        failures = FailureLog()
        listeners = [metrics, plugins, failures, events, *listeners, *([publisher] if publisher else [])]
        loop = Loop(cluster, journal, clock, listeners, SeparateWorker(DecisionWorker))
        loop.breaker = guard
        sources = opened(settings.sources, loop.site, metrics.read, settings.max_samples, threads=True)
        pollers = await stack.enter_async_context(sources)
        loop.set_sources(pollers, bander=BandWorker())
        placer = Placer(cluster, loop.look, journal, clock, listeners, PlanWorker())
        placer.set_in_flight(share_of_files(8, 4, IN_FLIGHT))  # the rest is for watches, pages and the journal
        placer.set_sources(pollers)
        mover = Mover(cluster, placer, journal, clock, [*listeners, guard], MovesWorker())
        daemon = Daemon(
            loop, placer, mover, cluster, journal, metrics, clock, pollers, publisher, settings.dry_run,
            settings.disruption.caps, registry, events, reviewer, shared, failures,
        )  # fmt: skip
        stack.push_async_callback(daemon.drain, GRACE)
        yield daemon


async def run(path: Path, listeners: Sequence[Listener] = ()) -> None:
    """Run until SIGTERM or SIGINT. Raises ElasticdError, in one line, for what a person must put right first."""
    with guarded() as guard:
        await _run(path, listeners, guard)


async def _run(path: Path, listeners: Sequence[Listener], guard: MemoryGuard) -> None:
    _check_files()
    registry = discover()
    settings = load_settings(path, registry)
    for unfit in examine(settings, str(path)):
        raise unfit
    loaded = files_state(settings.policies)
    policies, errors = read_policies(settings.policies, registry, settings, named_in=str(path))
    if errors:
        raise ConfigError("", "", "\n".join(str(error) for error in errors))
    for problem in (*registry.problems, *settings.renamed):
        log.warning("%s", problem)
    asyncio.get_running_loop().set_default_executor(DaemonThreads())  # a plugin that blocks in one must not outlive us
    stop, process = asyncio.Event(), _Process(path, settings, registry, loaded, guard)
    for number, event in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, process.reload)):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    work = asyncio.create_task(process.work(policies, listeners))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        process.notifier.stopping()
        stopped.cancel()
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


@dataclass
class _Process:
    """The tasks of the process. `loaded` is the state of the policies' files when they were last read."""

    path: Path
    settings: Settings
    registry: Registry
    loaded: object
    guard: MemoryGuard
    notifier: Notifier = field(default_factory=Notifier)
    reload: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, policies: list[Policy | PoolPolicy], listeners: Sequence[Listener]) -> None:
        """Run all tasks of the daemon, until cancelled."""
        metrics, settings = DaemonMetrics(), self.settings
        async with assembled(settings, self.registry, metrics, listeners) as daemon:
            daemon.apply(policies)
            metrics.reloaded(len(policies), ok=True)
            access = daemon.access(settings.http)
            if note := access.note(settings.http.host):
                log.warning("%s", note)
            async with serve(daemon.pages(), settings.http.host, settings.http.port, access) as address:
                status = f"{counted(len(policies), 'policy')} in force, pages at {address}"
                log.info("%s", status)
                self.notifier.ready(status)
                self.guard.holdings = partial(self._holdings, daemon)
                with watched(metrics.blocked, self.guard):
                    works = (
                        daemon.loop.run(),
                        daemon.placer.run(),
                        daemon.mover.run(),
                        daemon.mover.surging.run(),
                        daemon.events.run(),
                        control_file.serve(settings.state, daemon.mover.trigger),
                        self._watch_files(),
                        self._reload(daemon),
                        self._feed_watchdog(daemon),
                        self._watch_memory(daemon),
                        self._watch_takeovers(daemon),
                        self._watch_views(daemon),
                    )
                    await run_together(*map(self.guard.over, works))

    async def _watch_files(self) -> None:
        """Ask for a reload when the policy files differ from those read last, and have not changed since the last
        look."""
        previous, reads, folder = self.loaded, TimedReads(), self.settings.policies
        while True:
            await asyncio.sleep(LOOK)
            try:
                present = await reads(folder, files_state, folder)
            except ConfigError as error:
                present = str(error)
            if present != self.loaded and present == previous:
                self.reload.set()
            previous = present

    async def _reload(self, daemon: Daemon) -> None:
        """Reload the policies, all or none: with one bad file the old ones stay in force, and the mistakes are
        logged."""
        errors, reads = list[ConfigError](), TimedReads()
        while True:
            await self.reload.wait()
            self.reload.clear()
            self.notifier.reloading()
            had_errors = bool(errors)
            policies, errors = await self._read(reads)
            if errors:
                for mistake in errors:
                    log.error("%s", mistake)
                log.error("the policies in force are kept as they were")
                status = f"kept the old policies: {errors[0]}"
            else:
                daemon.apply(policies)
                for poller in daemon.pollers:
                    poller.reopen()
                status = f"{counted(len(policies), 'policy')} in force"
                if had_errors:
                    log.info("all policies are right again")
                log.log(logging.INFO if policies else logging.WARNING, "%s", status)
            daemon.kept = status if errors else ""
            try:
                changes = await reads(self.path, self._unapplied_changes)
            except ConfigError as error:
                changes = [str(error)]
            for line in changes:
                log.warning("%s", line)
            daemon.metrics.reloaded(len(policies), ok=not errors)
            self.notifier.ready(status)

    async def _read(self, reads: TimedReads) -> Read:
        """The policies, and every mistake in them; that they cannot be read in time is one."""
        folder = self.settings.policies
        try:
            # Before reading, so that a change in between is noticed.
            self.loaded = await reads(folder, files_state, folder)
        except ConfigError as error:
            self.loaded = str(error)
            return [], [error]
        try:
            return await reads(folder, read_policies, folder, self.registry, self.settings, named_in=str(self.path))
        except ConfigError as error:
            return [], [error]

    def _unapplied_changes(self) -> list[str]:
        """Messages where elasticd.toml has changed since the start: a reload reads only the policies."""
        try:
            present = load_settings(self.path, self.registry)
        except ConfigError as error:
            return [str(error)]
        return [] if present == self.settings else [f"{self.path} has changed: restart to apply it"]

    async def _feed_watchdog(self, daemon: Daemon) -> None:
        while self.notifier.watchdog:
            if not daemon.health():
                self.notifier.alive()
            await asyncio.sleep(self.notifier.watchdog / 3)

    async def _watch_memory(self, daemon: Daemon) -> None:
        """Say what there is most of when the limit of memory is near, once, until it is not."""
        nearness = memory.Nearness()
        while True:
            if (present := memory.memory()) is not None and nearness.changed(present.share):
                share = f"{present.share:.0%} of {present.limit >> 20} MB of memory are in use"
                daemon.memory = f"{share}; {self._holdings(daemon)}" if nearness.near else ""
                log.warning("%s", daemon.memory or f"{share} again")
            await asyncio.sleep(MEMORY_LOOK)

    async def _watch_takeovers(self, daemon: Daemon) -> None:
        while True:
            daemon.look_for_unscaled()
            await asyncio.sleep(TAKEOVER_LOOK)

    async def _watch_views(self, daemon: Daemon) -> None:
        while True:
            daemon.look_for_stale_views()
            await asyncio.sleep(VIEWS_LOOK)

    def _holdings(self, daemon: Daemon) -> str:
        """What the daemon holds most of."""
        installed = (*self.registry.strategies.values(), *self.registry.sources.values())
        packages = {"elasticd", *(plugin.type.__module__.partition(".")[0] for plugin in installed)}
        return f"the daemon holds {memory.most([*daemon.holdings(), *memory.entries(packages)])}"


async def run_together(*works: Coroutine[object, object, None]) -> None:
    """Run all until one fails or is cancelled, then cancel the others, and raise its error. Not in an
    asyncio.TaskGroup, which goes on without a task that was cancelled (docs/decisions/008)."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel(*tasks)
