"""What is remembered of a pool whose pods are moved: its looks, its moves, and the rooms that are promised.

Knows nodes as they were and what was done; knows no strategy, and nothing of when a pool is looked at.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from elasticd.kit.evictability import one_failed
from elasticd.kit.node_table import NodeTable
from elasticd.model.actions import Evict
from elasticd.model.moves import TAKEN_BACK, Look, Moved, MoveDecision, MovesPlan, PoolPast, Underway, whose
from elasticd.model.placement import PodOutcome
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Node, Pod

REMEMBERED = 3600.0
"""Seconds for which a move is remembered."""

MISSED = 3.0
"""So many times the time between two looks without one, and those before are of another time."""

PROMISED = 30.0
"""Seconds for which the room is kept that a moved pod was thought to take, while nothing is seen to have taken it."""

OnNodes = Mapping[str, Sequence[Pod]]


class Latest(Struct, frozen=True):
    """The latest look at a pool: when, what came of it, and what has come of its moves so far, by the pods' UIDs; and
    when the next is due. `at` 0: it has not been looked at yet. `going`: what was decided of pods that were told to go,
    of whom a look may say nothing any more."""

    at: float = 0.0
    due: float = 0.0
    plan: MovesPlan = MovesPlan()
    outcomes: Mapping[str, PodOutcome] = {}
    going: Mapping[str, MoveDecision] = {}


class _Going(Struct, frozen=True):
    """A pod that was told to go, as it was, where it is thought to go, and when."""

    pod: Pod
    decision: MoveDecision
    at: float
    use: Mapping[str, float] = {}
    """What it used, by series, as far as it was known."""

    def arrived(self, pod: Pod) -> bool:
        """Whether this is it, or what its controller made in its place. An API server tells creation in whole
        seconds."""
        if self.pod.owner[2]:
            return pod.uid == self.pod.uid or (pod.owner[2] == self.pod.owner[2] and pod.created >= self.at - 1.0)
        return (pod.namespace, pod.name) == (self.pod.namespace, self.pod.name)


class PoolHistory:
    """What is remembered of one pool."""

    def __init__(self, policy: PoolPolicy, begun: float) -> None:
        self.policy, self.due = policy, begun
        self.looks: deque[Look] = deque()
        self.told: dict[str, tuple[object, ...]] = {}
        self.waits = False
        """Whether a source is waited for."""
        self._moved: deque[Moved] = deque()
        self._labelled: dict[str, float] = {}
        self._seen: dict[str, Node] = {}
        self._pods: OnNodes = {}
        self._looked, self._plan = 0.0, MovesPlan()
        self._outcomes: dict[str, PodOutcome] = {}
        self._going: dict[str, _Going] = {}

    def note(self, nodes: Sequence[Node], now: float) -> bool:
        """See the nodes; whether one came, went, changed its labels or taints, or is ready no more or again."""
        before, self._seen = self._seen, {node.name: node for node in nodes}
        changed = before.keys() != self._seen.keys()
        for name, node in self._seen.items():
            old = before.get(name)
            if old is node:
                continue
            if old is None or old.labels != node.labels:
                self._labelled[name] = now
            changed = changed or old is None or _state(old) != _state(node)
        for name in before.keys() - self._seen.keys():
            self._labelled.pop(name, None)
        return changed

    def failed(self, nodes: Sequence[Node], pods: OnNodes) -> bool:
        """See the pods on these nodes; whether one of them has failed."""
        before, self._pods = self._pods, {node.name: pods.get(node.name, ()) for node in nodes}
        return any(
            there is not before[name] and one_failed(before[name], there)
            for name, there in self._pods.items()
            if name in before
        )

    def look(self, look: Look, most: int) -> None:
        """Remember what nodes use, as far as so many looks back.

        What happens to nodes comes in rows: a look that it brings between two in their time is not remembered, so that
        so many looks in a row mean so much time. After a while without any (another daemon led) the row begins anew.
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

    def past(self, now: float) -> PoolPast:
        """As strategies see it."""
        while self._moved and self._moved[0].at < now - REMEMBERED:
            self._moved.popleft()
        refused = frozenset(uid for uid, one in self._outcomes.items() if one.result == "refused")
        return PoolPast(tuple(self.looks), tuple(self._moved), self._labelled, refused)

    def planned(self, plan: MovesPlan, now: float) -> None:
        """This came of a look."""
        self._looked, self._plan = now, plan
        wanted = {decision.uid for decision in plan.decisions}
        self._outcomes = {uid: one for uid, one in self._outcomes.items() if uid in wanted}

    def latest(self) -> Latest:
        """The latest look."""
        going = {uid: one.decision for uid, one in self._going.items()}
        return Latest(self._looked, self.due, self._plan, dict(self._outcomes), going)

    def did(
        self,
        decision: MoveDecision,
        action: Evict,
        pod: Pod | None,
        outcome: PodOutcome,
        use: Mapping[str, float] | None = None,
    ) -> bool:
        """A pod was told to go, or was not; `pod` is it as it was, if it was there, and `use` what it used. Whether
        that is to be told: not where it was not done for the reason of the look before."""
        before, self._outcomes[decision.uid] = self._outcomes.get(decision.uid), outcome
        if outcome.result == "done":
            key = action.owner or f"{decision.pod.namespace}/{decision.pod.name}"
            self._moved.append(Moved(outcome.at, key, decision.node))
            if pod is not None:
                self._going[decision.uid] = _Going(pod, decision, outcome.at, use or {})
        return outcome.result == "done" or before is None or _why(before) != _why(outcome)

    def stayed(self, uid: str) -> None:
        """A pod that was told to go does not: what was begun is taken back."""
        going, outcome = self._going.pop(uid, None), self._outcomes.get(uid)
        if going is not None:
            move = Moved(going.at, whose(going.pod), going.decision.node)
            self._moved = deque(one for one in self._moved if one != move)
        if outcome is not None and outcome.result == "done":
            told = "another was made first, in vain"
            self._outcomes[uid] = replace(outcome, result="refused", reason=TAKEN_BACK, message=told)

    def begun(self, now: float) -> list[tuple[str, str]]:
        """The pods that were told to go of late, and their nodes: it may not be seen yet."""
        return [(uid, one.decision.node) for uid, one in self._going.items() if now < one.at + PROMISED]

    def promise(self, columns: NodeTable, now: float) -> None:
        """Keep the rooms that pods were thought to take which were told to go of late, until something took them:
        nobody else may be sent there meanwhile."""
        taken: set[str] = set()
        for uid, going in self._going.items():
            index = columns.index(going.decision.target)
            late = now >= going.at + PROMISED and going.pod.owner[2]  # one without a controller comes when it has gone
            if index is None or late:
                continue
            there = next((one for one in columns.pods(index) if one.uid not in taken and going.arrived(one)), None)
            if there is None:
                # As one that leaves: it takes its room, and nobody asks it to go on.
                columns.take(index, replace(going.pod, node=going.decision.target, deleted=True), going.use)
            taken.add(uid if there is None else there.uid)

    def leaving(self, on_nodes: OnNodes) -> list[Underway]:
        """The pods that were told to go and take their time to end."""
        found = ((_there(going, on_nodes), going) for going in self._going.values())
        return [
            Underway(pod.ref, pod.uid, "evicted", "leaving", going.at, pod.node, why=going.decision.reason)
            for pod, going in found
            if pod is not None and pod.deleted
        ]

    def forget(self, on_nodes: OnNodes, now: float) -> None:
        """Let go of those that have gone, when nobody waits any more for what comes in their place."""
        self._going = {
            uid: going
            for uid, going in self._going.items()
            if now < going.at + PROMISED or _there(going, on_nodes) is not None
        }


def _there(going: _Going, on_nodes: OnNodes) -> Pod | None:
    """It as it is now, if it still is on its node."""
    return next((one for one in on_nodes.get(going.pod.node, ()) if one.uid == going.pod.uid), None)


def _why(outcome: PodOutcome) -> tuple[object, ...]:
    return (outcome.result, outcome.code, outcome.reason)


def _state(node: Node) -> tuple[object, ...]:
    return (node.labels, node.ready, node.unschedulable, node.taints, node.annotations)
