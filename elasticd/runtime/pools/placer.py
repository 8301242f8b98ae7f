"""Pending pods onto nodes: observe a pool, plan, bind, for every time it is given.

Knows who is pending, which are under way and when one is tried again; knows no strategy and no wire format. Beside the
Loop, whose workloads it has nothing to do with; the two share cluster, journal and clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from math import inf

from msgspec import Struct

from elasticd.base.clock import Clock, pause
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import plan, stuck
from elasticd.journal import Journal
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Announce, Answer, Evict, Nominate
from elasticd.model.placement import PodDecision, PodOutcome, PoolObservation
from elasticd.model.policy import PoolPolicy
from elasticd.model.pool_listener import PlacingListener
from elasticd.model.workload import Pod, Readings
from elasticd.ports.cluster import Cluster, Pretending, Snapshot
from elasticd.runtime.execute import STOPPED, announce
from elasticd.runtime.pools.deduplicated import LastDecisions
from elasticd.runtime.pools.execute import PodAction, carry_out
from elasticd.runtime.pools.permitted import Refused, permitted
from elasticd.runtime.pools.pool import Pool, asked
from elasticd.runtime.pools.usage_view import KnownUsage, UsageView, WantedSeries
from elasticd.sources.poller import SourcePoller
from elasticd.sources.router import WAIT, SourceRouter

MOST = 1000
"""Pods that one plan is about: what it binds is under way while the next is made."""

LOOKED_AT = frozenset({"cpu", "memory"})
"""The series that people look at."""

AHEAD = 100
"""Pods that rest and are asked all the same where one behind them is."""

IN_FLIGHT = 64
"""Requests that bind and evict at a time."""

FIRST_REST, LONGEST_REST = 1.0, 10.0
"""Seconds before a pod that found no place is tried again; they double, as kube-scheduler's backoff does."""

DISTURB = ("select_victims", "rebind_pods", "rebalance_nodes")
"""The hooks by which pods are made to leave: only for those must it be known what PodDisruptionBudgets allow."""

NUDGE = 0.02
"""Seconds in which what happens is taken together."""

NOT_WANTED = "NotWanted"
_ENDED = (NOT_WANTED, STOPPED)

Planner = Callable[[Sequence[PoolCase]], Awaitable[list[tuple[PodDecision, ...] | str]]]
"""Plans in the order of the cases; a string instead says where one got stuck."""


async def at_once(cases: Sequence[PoolCase]) -> list[tuple[PodDecision, ...] | str]:
    """Plan here and now: for virtual time, where nothing else waits."""
    return [plan(case) for case in cases]


class _Rest(Struct):
    """A pod that found no place: when it is tried again, after which pause, and whether something that was done for it
    failed."""

    until: float
    pause: float
    failed: bool = False


class _Acting(Struct):
    """What is under way for a pod, and after which pause it was tried."""

    pod: Pod
    decision: PodDecision
    pause: float
    task: asyncio.Task[None]


