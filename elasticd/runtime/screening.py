"""Screens workloads between their polls: finds those that new readings may concern enough for a decision.

Knows source pollers, what was last evaluated, and that strategies are asked for bands in a thread of their own; whether
a sample leaves its band is decided in decision/screen.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from elasticd.decision.observe import series_of, totals_of
from elasticd.decision.screen import Bands, bands_of, keep_in_bands, stand, steady
from elasticd.decision.workload.asking import Case
from elasticd.journal import Journal, Key
from elasticd.model.policy import Policy
from elasticd.model.workload import BulkLookup, Observation, Readings, Workload
from elasticd.runtime.cases import Scene
from elasticd.runtime.workers import Worker, at_once
from elasticd.sources.poller import SourcePoller

AT_ONCE = 200
"""Workloads that are screened before other tasks have their turn."""

Bander = Worker[Case, Bands]


class Totals(NamedTuple):
    """What the series of a workload come to in one reading, since its last evaluation: when each was measured, the
    oldest of these times, and whether all are in their bands."""

    last: Observation
    table: object
    measured: tuple[float, ...]
    oldest: float
    steady: bool


def _has_totals(readings: Sequence[Readings]) -> bool:
    return len(readings) == 1 and any(isinstance(table, BulkLookup) for table in readings[0].pods.values())


class Screening:
    """The readings since the last screening, and the bands of evaluated workloads, which are found once each."""

    def __init__(self, journal: Journal, bander: Bander | None = None) -> None:
        self._journal, self._bander = journal, bander or at_once(bands_of)
        self._sources: Mapping[str, tuple[SourcePoller, ...]] = {}
        self.watched: tuple[SourcePoller, ...] = ()
        """The sources that are read whenever they have something new, in an order that repeats."""
        self.fresh: dict[SourcePoller, None] = {}
        """Those that have read something since the last screening."""
        self._bands: dict[Key, tuple[Observation, float | None, Bands]] = {}
        self._compared: dict[Key, Observation] = {}
        """The last evaluation for which the bands of each workload are known to stand."""
        self._totals: dict[Key, Totals] = {}

    def govern(self, sources: Mapping[str, tuple[SourcePoller, ...]]) -> None:
        """Screen the workloads of these policies, by the sources of each."""
        self._sources = sources
        self.watched = tuple(dict.fromkeys(poller for pollers in sources.values() for poller in pollers))

    def screens(self, policy: str) -> bool:
        return policy in self._sources

    def note_read(self, poller: SourcePoller) -> bool:
        """Take in that a read has ended; whether any workload is screened by that source."""
        concerns = poller in self.watched
        if concerns:
            self.fresh[poller] = None
        return concerns

    def totals(
        self, key: Key, policy: Policy, last: Observation, readings: Sequence[Readings], at: float
    ) -> Totals | None:
        """What the series of a workload come to now whose pods are as they were at its last evaluation. None: that, or
        in which bands they should be, is not known without looking at each sample; where nothing was measured since,
        no band is needed."""
        known, table = self._totals.get(key), readings[0].pods if len(readings) == 1 else None
        if known is not None and known.last is last and known.table is table:
            return known if at - policy.max_age <= known.oldest else None
        totals = None if table is None else totals_of(last, readings, at, policy.max_age)
        if totals is None:
            return None
        measured = tuple([total.measured for total in totals.values()])
        if self._compared.get(key) is last:
            steady = keep_in_bands(self._bands[key][-1], last.series, totals)
        elif measured == tuple([series.measured for series in last.series.values()]):
            steady = True
        else:
            return None
        known = self._totals[key] = Totals(last, table, measured, min(measured), steady)
        return known

    async def screened(self, scene: Scene, leaving_out: Collection[Key]) -> list[Key]:
        """The evaluated workloads whose sources have fresh readings that leave a band: they are worth a look now."""
        fresh, self.fresh = {poller for poller in self.fresh if not poller.last.error}, {}
        sources = self._sources
        names = {name for name, pollers in sources.items() if not fresh.isdisjoint(pollers)}
        latest = {name: [poller.last for poller in sources[name]] for name in names}
        stirred, unknown = self._screen_totals(scene, leaving_out, latest)
        await self._refresh_bands(unknown, scene)
        for index, (key, workload) in enumerate(unknown.items(), 1):
            stirred[key] = self._is_stirred(key, scene, workload, latest[key[0]])
            if index % AT_ONCE == 0:
                await asyncio.sleep(0)
        return [key for key, is_stirred in stirred.items() if is_stirred]

    def _screen_totals(
        self, scene: Scene, leaving_out: Collection[Key], latest: Mapping[str, Sequence[Readings]]
    ) -> tuple[dict[Key, bool], dict[Key, Workload]]:
        """The evaluated workloads that are worth a look, as far as totals tell, and those of which they do not."""
        snapshot, evaluations, at, policy_index = scene.snapshot, scene.evaluations, scene.at, scene.policy_index
        known = {
            policy.name
            for policy in policy_index.policies
            if _has_totals(latest.get(policy.name, ())) and policy_index.hooks(policy).reads
        }
        stirred: dict[Key, bool] = {}
        unknown: dict[Key, Workload] = {}
        for key, policy in policy_index.members.items():
            readings = latest.get(key[0])
            if readings is None or key in leaving_out or (evaluation := evaluations.get(key)) is None:
                continue
            workload, last, totals = snapshot.workload(key[1]), evaluation.last, None
            if workload is None:
                continue
            if key[0] in known and self._compared.get(key) is last and snapshot.pods(workload) is last.pods:
                totals = self.totals(key, policy, last, readings, at)
            if totals is None:
                unknown[key] = workload
            if totals is None or not totals.steady:
                stirred[key] = totals is not None  # else it is looked at below, in this order
        return stirred, unknown

    def _is_stirred(self, key: Key, scene: Scene, workload: Workload, readings: Sequence[Readings]) -> bool:
        policy, last = scene.policy_index.members[key], scene.evaluations[key].last
        pods, reads = scene.snapshot.pods(workload), scene.policy_index.hooks(policy).reads
        if reads and pods is last.pods and _has_totals(readings):
            totals = self.totals(key, policy, last, readings, scene.at)
            if totals is not None:
                return not totals.steady
        series = series_of(policy, key[1], pods, readings, reads, scene.at)
        return not steady(self._bands[key][-1], last.series, series)

    async def _refresh_bands(self, keys: Iterable[Key], scene: Scene) -> None:
        """Find the bands of all these keys as of their last evaluation."""
        if self._bands.keys() - scene.evaluations.keys():
            self._bands = {key: entry for key, entry in self._bands.items() if key in scene.evaluations}
            self._compared = {key: last for key, last in self._compared.items() if key in scene.evaluations}
            self._totals = {key: totals for key, totals in self._totals.items() if key in scene.evaluations}
        cases = {key: case for key in keys if (case := self._band_case(key, scene)) is not None}
        if not cases:
            return
        for (key, case), bands in zip(cases.items(), await self._bander([*cases.values()]), strict=True):
            if isinstance(bands, str):
                scene.policy_index.block(key[0], bands)  # the next look reports it
            self._bands[key] = case.observation, case.past.interval, {} if isinstance(bands, str) else bands
            self._compared[key] = case.observation

    def _band_case(self, key: Key, scene: Scene) -> Case | None:
        """The case for which bands must be found; None where the known ones still stand."""
        name, ref = key
        policy, last = scene.policy_index.members[key], scene.evaluations[key].last
        if self._compared.get(key) is last:
            return None
        past = self._journal.past(name, ref, scene.at, last.workload.replicas)
        if key in self._bands:
            observation, interval, bands = self._bands[key]
            if observation is last or (interval == past.interval and stand(bands, observation, last)):
                self._compared[key] = last
                return None
        return Case(policy, last, past, scene.policy_index.hooks(policy), scene.policy_index.off(name))
