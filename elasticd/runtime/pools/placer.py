"""Places pending pods on nodes: observe a pool, plan, bind.

Knows who is pending, which are under way and when one is tried again; knows no strategy and no wire format. It runs
beside the Loop over workloads; the two share cluster, journal and clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from math import inf

from msgspec import Struct

from elasticd.base.backoff import Backoff
from elasticd.base.clock import Clock, pause
from elasticd.base.fair_semaphore import FairSemaphore
from elasticd.base.text import counted
from elasticd.decision.disruption import refusal
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.plan import GIVEN_UP, UNBOUND, plan, stuck
from elasticd.journal import Journal
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Announce, Answer, Bind, Evict, Nominate, TryEvict
from elasticd.model.controllers import ROLLING
from elasticd.model.disruption import DisruptionState
from elasticd.model.listener import Listener, PodsPlanned, PodsWaiting, PoolsApplied, tell
from elasticd.model.moves import Promise
from elasticd.model.placement import PodDecision, PodOutcome, PoolObservation
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Pod, Readings
from elasticd.ports.cluster import Budgeted, Cluster, Kind, Pretending, Snapshot
from elasticd.runtime.actions import STOPPED, Actions, attempt
from elasticd.runtime.execute import PodAction, pod_outcome
from elasticd.runtime.pools.deduplicated import LastDecisions
from elasticd.runtime.pools.offers import Offers
from elasticd.runtime.pools.pool import Pool, asked
from elasticd.runtime.pools.promises import Promises
from elasticd.runtime.pools.usage_view import UsageView, WantedSeries
from elasticd.runtime.workers import Worker, at_once
from elasticd.sources.poller import SourcePoller
from elasticd.sources.router import WAIT, SourceRouter

MOST = 1000
"""Pods in one plan, at most: the next plan is made while the bindings of this one are under way."""

LOOKED_AT = frozenset({"cpu", "memory"})
"""The series that people look at."""

AHEAD = 100
"""Pods in backoff that are planned for all the same because a pod behind them in the order is."""

IN_FLIGHT = 128
"""Requests that bind and evict at a time in one namespace; in all half as many more. Each has a connection of its own,
of 0.3 MiB; a process that may open few files has fewer. With 64, kube-scheduler binds as many a second
(tests/bench/bind.py)."""

BACKOFF = Backoff(1.0, 10.0)
"""Before a pod that found no place is tried again, as kube-scheduler's."""

NUDGE = 0.02
"""Seconds in which events are gathered before a tick."""

HANGS = 10.0
"""Seconds for which a pod is being bound after which that is told. While so many requests are under way that others
wait, these wait for elasticd: their time has not begun."""

UNANSWERED = "NoAnswer"
"""The reason of a pod whose binding has had no answer for so long."""

NOT_WANTED = "NotWanted"
_ENDED = (NOT_WANTED, STOPPED)

Planner = Worker[PoolCase, tuple[PodDecision, ...]]


class _Retry(Struct):
    """When a pod is tried again that found no place, or an action for which `failed`, in so many attempts in a row."""

    until: float
    attempts: int
    failed: bool = False


class _Acting(Struct):
    """`since`: when its binding was begun; inf: none is under way."""

    pod: Pod
    decision: PodDecision
    since: float = inf


