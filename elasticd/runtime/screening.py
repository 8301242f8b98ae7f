"""Which readings have come that nobody was screened by, and who is worth a look because of them.

Knows shelves, who was evaluated, and that strategies are asked for bands in a thread of their own; what leaves a band
is in screen.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from elasticd.decision.screen import Watched, stand, stirred
from elasticd.decision.workload.asking import Case
from elasticd.decision.workload.bands import Bands, bands_of
from elasticd.journal import Journal, Key
from elasticd.model.workload import Observation
from elasticd.runtime.cases import Scene
from elasticd.sources.poller import SourcePoller

AT_ONCE = 200
"""Workloads that are screened before others have their turn."""

Bander = Callable[[Sequence[Case]], Awaitable[list["Bands | str"]]]
"""Bands in the order of the cases; a string instead says where the case got stuck."""


async def bands_at_once(cases: Sequence[Case]) -> list[Bands | str]:
    """Here and now: for virtual time, where nothing else waits."""
    return [bands_of(case) for case in cases]


class Screening:
    """Readings since the last screening, and the bands of whoever was evaluated, which are asked for once each."""

    def __init__(self, journal: Journal, bander: Bander = bands_at_once) -> None:
        self._journal, self._bander = journal, bander
        self._sources: Mapping[str, tuple[SourcePoller, ...]] = {}
        self.watched: tuple[SourcePoller, ...] = ()
        """The sources that are read whenever they have something new, in an order that repeats."""
        self.fresh: dict[SourcePoller, None] = {}
        """Those that have read something since the last screening."""
        self._bands: dict[Key, tuple[Observation, float | None, Bands]] = {}

    def govern(self, sources: Mapping[str, tuple[SourcePoller, ...]]) -> None:
        """Screen those whom these policies are about, by these sources."""
        self._sources = sources
        self.watched = tuple(dict.fromkeys(poller for pollers in sources.values() for poller in pollers))

    def screens(self, policy: str) -> bool:
        """Whether whom this policy is about is screened."""
        return policy in self._sources

    def note_read(self, poller: SourcePoller) -> bool:
        """A read has ended; whether anybody is screened by it."""
        concerns = poller in self.watched
        if concerns:
            self.fresh[poller] = None
        return concerns

    async def screened(self, scene: Scene, leaving_out: Collection[Key]) -> list[Key]:
        """Of those that were evaluated and that something fresh may be about, the ones that are worth a look now."""
        fresh, self.fresh = {poller for poller in self.fresh if not poller.last.error}, {}
        sources = self._sources
        names = {name for name, pollers in sources.items() if not fresh.isdisjoint(pollers)}
        keys = [
            key
            for key in scene.policy_index.members
            if key[0] in names and key not in leaving_out and key in scene.seen
        ]
        keys = [key for key in keys if scene.snapshot.workload(key[1]) is not None]
        await self._ask(keys, scene)
        found: list[Key] = []
        for start in range(0, len(keys), AT_ONCE):
            if start:
                await asyncio.sleep(0)
            found += stirred(
                [self._watch(key, scene, sources[key[0]]) for key in keys[start : start + AT_ONCE]], scene.at
            )
        return found

    def _watch(self, key: Key, scene: Scene, pollers: Sequence[SourcePoller]) -> Watched:
        policy, last = scene.policy_index.members[key], scene.seen[key].last
        return Watched(
            key=key,
            policy=policy,
            last=last,
            bands=self._bands[key][-1],
            pods=scene.snapshot.pods(scene.snapshot.workload(key[1]) or last.workload),
            readings=[poller.last for poller in pollers],
            reads=scene.policy_index.hooks(policy).reads,
        )

    async def _ask(self, keys: Sequence[Key], scene: Scene) -> None:
        """Have the bands of all of these, since their last evaluation."""
        self._bands = {key: found for key, found in self._bands.items() if key in scene.seen}
        cases = {key: case for key in keys if (case := self._case(key, scene)) is not None}
        if not cases:
            return
        for (key, case), bands in zip(cases.items(), await self._bander([*cases.values()]), strict=True):
            if isinstance(bands, str):
                scene.policy_index.block(key[0], bands)  # the next look tells of it
            self._bands[key] = case.observation, case.past.interval, {} if isinstance(bands, str) else bands

    def _case(self, key: Key, scene: Scene) -> Case | None:
        """What strategies are asked about; None where the bands are known."""
        name, ref = key
        policy, last = scene.policy_index.members[key], scene.seen[key].last
        past = self._journal.past(name, ref, scene.at, last.workload.replicas)
        if key in self._bands:
            before, interval, bands = self._bands[key]
            if before is last or (interval == past.interval and stand(bands, before, last)):
                return None
        return Case(policy, last, past, scene.policy_index.hooks(policy), scene.policy_index.off(name))
