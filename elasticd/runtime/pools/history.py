"""The history of a pool whose pods are moved: its looks and its moves."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.backoff import Backoff
from elasticd.base.news import LastReported
from elasticd.kit.bindings import binding_of
from elasticd.kit.evictability import one_failed
from elasticd.kit.surge import BEGUN
from elasticd.model.actions import OUTDATED, Evict
from elasticd.model.moves import (
    PUT_BACK,
    STAYED,
    TAKEN_BACK,
    Comebacks,
    Failing,
    Look,
    Moved,
    MoveDecision,
    MovesPlan,
    PoolPast,
    Underway,
    whose,
)
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Node, Pod
from elasticd.runtime.pools.usage_view import SHOWN

REMEMBERED = 3600.0
"""Seconds for which a move is remembered."""

RETURNED = 86400.0
"""The same of moves from a node to which others came in their place."""

REJECTING = 600.0
"""Seconds for which other nodes are preferred to one whose kubelet did not start a moved pod."""

EARLIER = 4
"""Sets of labels of its node that are remembered of a pod, beside those it has."""

MISSED = 3.0
"""After so many intervals without an evaluation, the earlier ones are forgotten."""

OFTEN = 3
"""Times in a row that an eviction is only to be judged anew, after which it counts as failing."""

PAUSE = 300.0
"""The longest that a pod is left alone whose evictions fail, if looks are not further apart."""

_STAYED = "the API server said that it was evicted, but it is there as before: a webhook may have kept it"

OnNodes = Mapping[str, Sequence[Pod]]


class Latest(Struct, frozen=True):
    """The latest look at a pool: its time, its plan, and the outcomes of its moves so far, by the pods' UIDs.

    `at` 0: it has not been looked at yet. `due` is the time of the next look. `going` are the decisions about pods that
    were told to leave, which the plan may not name any more.
    """

    at: float = 0.0
    due: float = 0.0
    plan: MovesPlan = MovesPlan()
    outcomes: Mapping[str, PodOutcome] = {}
    going: Mapping[str, MoveDecision] = {}


class _Failures(Struct, frozen=True, gc=False):
    """How many evictions of a pod failed in a row, and what follows from that."""

    count: int
    now: Failing


class _Departure(Struct, frozen=True):
    """A pod as it was when it was told to leave, the decision with its target node, and what came of it."""

    pod: Pod
    decision: MoveDecision
    outcome: PodOutcome
    before: Comebacks | None = None
    """What had come back to its node before."""
    failures: _Failures | None = None
    """How its evictions before this one failed."""

    @property
    def at(self) -> float:
        return self.outcome.at


class PoolHistory:
    """What is remembered of one pool."""

    def __init__(self, policy: PoolPolicy, begun: float) -> None:
        self.policy, self.due = policy, begun
        self.looks: deque[Look] = deque()
        self.reported = LastReported()
        self._moved: deque[Moved] = deque()
        self._labelled: dict[str, float] = {}
        self._earlier_labels: dict[str, tuple[Mapping[str, str], ...]] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: OnNodes = {}
        self._last_look, self._plan = 0.0, MovesPlan()
        self._outcomes: dict[str, PodOutcome] = {}
        self._departures: dict[str, _Departure] = {}
        self._comebacks: dict[tuple[str, str], Comebacks] = {}
        self._failing: dict[str, _Failures] = {}
        self._outdated: dict[str, int] = {}
        """How often in a row the eviction of a pod was only to be judged anew, by UID."""
        self._rejecting: dict[tuple[str, str], float] = {}

    def edited(self, policy: PoolPolicy, now: float) -> "PoolHistory":
        """The history under an edited policy: its looks and moves begin anew, what was seen of nodes stays."""
        history = PoolHistory(policy, now)
        history._nodes, history._pods = self._nodes, self._pods
        history._labelled, history._earlier_labels = self._labelled, self._earlier_labels
        history._rejecting = self._rejecting
        return history

    def note(self, nodes: Sequence[Node], pods: OnNodes, now: float, keys: frozenset[str] = frozenset()) -> bool:
        """Take in the nodes and their pods; whether one came, went, or changed its labels, annotations, taints or
        readiness, or one of these pods has failed. `keys`: the labels that strategies name."""
        previous, self._nodes = self._nodes, {node.name: node for node in nodes}
        changed = previous.keys() - self._nodes.keys()
        for name, node in self._nodes.items():
            old = previous.get(name)
            if old is node:
                continue
            if old is None or old.labels != node.labels:
                self._labelled[name] = now
            if old is not None and old.labels != node.labels:
                self._keep_labels(old.labels, node, keys)
            if old is None or _placement_state(old) != _placement_state(node):
                changed.add(name)
        for name in previous.keys() - self._nodes.keys():
            self._labelled.pop(name, None)
        if changed:
            self._comebacks = {key: found for key, found in self._comebacks.items() if key[1] not in changed}
        before, self._pods = self._pods, {node.name: pods.get(node.name, ()) for node in nodes}
        return bool(changed) or any(
            current is not before[name] and one_failed(before[name], current)
            for name, current in self._pods.items()
            if name in before
        )

    def _keep_labels(self, before: Mapping[str, str], node: Node, keys: frozenset[str]) -> None:
        """Keep the labels that a node had `before`, for the pods that were there then, if labels changed that these
        bindings or strategies name. Being kept by pod, not by time, this stays true over a gap between looks."""
        there = self._pods.get(node.name, ())
        named = keys.union(*(_keys_of_binding(pod) for pod in there))
        if all(before.get(key) == node.labels.get(key) for key in named):
            return
        for pod in there:
            earlier = [labels for labels in self._earlier_labels.get(pod.uid, ()) if labels != before]
            self._earlier_labels[pod.uid] = (*earlier, before)[-EARLIER:]

    def look(self, look: Look, most: int) -> None:
        """Remember what nodes use; at most `most` looks are kept.

        A look that an event brings before its time is not remembered, so that a count of looks means a span of time.
        After a while without looks (another daemon led) the earlier ones are forgotten.
        """
        every = self.policy.moves.every
        since = look.at - self.looks[-1].at if self.looks else every
        if since < every / 2:
            return
        if since > every * MISSED:
            self.looks.clear()
        self.looks.append(look)
        while len(self.looks) > most:
            self.looks.popleft()

    def rejected(self, moves: Iterable[Underway], now: float) -> None:
        """Take in which nodes' kubelets did not start copies of evicted pods."""
        rejected = {(move.uid, name) for move in moves for name in move.rejected_by}
        noted = {key: at for key, at in self._rejecting.items() if key in rejected or now - at <= REJECTING}
        self._rejecting = {**dict.fromkeys(rejected, now), **noted}  # a move counts once, however long it lasts

    def past(self, now: float) -> PoolPast:
        while self._moved and self._moved[0].at < now - REMEMBERED:
            self._moved.popleft()
        refused = {uid: outcome.at for uid, outcome in self._outcomes.items() if self.was_refused(uid)}
        self._comebacks = {
            key: comebacks
            for key, comebacks in self._comebacks.items()
            if now - comebacks.last < (RETURNED if comebacks.count else REMEMBERED)
        }
        failing = {uid: failures.now for uid, failures in self._failing.items()}
        if self._earlier_labels:
            present = {pod.uid for pods in self._pods.values() for pod in pods}
            self._earlier_labels = {uid: sets for uid, sets in self._earlier_labels.items() if uid in present}
        return PoolPast(
            tuple(self.looks),
            tuple(self._moved),
            self._labelled,
            refused,
            self._comebacks,
            failing,
            frozenset(name for (_, name), at in self._rejecting.items() if now - at <= REJECTING),
            self._earlier_labels,
        )

    def was_refused(self, uid: str) -> bool:
        """Whether a pod was not let through when it was last told to go: why holds until it is told to go again."""
        outcome = self._outcomes.get(uid)
        return outcome is not None and outcome.result == "refused"

    def planned(self, plan: MovesPlan, now: float) -> None:
        self._last_look, self._plan = now, plan
        planned_uids = {decision.uid for decision in plan.decisions}
        self._outcomes = {uid: outcome for uid, outcome in self._outcomes.items() if uid in planned_uids}

    def latest(self) -> Latest:
        going = {uid: departure.decision for uid, departure in self._departures.items()}
        return Latest(self._last_look, self.due, self._plan, dict(self._outcomes), going)

    def did(self, decision: MoveDecision, action: Evict, pod: Pod | None, outcome: PodOutcome) -> bool:
        """Take in the outcome of a move; whether it is news: not where it failed as it did at the look before. `pod` is
        the pod as it was, None where it was not seen."""
        previous, self._outcomes[decision.uid] = self._outcomes.get(decision.uid), outcome
        failures = self._failing.pop(decision.uid, None)
        times = self._outdated.pop(decision.uid, 0)
        if outcome.reason == OUTDATED:
            self._outdated[decision.uid] = times + 1
        if outcome.result == "failed" or outcome.code >= 500:  # of several budgets the server says so
            self._failing[decision.uid] = _with_failure(failures, outcome, self.policy.moves.every)
        if outcome.result == "done":
            key = action.owner or decision.pod.full_name
            self._moved.append(Moved(outcome.at, key, decision.node))
            before = self._comebacks.get((key, decision.node))
            self._comebacks[key, decision.node] = _with_move(before, pod, outcome.at)
            if pod is not None:
                self._departures[decision.uid] = _Departure(pod, decision, outcome, before, failures)
        if outcome.result == "done" or previous is None:
            return True
        return (previous.result, previous.code, previous.reason) != (outcome.result, outcome.code, outcome.reason)

    @property
    def failing(self) -> int:
        """How many pods that should leave could not be evicted when that was last tried, or before one of which it is
        not known yet whether the pod goes; also where the API server takes too long each time."""
        now, every = self._last_look, self.policy.moves.every
        wanted = {decision.uid for decision in self._plan.decisions}
        wanted |= {uid for uid, failures in self._failing.items() if now <= failures.now.until + every}
        outdated = {uid for uid, times in self._outdated.items() if times >= OFTEN}
        tried_again = {
            uid
            for uid, departure in self._departures.items()
            if departure.failures is not None and now < departure.at + SHOWN and departure.outcome.message != BEGUN
        }
        return len((self._failing.keys() | outdated) & wanted | tried_again)

    def take_back(self, uid: str) -> None:
        """Take back the move of a pod that stays though it was told to leave."""
        departure, outcome = self._departures.pop(uid, None), self._outcomes.get(uid)
        if departure is not None:
            move = Moved(departure.at, whose(departure.pod), departure.decision.node)
            self._moved = deque(earlier for earlier in self._moved if earlier != move)
            self._comebacks.pop((move.whose, move.node), None)
            if departure.before is not None:
                self._comebacks[move.whose, move.node] = departure.before
        if outcome is not None and outcome.result == "done":
            message = "another was made first, in vain"
            self._outcomes[uid] = replace(outcome, result="refused", reason=TAKEN_BACK, message=message)

    def stayed(self, on_nodes: OnNodes, now: float) -> list[PodOutcome]:
        """Take in which evicted pods are on their nodes as before once the cluster must show their end: these evictions
        failed, whatever the answer was. Returns their outcomes."""
        failed = []
        for uid, departure in list(self._departures.items()):
            pod = _pod_on_node(departure, on_nodes)
            answer = departure.outcome
            if answer.reason or answer.message == BEGUN or now < departure.at + SHOWN or pod is None or pod.deleted:
                continue
            self.take_back(uid)
            outcome = replace(departure.outcome, at=now, result="failed", reason=STAYED, message=_STAYED)
            self._outcomes[uid] = outcome
            self._failing[uid] = _with_failure(departure.failures, outcome, self.policy.moves.every)
            failed.append(outcome)
        return failed

    def begun(self, now: float) -> list[tuple[str, str]]:
        """The pods evicted recently, and their nodes: the cluster may not show it yet."""
        return [
            (uid, departure.decision.node) for uid, departure in self._departures.items() if now < departure.at + SHOWN
        ]

    def leaving(self, on_nodes: OnNodes) -> list[Underway]:
        """The pods that were told to leave and have not ended yet."""
        departures = ((_pod_on_node(departure, on_nodes), departure) for departure in self._departures.values())
        return [
            Underway(pod.ref, pod.uid, "evicted", "leaving", departure.at, pod.node, why=departure.decision.reason)
            for pod, departure in departures
            if pod is not None and pod.deleted
        ]

    def forget(self, on_nodes: OnNodes, now: float) -> None:
        """Forget pods that have gone, once the cluster must show it."""
        self._departures = {
            uid: departure
            for uid, departure in self._departures.items()
            if now < departure.at + SHOWN or _pod_on_node(departure, on_nodes) is not None
        }
        if self._failing or self._outdated:
            present = {pod.uid for pods in on_nodes.values() for pod in pods}
            self._failing = {
                uid: failures
                for uid, failures in self._failing.items()
                if uid in present and now < failures.now.until + PAUSE
            }
            self._outdated = {uid: times for uid, times in self._outdated.items() if uid in present}


