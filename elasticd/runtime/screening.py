"""Screens workloads between their polls: finds those that new readings may concern enough for a decision.

Knows source pollers, what was last evaluated, and that strategies are asked for bands in a thread of their own; whether
a sample leaves its band is decided in decision/screen.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from elasticd.decision.observe import series_of
from elasticd.decision.screen import Bands, bands_of, stand, steady
from elasticd.decision.workload.asking import Case
from elasticd.journal import Journal, Key
from elasticd.model.workload import Observation, Readings, Workload
from elasticd.runtime.cases import Scene
from elasticd.runtime.workers import Worker, at_once
from elasticd.sources.poller import SourcePoller

AT_ONCE = 200
"""Workloads that are screened before other tasks have their turn."""

Bander = Worker[Case, Bands]


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

    async def screened(self, scene: Scene, leaving_out: Collection[Key]) -> list[Key]:
        """The evaluated workloads whose sources have fresh readings that leave a band: they are worth a look now."""
        fresh, self.fresh = {poller for poller in self.fresh if not poller.last.error}, {}
        sources = self._sources
        names = {name for name, pollers in sources.items() if not fresh.isdisjoint(pollers)}
        latest = {name: [poller.last for poller in sources[name]] for name in names}
        workloads = {
            key: workload
            for key in scene.policy_index.members
            if key[0] in names and key not in leaving_out and key in scene.evaluations
            if (workload := scene.snapshot.workload(key[1])) is not None
        }
        await self._refresh_bands(workloads, scene)
        picked: list[Key] = []
        for index, (key, workload) in enumerate(workloads.items(), 1):
            if self._is_stirred(key, scene, workload, latest[key[0]]):
                picked.append(key)
            if index % AT_ONCE == 0:
                await asyncio.sleep(0)
        return picked

    def _is_stirred(self, key: Key, scene: Scene, workload: Workload, readings: Sequence[Readings]) -> bool:
        policy, last = scene.policy_index.members[key], scene.evaluations[key].last
        pods, reads = scene.snapshot.pods(workload), scene.policy_index.hooks(policy).reads
        series = series_of(policy, key[1], pods, readings, reads, scene.at)
        return not steady(self._bands[key][-1], last.series, series)

    async def _refresh_bands(self, keys: Iterable[Key], scene: Scene) -> None:
        """Find the bands of all these keys as of their last evaluation."""
        if self._bands.keys() - scene.evaluations.keys():
            self._bands = {key: entry for key, entry in self._bands.items() if key in scene.evaluations}
            self._compared = {key: last for key, last in self._compared.items() if key in scene.evaluations}
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