class Placer:
    """All pool policies on one cluster. `look` gives the cluster as it is. `tick` is one pass of `run`."""

    def __init__(
        self,
        cluster: Cluster,
        look: Callable[[float], Awaitable[Snapshot]],
        journal: Journal,
        clock: Clock,
        listeners: Sequence[Listener] = (),
        planner: Planner | None = None,
    ) -> None:
        self._cluster, self.look, self._journal, self._clock = cluster, look, journal, clock
        self._listeners, self._planner = listeners, planner or at_once(plan)
        self.pools: tuple[Pool, ...] = ()
        self._retries: dict[str, _Retry] = {}
        self._acting: dict[str, _Acting] = {}
        self.actions: Actions[str] = Actions()
        self._slots = FairSemaphore(IN_FLIGHT)
        self._changed = asyncio.Event()
        self._left_out = False
        """Whether the last plans were too small for all pods that were due: the next ones are made at once."""
        self.decisions = LastDecisions()
        self._kept: dict[str, tuple[str, float]] = {}
        """By UID, the nodes on which places are kept until claims are bound, and since when."""
        self.views, self.promises = UsageView(), Promises()
        self.router: SourceRouter[Callable[[], None]] = SourceRouter((), self._on_late_answer)
        cluster.on_change(self._changed.set)

    def set_in_flight(self, requests: int) -> None:
        """Have so many under way at a time from now on, instead of IN_FLIGHT; before the first tick."""
        self._slots = FairSemaphore(requests)

    def set_sources(self, pollers: Sequence[SourcePoller], wait: float | None = WAIT) -> None:
        """Read these from the next tick on, as the Loop does."""
        self.router = SourceRouter(pollers, self._on_late_answer, wait)

    def _on_late_answer(self, waiting: Iterable[Callable[[], None]]) -> None:
        self._changed.set()
        for notify in waiting:
            notify()

    def apply(self, policies: Sequence[PoolPolicy]) -> None:
        """Place by these policies from the next tick on. Where several select a pod, the first by name places it, those
        in mode act before the others; a pod that has no place in one is offered to the next that acts."""
        order = sorted(policies, key=lambda policy: (policy.mode != "act", policy.name))
        self.pools = tuple(Pool(policy) for policy in order)
        self.router.forget()
        self._retries.clear()
        self._changed.set()
        tell(self._listeners, PoolsApplied({policy.name for policy in policies}))

    @property
    def also_observed(self) -> frozenset[Kind]:
        """The kinds of which rollouts must be known, where pods may be made to leave: no pod of a rollout is."""
        return ROLLING if any(pool.disturbs for pool in self.pools) else frozenset()

    async def run(self) -> None:
        while True:
            await self.step()

    async def step(self) -> None:
        until = self.due()
        await pause(self._clock, until, self._changed, lambda: min(until, self._clock.now() + NUDGE))
        await self.turn()

    def due(self) -> float:
        """The time of the next tick: after the policies' interval, at the end of a pod's backoff if this daemon leads,
        or soon after an event."""
        now = self._clock.now()
        retries = self._retries.values() if self._cluster.leading else ()
        rested = min((retry.until for retry in retries), default=inf)
        beat = now + min((pool.policy.interval for pool in self.pools), default=BACKOFF.longest)
        soon = self._changed.is_set() or self._left_out
        return min(now + NUDGE if soon else max(rested, now + NUDGE), beat)

    async def turn(self) -> None:
        """Tick now, and count every event so far as handled: after one, pods in backoff are tried again soon."""
        now = self._clock.now()
        if self._changed.is_set():
            self._changed.clear()
            for retry in self._retries.values():
                if not retry.failed:  # else the event is often only the end of that action
                    soonest = retry.until - BACKOFF.delay(retry.attempts) + BACKOFF.first
                    retry.until = min(retry.until, max(now, soonest))
        await self.tick(now)

    async def tick(self, now: float) -> None:
        """Plan for every pool that has pods to place, and begin what was decided."""
        self._journal.flush()
        if not self._cluster.leading:
            for pool in self.pools:
                self._report_waiting(pool, ())
        if not self.pools or not self._cluster.leading:
            return
        snapshot = await self.look(now)
        pending = [self.views.noted(pod) for pod in snapshot.pending() if pod.uid not in self._acting]
        alive = {pod.uid for pod in pending}
        self._retries = {uid: retry for uid, retry in self._retries.items() if uid in alive}
        self._kept = {uid: kept for uid, kept in self._kept.items() if uid in alive or uid in self._acting}
        alive |= self._acting.keys()
        self.decisions.keep(alive)
        self.views.forget(alive, now)
        self._left_out = False
        due, offers = {pod.uid for pod in pending if self._is_due(pod, now)}, Offers(self.pools)
        for pool in self.pools:
            if pool not in self.pools:
                return  # others are in force by now
            own = [pod for pod in pending if pool.policy.pool.has(pod)]
            offers.begin(pool, own)
            rested = [pod for pod in own if pod.uid in due]
            if rested:
                await self._place(pool, snapshot, [*rested, *self._ahead(pool, own, rested)], now, offers)
            self._report_waiting(pool, [pod for pod in own if not offers.shares(pod)])
            pending = [pod for pod in pending if not pool.policy.pool.has(pod) or offers.goes_on(pod)]
        self._journal.flush()

    def _report_waiting(self, pool: Pool, own: Sequence[Pod]) -> None:
        name, uids = pool.policy.name, dict.fromkeys(pod.uid for pod in own)
        for uid, acting in self._acting.items():
            if acting.decision.verdict != "bind" and acting.decision.policy == name:  # else it waits no more
                uids[uid] = None
        counts = self.decisions.waiting(uids)
        counts.update(UNANSWERED for acting in self._hanging() if acting.decision.policy == name)
        if pool.waiting.changed(counts):
            tell(self._listeners, PodsWaiting(name, counts))

    def _hanging(self) -> list[_Acting]:
        """The pods whose binding was begun long ago, and has not come to its end."""
        latest = self._clock.now() - HANGS
        return [acting for acting in self._acting.values() if acting.since < latest]

    def hanging(self) -> Iterator[str]:
        """A line for each namespace whose pods have been being bound for long."""
        by_namespace: dict[str, list[_Acting]] = {}
        for acting in self._hanging():
            by_namespace.setdefault(acting.pod.namespace, []).append(acting)
        for namespace, waiting in sorted(by_namespace.items()):
            nodes = {acting.decision.node for acting in waiting}
            where = min(nodes) if len(nodes) == 1 else counted(len(nodes), "node")
            seconds = self._clock.now() - min(acting.since for acting in waiting)
            yield (
                f"{counted(len(waiting), 'pod')} of namespace {namespace} should be bound to {where}, and the API "
                f"server has not done or refused it for up to {seconds:.0f} s: does a webhook for pods/binding, "
                "Retry-After or writes_per_second hold it up?"
            )

    def _is_due(self, pod: Pod, now: float) -> bool:
        """Whether a pod is planned for now. A nominated pod always is, so that the plan keeps its node from pods of
        less priority, and not from those of more."""
        retry = self._retries.get(pod.uid)
        return retry is None or retry.until <= now or (bool(pod.nominated) and not retry.failed)

    def _ahead(self, pool: Pool, own: Sequence[Pod], rested: Sequence[Pod]) -> list[Pod]:
        """The first pods in backoff that come before one that is due: the node that it would get is theirs."""
        if len(rested) == len(own):
            return []
        due = {pod.uid for pod in rested}
        order = self.views.in_order(own, pool.policy.pool.order)
        last = max(index for index, pod in enumerate(order) if pod.uid in due)
        resting = (pod for pod in order[:last] if pod.uid not in due and not self._retries[pod.uid].failed)
        return list(islice(resting, AHEAD))

    def _first(self, pool: Pool, pods: Sequence[Pod]) -> list[Pod]:
        """Those of the next plan, where there are too many: who comes first in the order, and pods that keep a node,
        and then who was tried the fewest times, so that many that fit nowhere keep no other waiting."""
        order = self.views.in_order(pods, pool.policy.pool.order)
        attempts = {uid: retry.attempts for uid, retry in self._retries.items()}
        rank = {pod.uid: 0 if pod.nominated else attempts.get(pod.uid, 0) for pod in order[AHEAD:]}
        return sorted(order, key=lambda pod: rank.get(pod.uid, 0))[:MOST]

    async def case(
        self, pool: Pool, snapshot: Snapshot, now: float, on_answer: Callable[[], None], pods: Sequence[Pod] = ()
    ) -> PoolCase | None:
        """Build the case of a plan for these pods, or of moves; None while a source is waited for: `on_answer` is
        called when one has answered."""
        pollers = self.router.serving(pool.policy, pool.hooks.fetched or frozenset())
        readings = (await self.router.read({on_answer: pollers}, now)).get(on_answer)
        await self._adopt_promises(snapshot, now)
        return None if readings is None else self._case(pool, snapshot, pods, readings, pool.wants, now)

    async def shown(self, pool: Pool, snapshot: Snapshot, now: float) -> PoolCase:
        """Build a case for display: it always has cpu and memory, and takes the sources' last readings."""
        wants = WantedSeries(pool.wants.nodes | LOOKED_AT, pool.wants.pods | LOOKED_AT)
        readings = await self.router.look(self.router.having(pool.policy, wants.nodes | wants.pods), now)
        await self._adopt_promises(snapshot, now)
        case = self._case(pool, snapshot, (), readings, wants, now)
        for promise in case.promises:
            if (index := case.columns.index(promise.node)) is not None:
                case.columns.take(index, promise.pod, promise.use)
        return case

    def _case(
        self,
        pool: Pool,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        readings: Sequence[Readings],
        wants: WantedSeries,
        now: float,
    ) -> PoolCase:
        strays = snapshot.strays() if isinstance(snapshot, Pretending) else ()
        usage = self.views.look(pool.policy, wants, readings, now, strays)
        self._update_promises(snapshot, now)
        # The pods that are being bound take room on their node already.
        promises = self.promises.current(self._acting.keys())
        columns = pool.columns(
            snapshot, usage, volumes=pool.needs_volumes([*pods, *(promise.pod for promise in promises)])
        )
        planned_uids = {pod.uid for pod in pods} | {promise.pod.uid for promise in promises}
        reserved = self._take_expected(columns, snapshot, planned_uids)
        budgets = snapshot.budgets() if pool.disturbs else ()
        observation = PoolObservation(
            at=now,
            pending=tuple(pods),
            use=usage.pods,
            budgets=(*(budgets or ()), *self.views.spared()),
            budgets_known=budgets is not None,
            confirmed=min(snapshot.confirmed, snapshot.nodes_confirmed),
            gave_way=dict(self.views.gave_way),
            moved=self.views.moved(pods),
            returned=self.views.returned,
            kept_since={uid: since for uid, (_, since) in self._kept.items()},
            disruption=self._disruption(now) if pool.disturbs and pool.policy.mode == "act" else DisruptionState(),
        )
        return PoolCase(
            pool.policy,
            observation,
            columns,
            pool.hooks,
            pool.failures.off,
            promises=promises,
            reserved=tuple(reserved),
            rejected_by=self._rejecting_nodes(pods),
        )

    def _rejecting_nodes(self, pods: Sequence[Pod]) -> dict[str, frozenset[str]]:
        """By UID, the nodes that rejected these pods, or what they are copies of."""
        by_kubelets = {(move.pod.namespace, move.pod.name): move.rejected_by for move in self._cluster.restoring()}
        nodes = {
            pod.uid: self.views.rejected_by(pod) | by_kubelets.get((pod.namespace, pod.name), frozenset())
            for pod in pods
        }
        return {uid: names for uid, names in nodes.items() if names}

    async def _adopt_promises(self, snapshot: Snapshot, now: float) -> None:
        """Take over what was promised before this daemon began to lead."""
        recorded = await self._cluster.promises()
        self.promises.adopt(recorded, snapshot, now, lambda pod: any(pool.policy.pool.has(pod) for pool in self.pools))

    def promised(self, snapshot: Snapshot, now: float) -> tuple[Promise, ...]:
        """All promised places."""
        self._update_promises(snapshot, now)
        return self.promises.current()

    def _update_promises(self, snapshot: Snapshot, now: float) -> None:
        self.promises.update(snapshot, {move.uid for move in self._cluster.restoring() if not move.over}, now)

    async def _place(self, pool: Pool, snapshot: Snapshot, pods: list[Pod], now: float, offers: Offers) -> None:
        if is_cut := len(pods) > MOST:
            pods = self._first(pool, pods)
        case = await self.case(pool, snapshot, now, self._changed.set, pods)
        if case is None:
            return
        self._left_out = self._left_out or is_cut
        started = self._clock.now()
        decisions = await self._plan(pool, case)
        if pool not in self.pools:
            return  # other policies are in force by now
        seconds = self._clock.now() - started
        by_uid = {pod.uid: pod for pod in pods}
        failures = [failure for decision in decisions for failure in decision.failures]
        pool.count_failure("placing", failures, asked(decisions))
        for decision in decisions:
            if not offers.passes_on(decision):
                self._settle(offers.combined(decision), by_uid[decision.uid], now)
        tell(self._listeners, PodsPlanned(pool.policy.name, seconds))

    async def _plan(self, pool: Pool, case: PoolCase) -> tuple[PodDecision, ...]:
        """Make a plan; once a plugin has got stuck, every pod waits until reload."""
        if not pool.blocked:
            (decisions,) = await self._planner([case])
            if not isinstance(decisions, str):
                return decisions
            pool.blocked = f"{decisions}; it is not called again until reload"
        return stuck(case, "PluginBlocked", pool.blocked)

    def _disruption(self, now: float) -> DisruptionState:
        return self._cluster.disruption(now) if isinstance(self._cluster, Budgeted) else DisruptionState()

    def _take_expected(
        self, columns: NodeTable, snapshot: Snapshot, planned_uids: AbstractSet[str]
    ) -> list[tuple[str, Pod]]:
        """Bring the node table up to what is expected: pods that are being bound take room on their node, nominated
        pods that are not in this plan (`planned_uids`) keep theirs, and pods that were told to leave are marked as
        leaving. Returns the pods that only keep room, each with its node."""
        reserved = list[tuple[str, Pod]]()
        for pod in map(self.views.noted, snapshot.pending()):
            node = self.views.doubtful(pod) or pod.nominated
            place = columns.with_node(node)
            if place is not None and pod.uid not in planned_uids and pod.uid not in self._acting:
                place[0].take(place[1], pod)
                reserved.append((node, pod))
        leaving = self.views.leaving()
        for acting in self._acting.values():
            place = columns.with_node(acting.decision.node)
            if place is not None and all(pod.uid != acting.pod.uid for pod in place[0].pods(place[1])):
                place[0].take(place[1], acting.pod)
                if acting.decision.verdict != "bind":
                    reserved.append((acting.decision.node, acting.pod))
            leaving.update({action.uid: action.node for action in acting.decision.actions if isinstance(action, Evict)})
        for uid, node in leaving.items():
            if (place := columns.with_node(node)) is not None:
                place[0].leave(place[1], uid)
        return reserved

    def _settle(self, decision: PodDecision, pod: Pod, now: float) -> None:
        """Write a decision down if it is news, and begin its actions."""
        if self.decisions.news(decision):
            self._journal.append(decision)
            tell(self._listeners, decision)
            if decision.mode == "act" and decision.verdict != "bind":  # an event on the pod, as kube-scheduler's
                reason = "FailedScheduling" if decision.reason == "Unschedulable" else decision.reason
                event = Announce(pod.ref, pod.uid, reason, decision.message, warning=decision.verdict != "preempt")
                self.actions.announce(self._cluster, event, decision.id)
        if decision.verdict == "wait":
            self.views.returned[decision.uid] = now
        node, since = self._kept.pop(pod.uid, ("", now))
        if decision.reason == UNBOUND and decision.node and decision.mode == "act":
            self._kept[pod.uid] = decision.node, since if node == decision.node else now
        retry = self._retries.pop(pod.uid, None)
        before = retry.attempts if retry else 0
        if decision.actions and decision.mode == "act":
            self._acting[pod.uid] = _Acting(pod, decision)
            is_refused = bool(node) and decision.reason == UNBOUND  # whoever makes volumes took back what was asked for
            self.actions.begin(pod.uid, decision.id, self._act(decision, pod, before, is_refused=is_refused))
        elif retry and retry.until > now:
            self._retries[pod.uid] = retry  # it was asked before its time
        else:
            self._retries[pod.uid] = _Retry(now + BACKOFF.delay(before + 1), before + 1)

    async def _act(self, decision: PodDecision, pod: Pod, before: int, *, is_refused: bool) -> None:
        """Carry out the actions in order, until one cannot be done. `before`: the number of failed attempts; with
        `is_refused` it is one more, even if all is done."""
        why, failed = STOPPED, True
        try:
            evictions = [action for action in decision.actions if isinstance(action, Evict)]
            actions = _with_trials(decision.actions, evictions)
            for action in actions:
                outcome = await self._perform(decision, pod, action, evictions if action is actions[0] else ())
                if outcome.result != "done":
                    why = outcome.reason or outcome.result
                    self.decisions.failed(pod.uid, outcome)
                    if outcome.action == "evict" and outcome.reason not in _ENDED:  # no room is made, so none is kept
                        await self._perform(decision, pod, Nominate(pod.ref, pod.uid, ""))
                    break
            else:
                failed = False
        finally:
            del self._acting[pod.uid]
            self.actions.end(pod.uid)
            if failed:
                self.decisions.undone(pod.uid, why)  # the next attempt has outcomes of its own
            if decision.reason == GIVEN_UP:  # others come first, as after a failure
                self._retries[pod.uid] = _Retry(self._clock.now() + BACKOFF.longest, 1, failed=True)
            elif failed or decision.verdict != "bind":
                failed = failed or is_refused
                attempts = before + 1 if failed else 1
                self._retries[pod.uid] = _Retry(self._clock.now() + BACKOFF.delay(attempts), attempts, failed)
            self._changed.set()  # and the next look writes the journal, once for all that ended meanwhile

    async def _perform(
        self, decision: PodDecision, pod: Pod, action: PodAction | TryEvict, evictions: Sequence[Evict] = ()
    ) -> PodOutcome:
        """Carry out one action, and write down its outcome; of a trial only a refusal. It is refused where not all
        `evictions` that are to make room would be let through, because then none would be of use."""
        about = action.evict if isinstance(action, TryEvict) else action
        async with self._slots.slot(about.workload.namespace):  # a webhook may make those of one namespace wait
            acting = self._acting[pod.uid]
            acting.since = self._clock.now() if isinstance(action, Bind) else inf
            answer = await attempt(self._clock, self._request(action, pod, evictions))
            acting.since = inf
        outcome = pod_outcome(decision, about, answer)
        if about is action or outcome.result != "done":
            self._journal.append(outcome)
            tell(self._listeners, outcome)
            self.views.did(pod, about, outcome)
        return outcome

    async def _request(self, action: PodAction | TryEvict, pod: Pod, evictions: Sequence[Evict]) -> Answer:
        """Ask the cluster to act; but evict no pod for one that no longer waits."""
        if evictions and (why := refusal(self._disruption(self._clock.now()), evictions)):
            return Answer("refused", message=why[1], reason=why[0])
        if isinstance(action, Evict | TryEvict):
            snapshot = await self.look(self._clock.now())
            if all(pending.uid != pod.uid for pending in snapshot.pending()):
                text = f"{pod.namespace}/{pod.name} does not wait for a node any more"
                return Answer("conflict", message=text, reason=NOT_WANTED)
        return await self._cluster.act(action)


def _with_trials(actions: Sequence[PodAction], evictions: Sequence[Evict]) -> list[PodAction | TryEvict]:
    """The actions; of several evictions each is tried before the first is carried out: alone none would be of use."""
    trials = [TryEvict(evict) for evict in evictions] if evictions[1:] else []
    others = [action for action in actions if not isinstance(action, Evict)]
    return [*others, *trials, *evictions]