def _with_move(before: Comebacks | None, pod: Pod | None, at: float) -> Comebacks:
    """What has come back to a node once a pod is moved from there. Where none came back for long, it starts over."""
    if before is None:
        return Comebacks(at, at)
    if pod is not None and before.may_include(pod):
        return Comebacks(before.first, at, before.count + 1)
    return Comebacks(at, at) if at > before.last + PUT_BACK else Comebacks(before.first, at, before.count)


def _with_failure(before: _Failures | None, outcome: PodOutcome, every: float) -> _Failures:
    """After another failure: the first look after the first one may try again."""
    count = before.count if before else 0
    until = outcome.at + Backoff(every, max(PAUSE, every)).delay(count)
    return _Failures(count + 1, Failing(until, outcome.message))


def _pod_on_node(departure: _Departure, on_nodes: OnNodes) -> Pod | None:
    """The pod as it is now; None where it is no longer on its node."""
    return next((pod for pod in on_nodes.get(departure.pod.node, ()) if pod.uid == departure.pod.uid), None)


def _keys_of_binding(pod: Pod) -> frozenset[str]:
    """The labels that a pod's own binding names; none where it cannot be read."""
    try:
        binding = binding_of(pod)
    except ValueError:
        return frozenset()
    return frozenset(rule.key for rule in binding.expressions) if binding else frozenset()


def _placement_state(node: Node) -> tuple[object, ...]:
    return (node.labels, node.ready, node.unschedulable, node.taints, node.annotations)