class Placer:
    """All pool policies on one cluster. `look` gives the cluster as it is. `tick` is one pass of `run`."""

    def __init__(
        self,
        cluster: Cluster,
        look: Callable[[float], Awaitable[Snapshot]],
        journal: Journal,
        clock: Clock,
        listeners: Sequence[PlacingListener] = (),
        planner: Planner = at_once,
    ) -> None:
        self._cluster, self.look, self._journal, self._clock = cluster, look, journal, clock
        self._listeners, self._planner = listeners, planner
        self.pools: tuple[Pool, ...] = ()
        self._rests: dict[str, _Rest] = {}
        self._acting: dict[str, _Acting] = {}
        self._announcing: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._changed = asyncio.Event()
        self._said = LastDecisions()
        self.views = UsageView()
        self.answered: list[Callable[[], None]] = []  # who else is told that a source has answered late
        self.router: SourceRouter[str] = SourceRouter((), self._ready)
        cluster.on_change(self._changed.set)

    def set_sources(self, pollers: Sequence[SourcePoller], wait: float | None = WAIT) -> None:
        """Read these from the next tick on, as the Loop does."""
        self.router = SourceRouter(pollers, self._ready, wait)

    def _ready(self, _: object) -> None:
        self._changed.set()
        for tell in self.answered:
            tell()

    def apply(self, policies: Sequence[PoolPolicy]) -> None:
        """Place by these policies from the next tick on. A pod that several are about is that of one that acts, or else
        the first one's, by name."""
        order = sorted(policies, key=lambda one: (one.mode != "act", one.name))
        self.pools = tuple(Pool(policy) for policy in order)
        self.router.forget()
        self._rests.clear()
        self._changed.set()
        for listener in self._listeners:
            listener.pools({policy.name for policy in policies})

    async def run(self) -> None:
        """Tick whenever something has happened, or is due, until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Wait for something to do, and tick."""
        until = self.due()
        if not self._changed.is_set():
            await pause(self._clock, until, self._changed)
        if self._changed.is_set():
            await self._clock.sleep_until(min(until, self._clock.now() + NUDGE))
        await self.turn()

    def due(self) -> float:
        """When it looks next, from now on: as often as a policy says, or when a pod has rested, or soon after
        something has happened. Who does not lead waits for no pod."""
        now = self._clock.now()
        rests = self._rests.values() if self._cluster.leading else ()
        rested = min((rest.until for rest in rests), default=inf)
        beat = now + min((pool.policy.interval for pool in self.pools), default=LONGEST_REST)
        return min(now + NUDGE if self._changed.is_set() else max(rested, now + NUDGE), beat)

    async def turn(self) -> None:
        """Tick now, for what has happened meanwhile too."""
        if self._changed.is_set():
            self._changed.clear()
            self._wake(self._clock.now())
        await self.tick(self._clock.now())

    def _wake(self, now: float) -> None:
        """Something happened: whoever rests is tried again soon, though not at once; but for one for which something
        failed, that this came to its end is what happened, as often as not."""
        for rest in self._rests.values():
            if not rest.failed:
                rest.until = min(rest.until, max(now, rest.until - rest.pause + FIRST_REST))

    async def tick(self, now: float) -> None:
        """Plan for every pool that has pods to place, and begin what was decided."""
        self._journal.flush()
        if not self._cluster.leading:
            for pool in self.pools:
                self._count(pool, ())
        if not self.pools or not self._cluster.leading:
            return
        snapshot = await self.look(now)
        pending = [self.views.noted(pod) for pod in snapshot.pending() if pod.uid not in self._acting]
        alive = {pod.uid for pod in pending}
        self._rests = {uid: rest for uid, rest in self._rests.items() if uid in alive}
        alive |= self._acting.keys()
        self._said.keep(alive)
        self.views.forget(alive, now)
        for pool in self.pools:
            if pool not in self.pools:
                return  # others are in force by now
            mine = [pod for pod in pending if pool.policy.pool.has(pod)]
            pending = [pod for pod in pending if not pool.policy.pool.has(pod)]
            rested = [pod for pod in mine if self._has_rested(pod, now)]
            if rested:
                await self._place(pool, snapshot, [*rested, *self._ahead(pool, mine, rested)], now)
            self._count(pool, mine)
        self._journal.flush()

    def _count(self, pool: Pool, mine: Sequence[Pod]) -> None:
        """Tell how many wait, where that is another number than before."""
        name, pods = pool.policy.name, {pod.uid: pod for pod in mine}
        pods.update({uid: one.pod for uid, one in self._acting.items() if one.decision.policy == name})
        counts = self._said.waiting(pods)
        if counts != pool.waiting:
            pool.waiting = counts
            for listener in self._listeners:
                listener.waiting(name, counts)

    def _has_rested(self, pod: Pod, now: float) -> bool:
        """Whether a pod is planned for now. One for which others gave way always is, so that their place is kept for it
        from those that matter less, and for nobody who matters more."""
        rest = self._rests.get(pod.uid)
        return rest is None or rest.until <= now or (bool(pod.nominated) and not rest.failed)

    def _ahead(self, pool: Pool, mine: Sequence[Pod], rested: Sequence[Pod]) -> list[Pod]:
        """The first of those that still rest and are ahead of one that does not: what it would be given is theirs."""
        if len(rested) == len(mine):
            return []
        due = {pod.uid for pod in rested}
        order = self.views.in_order(mine, pool.policy.pool.order)
        last = max(index for index, pod in enumerate(order) if pod.uid in due)
        resting = (pod for pod in order[:last] if pod.uid not in due and not self._rests[pod.uid].failed)
        return list(islice(resting, AHEAD))

    async def case(self, pool: Pool, snapshot: Snapshot, pods: Sequence[Pod], now: float) -> PoolCase | None:
        """All that a plan for a pool depends on; None while a source is waited for."""
        known = await self._read(pool, snapshot, now)
        return None if known is None else self._case(pool, snapshot, pods, known, now, {})

    async def _read(self, pool: Pool, snapshot: Snapshot, now: float) -> KnownUsage | None:
        pollers = self.router.serving(pool.policy, pool.hooks.fetched or frozenset())
        readings = (await self.router.read({pool.policy.name: pollers}, now)).get(pool.policy.name)
        if readings is None:
            return None  # the source tells when it has answered
        return self._known(pool, pool.wants, readings, snapshot, now)

    async def shown(self, pool: Pool, snapshot: Snapshot, now: float) -> PoolCase:
        """The same for a person, who looks at cpu and memory whoever else does, at what sources said last."""
        wants = WantedSeries(pool.wants.nodes | LOOKED_AT, pool.wants.pods | LOOKED_AT)
        readings = await self.router.look(self.router.having(pool.policy, wants.nodes | wants.pods), now)
        return self._case(pool, snapshot, (), self._known(pool, wants, readings, snapshot, now), now, {})

    def _known(
        self, pool: Pool, wants: WantedSeries, readings: Sequence[Readings], snapshot: Snapshot, now: float
    ) -> KnownUsage:
        strays = snapshot.strays() if isinstance(snapshot, Pretending) else ()
        return self.views.look(pool.policy, wants, readings, now, strays)

    def _case(
        self, pool: Pool, snapshot: Snapshot, pods: Sequence[Pod], known: KnownUsage, now: float, refused: Refused
    ) -> PoolCase:
        columns = pool.columns(snapshot, known)
        self._assume(columns, snapshot, {pod.uid for pod in pods})
        budgets = snapshot.budgets() if any(map(pool.hooks.implements, DISTURB)) else ()
        observation = PoolObservation(
            at=now,
            pending=tuple(pods),
            use=known.pods,
            budgets=(*(budgets or ()), *self.views.spared()),
            budgets_known=budgets is not None,
            confirmed=min(snapshot.confirmed, snapshot.nodes_confirmed),
            gave_way=dict(self.views.gave_way),
            moved=self.views.moved(pods),
            returned=self.views.returned,
            refused=dict(refused),
        )
        return PoolCase(pool.policy, observation, columns, pool.hooks, pool.off())

    async def _place(self, pool: Pool, snapshot: Snapshot, pods: list[Pod], now: float) -> None:
        if len(pods) > MOST:
            pods = list(self.views.in_order(pods, pool.policy.pool.order)[:MOST])
            self._changed.set()
        known = await self._read(pool, snapshot, now)
        if known is None:
            return
        begun = self._clock.now()

        async def plan(refused: Refused) -> tuple[PodDecision, ...]:
            return await self._plan(pool, self._case(pool, snapshot, pods, known, now, refused))

        decisions = await permitted(plan, self._cluster.refusal)
        if pool not in self.pools:
            return  # what other policies say is not done
        seconds = self._clock.now() - begun
        by_uid = {pod.uid: pod for pod in pods}
        pool.count_failure(
            "placing", [failure for decision in decisions for failure in decision.failures], asked(decisions)
        )
        for decision in decisions:
            self._settle(decision, by_uid[decision.uid], now)
        for listener in self._listeners:
            listener.planned(pool.policy.name, seconds)

    async def _plan(self, pool: Pool, case: PoolCase) -> tuple[PodDecision, ...]:
        """What is to be done; nothing where a plugin does not come back, until reload."""
        if not pool.blocked:
            (found,) = await self._planner([case])
            if not isinstance(found, str):
                return found
            pool.blocked = f"{found}; it is not called again until reload"
        return stuck(case, "PluginBlocked", pool.blocked)

    def _assume(self, columns: NodeTable, snapshot: Snapshot, asked: AbstractSet[str]) -> None:
        """Count those that are on their way to a node and are not seen there yet; those for whom room was made and who
        are not asked about now, or another takes it, even the one that gave way; and those that have been told to leave
        their node."""
        for pod in map(self.views.noted, snapshot.pending()):
            node = self.views.doubtful(pod) or pod.nominated
            index = columns.index(node) if node else None
            if index is not None and pod.uid not in asked and pod.uid not in self._acting:
                columns.take(index, pod)
        leaving = self.views.leaving()
        for one in self._acting.values():
            index = columns.index(one.decision.node)
            if index is not None and all(pod.uid != one.pod.uid for pod in columns.pods(index)):
                columns.take(index, one.pod)
            leaving.update({action.uid: action.node for action in one.decision.actions if isinstance(action, Evict)})
        for uid, node in leaving.items():
            index = columns.index(node)
            if index is not None:
                columns.leave(index, uid)

    def _settle(self, decision: PodDecision, pod: Pod, now: float) -> None:
        """Write a decision down unless it says what the last one said, and begin what it asks for."""
        if self._said.news(decision):
            self._journal.append(decision)
            for listener in self._listeners:
                listener.placing(decision)
            self._announce(decision, pod)
        self.views.decided(decision, now)
        rest = self._rests.pop(pod.uid, None)
        if decision.actions and decision.mode == "act":
            task = asyncio.create_task(self._act(decision, pod), name=decision.id)
            self._acting[pod.uid] = _Acting(pod, decision, rest.pause if rest else 0.0, task)
        elif rest and rest.until > now:
            self._rests[pod.uid] = rest  # it was asked before its time
        else:
            pause = min(LONGEST_REST, 2 * rest.pause) if rest else FIRST_REST
            self._rests[pod.uid] = _Rest(now + pause, pause)

    def _announce(self, decision: PodDecision, pod: Pod) -> None:
        """Tell it at the pod, as kube-scheduler does."""
        if decision.mode != "act" or decision.verdict == "bind":
            return
        reason = "FailedScheduling" if decision.reason == "Unschedulable" else decision.reason
        told = Announce(pod.ref, pod.uid, reason, decision.message, warning=decision.verdict != "preempt")
        task = asyncio.create_task(announce(self._cluster, told), name=f"announce {decision.id}")
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def _act(self, decision: PodDecision, pod: Pod) -> None:
        """Carry out what was decided, in order, until one thing cannot be done."""
        why, failed = STOPPED, True
        try:
            evictions = [action for action in decision.actions if isinstance(action, Evict)]
            for action in decision.actions:
                outcome = await self._do(decision, pod, action, evictions if action is decision.actions[0] else ())
                if outcome.result != "done":
                    why = outcome.reason or outcome.result
                    if isinstance(action, Evict) and outcome.reason not in _ENDED:  # no room is made, so none is kept
                        await self._do(decision, pod, Nominate(pod.ref, pod.uid, ""))
                    break
            else:
                failed = False
        finally:
            pause = self._acting.pop(pod.uid).pause
            if failed:
                self._said.undone(pod.uid, why)  # the next attempt has outcomes of its own
            if failed or decision.verdict != "bind":
                pause = min(LONGEST_REST, max(FIRST_REST, 2 * pause)) if failed else FIRST_REST
                self._rests[pod.uid] = _Rest(self._clock.now() + pause, pause, failed)
            self._changed.set()  # and the next look writes the journal, once for all that ended meanwhile

    async def _do(
        self, decision: PodDecision, pod: Pod, action: PodAction, evictions: Sequence[Evict] = ()
    ) -> PodOutcome:
        """Do one thing, and write down what came of it; nothing, where all evictions that are to make room would not be
        let through: then none would have been of use."""
        async with self._slots:
            work = partial(self._ask_for, action, pod, evictions)
            outcome = await carry_out(self._clock, decision, action, work)
        self._journal.append(outcome)
        for listener in self._listeners:
            listener.placed(outcome)
        self.views.did(pod, action, outcome)
        return outcome

    async def _ask_for(self, action: PodAction, pod: Pod, evictions: Sequence[Evict]) -> Answer:
        """Let it be done; but nobody is evicted for a pod that waits no longer."""
        if evictions and (why := self._cluster.refusal(evictions)):
            return Answer("refused", message=why[1], reason=why[0])
        if isinstance(action, Evict):
            snapshot = await self.look(self._clock.now())
            if all(one.uid != pod.uid for one in snapshot.pending()):
                text = f"{pod.namespace}/{pod.name} does not wait for a node any more"
                return Answer("conflict", message=text, reason=NOT_WANTED)
        return await self._cluster.act(action)

    async def drain(self, patience: float | None = None) -> None:
        """Wait for what is under way, at most `patience` seconds."""
        tasks = [*[one.task for one in self._acting.values()], *self._announcing]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._journal.flush()
