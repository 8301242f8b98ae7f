"""The loop over workloads: observe, decide, act.

Knows the order of things and who is due; knows no strategy, no file and no wire format.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from math import inf
from typing import Protocol

from msgspec.structs import replace

from elasticd.base.clock import Clock, pause
from elasticd.base.errors import is_interrupt
from elasticd.base.tasks import cancel
from elasticd.base.text import raised
from elasticd.decision.decide import Case, Evaluated, announcements, evaluate, held
from elasticd.decision.observe import observe
from elasticd.journal import Journal, Key
from elasticd.journal.known_series import LOST_WITHIN
from elasticd.kit.history import HORIZON
from elasticd.model.actions import BREAKER, Answer, Scale
from elasticd.model.disruption import PolicyCaps
from elasticd.model.listener import IDLE_TICK, Governed, Listener, Ticked, tell
from elasticd.model.policy import JobSet, Policy
from elasticd.model.records import Decision
from elasticd.model.workload import Failure, Readings, Ref, Series
from elasticd.ports.cluster import Cluster, Kind, OtherAutoscalers, Snapshot
from elasticd.ports.metrics_api import MetricsReader
from elasticd.ports.source import Site, Subject
from elasticd.runtime.actions import Actions, record
from elasticd.runtime.basis import BasisWriter
from elasticd.runtime.cases import LastEvaluation, Scene, case_of
from elasticd.runtime.execute import carry_out, not_begun
from elasticd.runtime.governed import PolicyIndex
from elasticd.runtime.presence import Presence
from elasticd.runtime.repeats import Repeat, Repeats
from elasticd.runtime.schedule import Schedule, spread
from elasticd.runtime.screening import Bander, Screening
from elasticd.runtime.workers import Decided, Decider, at_once
from elasticd.sources.poller import PATIENCE, SLACK, SourcePoller
from elasticd.sources.router import WAIT, SourceRouter

QUANTUM = SLACK
"""Seconds: a tick also takes what falls due this soon after it, so that a thousand policies share its cost."""

NUDGE = 0.1
"""Seconds between ticks for news that sources push: what comes meanwhile shares the next tick."""

REST = 0.5
"""Seconds between two looks at one workload for such news: a sensor may send a hundred messages a second."""

SOON = 0.25
"""Seconds: a workload that is due within them is not screened, because it is about to be looked at anyway."""

BRISK = 1.0
"""Seconds: a workload that is looked at this often, or more often, is not screened between its looks."""

AT_ONCE = 50
"""Workloads that are decided together, before their actions begin: the first writes need not wait long."""

IDLE = 1.0
"""Seconds between snapshots of a cluster in which nothing is due: there may be new workloads or policies."""


class Breaker(Protocol):
    """Knows whether so much was lost at once that no count may fall."""

    def sudden_loss(self, now: float) -> str:
        """What was lost, as a sentence; empty: nothing."""


class Loop:
    """All policies on one cluster. `tick` is one pass; `run` passes for ever."""

    def __init__(
        self,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        listeners: Sequence[Listener] = (),
        worker: Decider | None = None,
        idle: float = IDLE,
    ) -> None:
        self._cluster, self._journal, self._clock = cluster, journal, clock
        self._listeners, self._worker, self._idle = listeners, worker or at_once(evaluate), idle
        self.router: SourceRouter[Key] = SourceRouter((), self._on_late_answer)
        self._repeats: Repeats | None = None
        self._screening, self._basis = Screening(journal), BasisWriter(journal)
        self._news: dict[tuple[Subject, str], None] = {}
        self._missed: set[Key] = set()
        self._changed = asyncio.Event()
        self._policy_index = PolicyIndex(())
        self._schedule: Schedule[Key] = Schedule()
        self._brisk: set[Key] = set()
        self._evaluations: dict[Key, LastEvaluation] = {}
        self.actions: Actions[Key] = Actions()
        self._turn = 0
        self._led, self._ended = True, False
        self._led_until = clock.now()
        self._presence = Presence(clock)
        self.snapshot: Snapshot | None = None
        self.last_tick = clock.now()
        self._kinds: frozenset[Kind] = frozenset()
        self.breaker: Breaker | None = None
        """What falls of counts are asked about."""

    def set_sources(
        self, pollers: Sequence[SourcePoller], wait: float | None = WAIT, bander: Bander | None = None
    ) -> None:
        """Read these from the next tick on, in this order. `wait`: seconds of real time for them; None: to the end."""
        # Neither they nor the callback can be a constructor's argument: each is opened with the loop's `site`.
        self._screening = Screening(self._journal, bander)
        self.router = SourceRouter(pollers, self._on_late_answer, wait)
        for poller in pollers:
            poller.on_read(self._on_read)

    def leave_out_repeats(self) -> None:
        """Leave out decisions that come out as the one before did and change nothing: for a run of which nobody reads
        each of them. What is remembered of the past is the same."""
        self._repeats = Repeats(self._journal)

    def wake(self, subject: Subject, key: str) -> None:
        """Make the workloads due that news of a pod, workload or node concerns."""
        self._news[subject, key] = None
        self._changed.set()

    @property
    def site(self) -> Site:
        """What a source may use of the daemon."""
        journal, snapshot = self._journal.folder, lambda: self.snapshot
        return Site(
            MetricsReader(self._cluster), self._clock, self.wake, self.governed, snapshot,
            journal=journal, since=self._presence.since,
        )  # fmt: skip

    def governed(self) -> frozenset[Ref]:
        """The workloads that policies govern."""
        return frozenset(ref for _, ref in self._policy_index.members)

    def unscaled(self) -> list[str]:
        """The workloads, NAMESPACE/KIND/NAME, that nobody scales: their autoscaler was stopped by a takeover, and no
        policy acts on them. None while this daemon does not lead, or does not know."""
        snapshot = self.snapshot
        if snapshot is None or not self._cluster.leading or not isinstance(snapshot, OtherAutoscalers):
            return []
        return self._policy_index.not_acted_on(snapshot.stopped_by_takeover())

    def apply(
        self, policies: Sequence[Policy], also: frozenset[Kind] = frozenset(), caps: PolicyCaps | None = None
    ) -> None:
        """Govern by these policies from the next tick on; what they no longer name is left as it is. `also` are kinds
        that are observed for the placer and the mover, beside those that policies govern. `caps`: how much a policy
        changes by itself; None: as much as it says."""
        # Workloads of a policy that is new or changed are looked at soon; the others keep their times.
        before = {policy.name: policy for policy in self._policy_index.policies}
        unchanged = {policy.name for policy in policies if before.get(policy.name) == policy}
        for key in self._schedule:
            if key[0] not in unchanged:
                self._schedule.drop(key)
        governed = self._policy_index.confirmed_refs() if before else None
        self._policy_index = PolicyIndex(policies, governed, caps)
        self._kinds = self._policy_index.kinds | also
        self._screening.govern({})
        self.router.forget()
        self._evaluations = {}  # a tick that is under way may still look at the old ones

    async def run(self) -> None:
        """Tick at once, and then whenever something is due, until cancelled."""
        presence = asyncio.create_task(self._presence.run(), name="presence")
        try:
            await self.tick(self._clock.now())
            while True:
                await self.step()
        finally:
            self._ended = True
            await cancel(presence)

    async def step(self) -> None:
        if not (self._news or self._screening.fresh):  # what set it has been handled
            self._changed.clear()
        until = self.due()
        await pause(self._clock, until, self._changed, lambda: min(until, self.last_tick + NUDGE))
        if self._changed.is_set():
            self._take_news(self._clock.now())
        await self.tick(self._clock.now())

    def due(self) -> float:
        """The time of the next tick, if nothing happens before."""
        latest = self.last_tick + NUDGE if self._changed.is_set() else self._clock.now() + self._idle
        if not self._cluster.leading:
            return latest
        due = self._schedule.next()
        return min(latest, latest if due is None else due, *[poller.due for poller in self._screening.watched])

    def _take_news(self, now: float) -> None:
        """Make workloads with news due now, or REST after their last evaluation; those being acted on, after that."""
        news, self._news = self._news, {}
        self._changed.clear()
        for subject, key in news:
            for workload_key in self._policy_index.about(subject, key):
                if workload_key in self.actions:
                    self._missed.add(workload_key)
                evaluation = self._evaluations.get(workload_key)
                self._schedule.advance(workload_key, now if evaluation is None else max(now, evaluation.last.at + REST))

    def _on_late_answer(self, keys: Iterable[Key]) -> None:
        now = self._clock.now()
        for key in keys:
            self._schedule.advance(key, now)
        self._changed.set()

    def _on_read(self, poller: SourcePoller) -> None:
        """After a read, screen the workloads that it concerns, at the next tick or in the one that waits for it."""
        if self._screening.note_read(poller):
            self._changed.set()

    async def look(self, now: float) -> Snapshot:
        """Observe the cluster, with the kinds that policies govern and those that pods' policies need."""
        return await self._cluster.observe(now, self._kinds)

    async def tick(self, now: float) -> None:
        """Decide about every workload that is due at this time, and begin the actions."""
        tell(self._listeners, await self._tick(now))

    async def _tick(self, now: float) -> Ticked:
        self.last_tick = now
        self._journal.flush()  # a failed write is tried again, even where nothing is decided
        policy_index = self._policy_index
        self.snapshot = await self.look(now)
        if policy_index is not self._policy_index:  # other policies were applied meanwhile: these kinds may not be all
            return IDLE_TICK
        if policy_index.refresh(self.snapshot):
            self._update_members(now)
        if not self._take_lead(now):
            return IDLE_TICK
        first = self._schedule.next()
        due = self._schedule.due(now + QUANTUM)
        cases, unchanged = await self._build_cases(policy_index, due, now)
        if not (due or cases):
            return IDLE_TICK
        for start in range(0, len(cases), AT_ONCE):  # the first actions begin while other workloads are decided
            decided = await self._decide(policy_index, cases[start : start + AT_ONCE], now)
            if policy_index is not self._policy_index:  # other policies are in force now, and look for themselves
                self._evaluations.clear()
                return IDLE_TICK
            for key, decision in decided:
                if isinstance(decision, Repeat):
                    self._journal.repeat(*key, now, decision.series, decision.recall)
                    self._schedule_next(key, now, decision.interval)
                else:
                    self._settle(key, decision, now)
        self._journal.flush()
        return Ticked(max(0.0, now - (now if first is None else first)), unchanged)

    def _take_lead(self, now: float) -> bool:
        """Whether this daemon leads. When it begins to, windows open afresh: what another daemon did is not known."""
        leading = self._cluster.leading
        if leading and not self._led:
            if now - self._led_until > LOST_WITHIN:  # what has ended since is not lost now
                self._journal.known_series.clear()
            self._presence.begin(now)
            self._journal.reopen(now)
            for key in self._schedule:  # what fell due while another led is not late
                self._schedule.drop(key)
            self._update_members(now)
        self._led = leading
        if leading:
            self._led_until = now
        return leading

    def _update_members(self, now: float) -> None:
        """Schedule new workloads, spread over a second, and drop those that are no longer governed."""
        members = self._policy_index.members
        for key in self._schedule:
            if key not in members:
                self._schedule.drop(key)
        for key in members:
            if key not in self._schedule and key not in self.actions:
                self._schedule.set(key, now + spread(key) * min(1.0, members[key].interval))
        self._evaluations = {key: evaluation for key, evaluation in self._evaluations.items() if key in members}
        self._brisk &= members.keys()
        self._screening.govern(self._sources_to_watch(self._policy_index))
        self._journal.forget(members.keys(), now - HORIZON)
        self._basis.keep(members.keys())
        tell(self._listeners, Governed(members.keys()))

    async def _build_cases(
        self, policy_index: PolicyIndex, due: list[Key], now: float
    ) -> tuple[list[tuple[Key, Case | Decision | Repeat]], int]:
        """Build the cases of all keys that are due and have something new; also returns how many had nothing new."""
        snapshot = self.snapshot
        assert snapshot is not None, "a tick looks first"  # noqa: S101
        members = policy_index.members
        pollers_by_key = self._pollers_by_key(policy_index, due)
        readings = await self.router.read(pollers_by_key, now, self._screening.watched)
        if not (pollers_by_key or self._screening.fresh):
            return [], 0
        scene = Scene(policy_index, self._evaluations, snapshot, now)
        if self._repeats is not None:
            self._repeats.look(snapshot, policy_index)
        if self._screening.fresh:
            moved = self._pollers_by_key(policy_index, await self._screen_workloads(scene, pollers_by_key.keys()))
            readings |= await self.router.read_or_last(moved, now)
            pollers_by_key |= moved
        cases: list[tuple[Key, Case | Decision | Repeat]] = []
        unchanged = 0
        for key in pollers_by_key:
            if key not in readings:
                # At the latest: it is due sooner if its source answers.
                self._schedule.set(key, now + PATIENCE + QUANTUM)
                continue
            try:
                case = self._case_of(scene, key, readings[key])
            except BaseException as error:  # a bad answer of a strategy or a source must not harm other workloads
                if is_interrupt(error):
                    raise
                case = self._hold_failed(key, members[key], now, error)
            if case is not None:
                cases.append((key, case))
            else:
                unchanged += 1
                self._schedule_next(key, now, self._journal.past(*key, now, 0).interval)
        return cases, unchanged

    def _case_of(self, scene: Scene, key: Key, readings: Sequence[Readings]) -> Case | Decision | Repeat | None:
        """The case of a workload, or the last decision again; None where nothing has changed since that."""
        if self._repeats is not None:
            repeat = self._repeats.of(key, scene, readings, self._screening)
            if repeat:
                return repeat if isinstance(repeat, Repeat) else None
        case = case_of(scene, key, readings, self._journal, self._cluster.problems())
        if isinstance(case, Case):
            self._screening.note_evaluation(key)
        return case

    def _sources_to_watch(self, policy_index: PolicyIndex) -> dict[str, tuple[SourcePoller, ...]]:
        """The sources of each policy whose workloads are screened between their polls."""
        governing = {policy.name: policy for policy in policy_index.members.values()}.values()
        return {
            policy.name: pollers
            for policy in governing
            if (pollers := self._pollers_of(policy_index, policy)) and not policy_index.hooks(policy).own_pace
        }

    async def _screen_workloads(self, scene: Scene, due: Collection[Key]) -> list[Key]:
        """The workloads that are not due, and are worth a look for what was read since the last tick; those being acted
        on are looked at after their action."""
        soon = self._schedule.between(scene.at, scene.at + SOON)
        moved = await self._screening.screened(scene, {*due, *soon, *self._brisk})
        self._missed.update(self.actions.keys() & moved)
        for key in moved:
            self._schedule.drop(key)
        return [key for key in moved if key not in self.actions]

    def _pollers_by_key(self, policy_index: PolicyIndex, keys: Iterable[Key]) -> dict[Key, tuple[SourcePoller, ...]]:
        """The sources of each of these workloads that is governed. They are looked up once for each policy."""
        members, by_policy = policy_index.members, dict[str, tuple[SourcePoller, ...]]()
        pollers_by_key: dict[Key, tuple[SourcePoller, ...]] = {}
        for key in keys:
            policy = members.get(key)
            if policy is None:
                continue
            pollers = by_policy.get(key[0])
            if pollers is None:
                pollers = by_policy[key[0]] = self._pollers_of(policy_index, policy)
            pollers_by_key[key] = pollers
        return pollers_by_key

    def _pollers_of(self, policy_index: PolicyIndex, policy: Policy) -> tuple[SourcePoller, ...]:
        """The sources that the policy's strategies read; none where they cannot say, which `case_of` reports."""
        pollers = () if policy_index.stuck(policy.name) else self.router.known(policy.name)
        if pollers is not None:
            return pollers
        try:
            return self.router.serving(policy, policy_index.hooks(policy).fetched)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return ()

    async def query(self, name: str, workload: str) -> list[tuple[str, Series]]:
        """Each policy that governs a workload (NAMESPACE/KIND/NAME), with the series as it would see it now."""
        now, series_by_policy = self._clock.now(), []
        for key in self._policy_index.about("workload", workload):
            policy, snapshot = self._policy_index.members[key], self.snapshot
            readings = await self.router.look(self.router.having(policy, (name,)), now)
            if snapshot is not None and (member := snapshot.workload(key[1])) is not None:
                observation = observe(policy, member, snapshot, readings, frozenset({name}), now)
                series_by_policy.append((policy.name, observation.series[name]))
        return series_by_policy

    def _hold(self, key: Key, policy: Policy, now: float, failure: Failure, reason: str, message: str) -> Decision:
        """Hold, because a plugin blocks, or its answer is not what it must be."""
        workload = self.snapshot.workload(key[1]) if self.snapshot else None
        return replace(held(policy, key[1], now, reason, message, workload), failures=(failure,))

    def _hold_failed(self, key: Key, policy: Policy, now: float, error: BaseException) -> Decision:
        failure = Failure("elasticd", "", raised(error))
        return self._hold(key, policy, now, failure, "PluginFailed", failure.message)

    async def _decide(
        self, policy_index: PolicyIndex, cases: list[tuple[Key, Case | Decision | Repeat]], now: float
    ) -> list[tuple[Key, Decision | Repeat]]:
        asked = [case for _, case in cases if isinstance(case, Case)]
        answers = iter(await self._worker(asked) if asked else ())
        decisions: list[tuple[Key, Decision | Repeat]] = []
        for key, case in cases:
            if isinstance(case, Repeat):
                decisions.append((key, case))
                continue
            answer: Decided = next(answers) if isinstance(case, Case) else Evaluated(case)
            if isinstance(answer, asyncio.Future):
                # Until it is there, the workload counts as one that is acted on: it is not looked at again.
                later = self._decide_later(policy_index, key, case, answer, now)
                self.actions.begin(key, f"decide {key[0]}", later)
            else:
                decisions.append((key, self._decided(policy_index, key, case, answer, now)))
        return decisions

    def _decided(
        self, policy_index: PolicyIndex, key: Key, case: Case | Decision, answer: Evaluated | str, now: float
    ) -> Decision:
        if isinstance(answer, str):
            policy_index.block(key[0], answer)
            failure, stuck = Failure(answer, "", "blocked"), policy_index.stuck(key[0])
            answer = Evaluated(self._hold(key, policy_index.members[key], now, failure, "PluginBlocked", stuck))
        if answer.until < inf and key in self._evaluations:
            self._evaluations[key] = replace(self._evaluations[key], until=answer.until)
        if isinstance(case, Case) and answer.decision.confirmed is not None:
            self._basis.write(case)
        if isinstance(case, Case) and self._repeats is not None:
            self._repeats.note(key, case, answer.decision)
        return answer.decision

    async def _decide_later(
        self,
        policy_index: PolicyIndex,
        key: Key,
        case: Case | Decision,
        answer: "asyncio.Future[Evaluated | str]",
        now: float,
    ) -> None:
        """Settle a decision for which its tick did not wait, unless other policies are in force by then, or none."""
        try:
            evaluated = await answer
        finally:
            self.actions.end(key)
        if self._ended:
            return
        if policy_index is self._policy_index:
            self._settle(key, self._decided(policy_index, key, case, evaluated, now), now)
            self._journal.flush()
        else:
            self._evaluations.pop(key, None)
            self._schedule_next(key, now, None)
        if key not in self.actions:
            self._catch_up(key, self._clock.now())

    def _settle(self, key: Key, decision: Decision, now: float) -> None:
        previous = self._journal.latest(*key)
        try:
            self._journal.append(decision)
        except (TypeError, ValueError, RecursionError) as error:  # a plugin's values that JSON cannot express
            decision = self._hold_failed(key, self._policy_index.members[key], now, error)
            self._journal.append(decision)
        self._policy_index.count_failure(decision)
        tell(self._listeners, decision)
        for announcement in announcements(decision, previous) if decision.mode == "act" else ():
            self.actions.announce(self._cluster, announcement, decision.id)
        writes = decision.marks or decision.sizing.resizes
        if decision.action or decision.removals or (writes and decision.mode == "act"):
            # The policy as it is now: another may be in force when the task begins.
            job = self._policy_index.members[key].job
            self.actions.begin(key, decision.id, self._act(key, decision, job))
        else:
            self._schedule_next(key, now, decision.interval)

    async def _act(self, key: Key, decision: Decision, job: JobSet | None) -> None:
        """Carry out a decision. The workload is not looked at again before that has ended."""
        try:
            if answer := self._why_not_now(decision):
                record(not_begun(decision, self._clock.now(), answer), self._journal, self._listeners)
                return
            async for outcome in carry_out(self._cluster, self._clock, decision, job):
                record(outcome, self._journal, self._listeners)
        finally:
            self.actions.end(key)
            now = self._clock.now()
            self._schedule_next(key, now, decision.interval)
            self._catch_up(key, now)

    def _why_not_now(self, decision: Decision) -> Answer | None:
        """Why a count is not to fall: the breaker is asked before a zero is marked as well. None: go on."""
        action = decision.action
        falls = isinstance(action, Scale) and action.after < action.before
        if self.breaker is None or decision.mode != "act" or not falls:
            return None
        loss = self.breaker.sudden_loss(self._clock.now())
        return Answer("refused", message=loss, reason=BREAKER) if loss else None

    def _catch_up(self, key: Key, now: float) -> None:
        """Look soon if news came meanwhile, or a time at which a strategy may change its mind."""
        if key in self._missed or self._next_change(key) <= now:
            self._missed.discard(key)
            self._schedule.advance(key, now + REST)

    def _schedule_next(self, key: Key, now: float, interval: float | None) -> None:
        """Schedule the next look after the interval, or up to the policy's jitter sooner."""
        policy = self._policy_index.members.get(key)
        if policy is None:
            return
        self._turn += 1
        wait = interval or policy.interval
        if wait <= BRISK:
            self._brisk.add(key)
        elif self._brisk:
            self._brisk.discard(key)
        if policy.jitter:
            # On average an evaluation is half a quantum early: without this, jitter would make them more frequent.
            wait = min(wait, wait * (1 - policy.jitter * spread("", self._turn)) + QUANTUM / 2)
        evaluation = self._evaluations.get(key)
        if evaluation is not None and now < evaluation.until:
            wait = min(wait, evaluation.until - now)
        when = now + wait
        if not self._screening.screens(policy.name):
            # Never later than the interval; but just after an update of a source, if one comes before.
            when = self.router.next(self.router.known(policy.name) or (), now + QUANTUM, when)
        self._schedule.set(key, when)

    def _next_change(self, key: Key) -> float:
        evaluation = self._evaluations.get(key)
        return inf if evaluation is None else evaluation.until
