"""Screens workloads between their polls: finds those that new readings may concern enough for a decision.

Knows source pollers, what was last evaluated, and that strategies are asked for bands in a thread of their own; whether
a sample leaves its band is decided in decision/screen.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from elasticd.decision.observe import series_of
from elasticd.decision.quality import FUTURE
from elasticd.decision.screen import Bands, BandTable, Sums, Watched, bands_of, stand, steady, watch
from elasticd.decision.workload.asking import Case
from elasticd.journal import Journal, Key
from elasticd.kit.surge import own_count
from elasticd.model.policy import Policy
from elasticd.model.workload import BulkLookup, Observation, Readings, Workload
from elasticd.ports.cluster import Snapshot
from elasticd.runtime.cases import Scene
from elasticd.runtime.workers import Worker, at_once
from elasticd.sources.poller import SourcePoller

AT_ONCE = 200
"""Workloads that are screened before other tasks have their turn."""

Bander = Worker[Case, Bands]


class _Found(Struct):
    """The bands of a workload: for which evaluation they were found, and in force of which poll interval; and the last
    evaluation for which they are known to stand."""

    observation: Observation
    interval: float | None
    bands: Bands
    last: Observation


def _has_sums(readings: Sequence[Readings]) -> bool:
    return len(readings) == 1 and any(isinstance(table, BulkLookup) for table in readings[0].pods.values())


def _in_time(measured: float | None, policy: Policy, at: float) -> bool:
    return measured is not None and at - policy.max_age <= measured <= at + FUTURE


class Screening:
    """The readings since the last screening, and the bands of evaluated workloads, which are found once each."""

    def __init__(self, journal: Journal, bander: Bander | None = None) -> None:
        self._journal, self._bander = journal, bander or at_once(bands_of)
        self._sources: Mapping[str, tuple[SourcePoller, ...]] = {}
        self.watched: tuple[SourcePoller, ...] = ()
        """The sources that are read whenever they have something new, in an order that repeats."""
        self.fresh: dict[SourcePoller, None] = {}
        """Those that have read something since the last screening."""
        self._bands: dict[Key, _Found] = {}
        self._watched: dict[Key, Watched] = {}
        self._tables: dict[str, BandTable[Key]] = {}
        """The bands of all these, by source."""
        self._sums: dict[str, Sums] = {}
        """Of the last reading of each source that was looked at."""
        self._snapshot: Snapshot | None = None
        """Of the last screening."""
        self._order: dict[Key, int] = {}
        """The place of each member among all, found anew when it is empty."""
        self._open: set[Key] = set()
        """Those of them that may not be as they were at the evaluation of which a row has the bands."""

    def govern(self, sources: Mapping[str, tuple[SourcePoller, ...]]) -> None:
        """Screen the workloads of these policies, by the sources of each."""
        self._sources = sources
        self.watched = tuple(dict.fromkeys(poller for pollers in sources.values() for poller in pollers))
        self._order = {}

    def note_evaluation(self, key: Key) -> None:
        """Take in that a workload is evaluated anew."""
        self._open.add(key)

    def screens(self, policy: str) -> bool:
        return policy in self._sources

    def note_read(self, poller: SourcePoller) -> bool:
        """Take in that a read has ended; whether any workload is screened by that source."""
        concerns = poller in self.watched
        if concerns:
            self.fresh[poller] = None
        return concerns

    def sums(
        self, key: Key, policy: Policy, last: Observation, readings: Sequence[Readings], at: float
    ) -> Watched | None:
        """What is known of the sums of a workload's samples, whose pods are as they were at its last evaluation. None:
        nothing, without looking at each sample."""
        if len(readings) != 1:
            return None
        watched = self._watched.get(key)
        if watched is None or watched.last is not last:
            watched = self._watched[key] = watch(last, None)
        return watched if self._is_known(watched, policy, readings[0], at) else None

    def _is_known(self, watched: Watched, policy: Policy, reading: Readings, at: float) -> bool:
        """Look at the sums of a workload in a reading; whether they say anything, and in time."""
        if watched.table is not reading.pods:
            watched.look(self._sums_of(reading))
        return _in_time(watched.measured, policy, at)

    def _sums_of(self, reading: Readings) -> Sums:
        sums = self._sums.get(reading.source)
        if sums is None or sums.reading is not reading:
            sums = self._sums[reading.source] = Sums(reading, self._tables.setdefault(reading.source, BandTable()))
        return sums

    def _watch(self, key: Key, last: Observation, bands: Bands) -> None:
        """Compare a workload with these bands from now on."""
        watched = self._watched[key] = watch(last, bands)
        self._compare(key, watched)

    def _compare(self, key: Key, watched: Watched) -> None:
        """Compare it from the next reading on together with the others of its source."""
        if watched.source:
            self._tables.setdefault(watched.source, BandTable()).put(key, watched)

    async def screened(self, scene: Scene, leaving_out: Collection[Key]) -> list[Key]:
        """The evaluated workloads whose sources have fresh readings that leave a band: they are worth a look now."""
        fresh, self.fresh = {poller for poller in self.fresh if not poller.last.error}, {}
        sources = self._sources
        names = {name for name, pollers in sources.items() if not fresh.isdisjoint(pollers)}
        latest = {name: [poller.last for poller in sources[name]] for name in names}
        stirred, unknown = self._screen_sums(scene, leaving_out, latest)
        await self._refresh_bands(unknown, scene)
        for index, (key, workload) in enumerate(unknown.items(), 1):
            stirred[key] = self._is_stirred(key, scene, workload, latest[key[0]])
            if index % AT_ONCE == 0:
                await asyncio.sleep(0)
        return [key for key, is_stirred in stirred.items() if is_stirred]

    def _screen_sums(
        self, scene: Scene, leaving_out: Collection[Key], latest: Mapping[str, Sequence[Readings]]
    ) -> tuple[dict[Key, bool], dict[Key, Workload]]:
        """The evaluated workloads that are worth a look, as far as sums tell, and those of which they do not."""
        snapshot, evaluations, at, policy_index = scene.snapshot, scene.evaluations, scene.at, scene.policy_index
        known = {
            policy.name: policy
            for policy in policy_index.policies
            if _has_sums(latest.get(policy.name, ())) and policy_index.hooks(policy).reads
        }
        pods_of, stirred = snapshot.pods, dict[Key, bool]()
        unknown: dict[Key, Workload] = {}
        for key, policy in self._to_look_at(scene, known, latest):
            readings = latest.get(key[0])
            if readings is None or key in leaving_out or (evaluation := evaluations.get(key)) is None:
                continue
            last = evaluation.last
            watched = self._watched.get(key) if key[0] in known else None
            if (
                watched is not None
                and watched.banded
                and watched.last is last
                and pods_of(last.workload) is last.pods
                and self._is_known(watched, policy, readings[0], at)
            ):
                if watched.row is not None:
                    self._open.discard(key)
                if not watched.steady:
                    stirred[key] = True
            elif (workload := snapshot.workload(key[1])) is not None:
                unknown[key] = workload
                stirred[key] = False  # it is looked at below, in this order
        return stirred, unknown

    def _to_look_at(
        self, scene: Scene, known: Mapping[str, Policy], latest: Mapping[str, Sequence[Readings]]
    ) -> Iterable[tuple[Key, Policy]]:
        """The members of which it is not certain that they are as they were at their last evaluation, with all sums in
        their bands; in the order of all members. `known`: the policies whose readings know sums."""
        members, before, self._snapshot = scene.policy_index.members, self._snapshot, scene.snapshot
        changed = None if before is None else scene.snapshot.changes_since(before)
        if changed is None or not self._order:
            self._forget_others(scene.evaluations.keys())
            self._order = {key: place for place, key in enumerate(members)}
            self._open = set(members)
            return members.items()
        self._open.update([key for ref in changed for key in scene.policy_index.keys(ref)])
        sums = {name: self._sums_of(latest[name][0]) for name in known}
        if latest.keys() != known.keys() or not all(
            _in_time(sums[name].measured, policy, scene.at) for name, policy in known.items()
        ):
            return members.items()
        unsure = self._open.union(
            *[self._tables[source].unsure() for source in {of.reading.source for of in sums.values()}]
        )
        return [(key, members[key]) for key in sorted(unsure & members.keys(), key=self._order.__getitem__)]

    def _forget_others(self, evaluated: AbstractSet[Key]) -> None:
        """Forget the bands of workloads that are not evaluated any more."""
        if self._bands.keys() <= evaluated:
            return
        self._bands = {key: entry for key, entry in self._bands.items() if key in evaluated}
        self._watched = {key: watched for key, watched in self._watched.items() if key in evaluated}
        self._tables.clear()
        self._sums.clear()
        for key, watched in self._watched.items():
            self._compare(key, watched)

    def _is_stirred(self, key: Key, scene: Scene, workload: Workload, readings: Sequence[Readings]) -> bool:
        policy, last = scene.policy_index.members[key], scene.evaluations[key].last
        pods, reads = scene.snapshot.pods(workload), scene.policy_index.hooks(policy).reads
        if reads and pods is last.pods and _has_sums(readings):
            sums = self.sums(key, policy, last, readings, scene.at)
            if sums is not None:
                return not sums.steady
        series = series_of(policy, workload, pods, readings, reads, scene.at)
        return not steady(self._bands[key].bands, last.series, series)

    async def _refresh_bands(self, keys: Iterable[Key], scene: Scene) -> None:
        """Find the bands of all these keys as of their last evaluation."""
        cases = {key: case for key in keys if (case := self._band_case(key, scene)) is not None}
        if not cases:
            return
        for (key, case), answer in zip(cases.items(), await self._bander([*cases.values()]), strict=True):
            if isinstance(answer, str):
                scene.policy_index.block(key[0], answer)  # the next look reports it
            last, bands = case.observation, {} if isinstance(answer, str) else answer
            self._bands[key] = _Found(last, case.past.interval, bands, last)
            self._watch(key, last, bands)

    def _band_case(self, key: Key, scene: Scene) -> Case | None:
        """The case for which bands must be found; None where the known ones still stand."""
        name, ref = key
        policy, last = scene.policy_index.members[key], scene.evaluations[key].last
        found = self._bands.get(key)
        if found is not None and found.last is last:
            return None
        past = self._journal.past(name, ref, scene.at, own_count(last.workload))
        if found is not None and found.interval == past.interval and stand(found.bands, found.observation, last):
            found.last = last
            self._watch(key, last, found.bands)
            return None
        return Case(policy, last, past, scene.policy_index.hooks(policy), scene.policy_index.off(name))
