"""Reads from the journal what happened to a pod, and which pods are held back; no daemon need run.

Knows the journal's records and which of them belong together; knows nothing of how they are shown.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from elasticd.journal import Record, read_back
from elasticd.model.moves import GONE, LEAVING, MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.workload import Ref

EARLIER = 3600.0
"""Seconds before it was last placed for which it is told of a pod why it waits again."""


class Story(Struct, frozen=True):
    """The newest that was decided about a pod, and what came of it so far, in order.

    `moving` is newer than `placing`: where a pod was placed since, what was said of a move before is about another of
    its name. `gave_way` is the last time that it was evicted for another pod.
    """

    placing: PodDecision | None = None
    placed: tuple[PodOutcome, ...] = ()
    moving: MoveDecision | None = None
    moved: tuple[PodOutcome, ...] = ()
    wanted: float | None = None
    """Since when the same has been decided: a move that is held back is decided again when the pod goes at last."""
    gone: float | None = None
    """When it was seen to have left the node that it was to leave; None too where it gave way meanwhile."""
    gave_way: PodOutcome | None = None
    others: frozenset[str] = frozenset()
    """Other policies that have decided something about it, where it was asked for one's alone."""

    @property
    def empty(self) -> bool:
        """Whether nothing is said of it."""
        return self.placing is None and self.moving is None and self.gave_way is None

    @property
    def uid(self) -> str:
        """The UID of the pod that it is about, as far as it is known."""
        newest = self.moving or self.placing
        return newest.uid if newest else ""


def story(folder: Path, pod: str, policy: str | None = None) -> Story:
    """The story of a pod, NAMESPACE/NAME; of one policy alone, if that is named."""
    reader = _PodReader(*pod.split("/"))
    for record in read_back(folder, containing=msgspec.json.encode(reader.name)):
        if reader.done(record):
            break
        if isinstance(record, PodDecision | PodOutcome | MoveDecision):
            reader.take(record, policy)
    return reader.story()


class _PodReader:
    """Collects the records about a pod, the newest first."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        self._placing: PodDecision | None = None
        self._moving: MoveDecision | None = None
        self._wanted: float | None = None
        self._differed = False
        self._outcomes: list[PodOutcome] = []
        self._gone: float | None = None
        self._gave_way: PodOutcome | None = None
        self._others: set[str] = set()

    def done(self, record: Record) -> bool:
        """Whether this record and all older ones are too old to matter."""
        return self._placing is not None and record.at < self._placing.at - EARLIER

    def take(self, record: PodDecision | PodOutcome | MoveDecision, policy: str | None) -> None:
        """Keep a record, if it is about the pod."""
        about = record.about if isinstance(record, PodOutcome) else record.pod
        if not (self._is(record.pod) or self._is(about)):
            return
        if policy not in (None, record.policy):
            self._others.add(record.policy)
            return
        match record:
            case PodOutcome() if not self._is(record.pod):
                self._note_eviction(record)
            case PodOutcome():
                self._outcomes.append(record)
            case PodDecision() if self._placing is None:
                self._placing = record
            case MoveDecision() if self._placing is None:
                self._note_move(record)
            case _:
                pass

    def _note_move(self, decision: MoveDecision) -> None:
        """Keep a decision about a move. That a pod is leaving, or has left, does not say why: an older record does."""
        if decision.refusal == LEAVING or self._differed:
            return
        if decision.reason == GONE:
            self._differed = self._moving is not None
            self._gone = decision.at if self._gone is None and self._moving is None else self._gone
        elif self._moving is None or _says(decision) == _says(self._moving):
            self._moving, self._wanted = self._moving or decision, decision.at
        else:
            self._differed = True

    def _is(self, pod: Ref) -> bool:
        return (pod.namespace, pod.name) == (self.namespace, self.name)

    def _note_eviction(self, outcome: PodOutcome) -> None:
        """Keep the last time that it was evicted for another pod."""
        if self._gave_way is None and outcome.result == "done" and outcome.action == "evict":
            self._gave_way = outcome

    def _gave_way_first(self, since: float) -> bool:
        """Whether it was evicted for another pod since then, and seen to be gone only after that."""
        return self._gave_way is not None and self._gone is not None and since <= self._gave_way.at <= self._gone

    def story(self) -> Story:
        """The story that the records tell."""
        placing, moving = self._placing, self._moving
        outcomes = self._outcomes[::-1]
        return Story(
            placing,
            tuple([outcome for outcome in outcomes if placing and outcome.decision == placing.id]),
            moving,
            tuple(
                [
                    outcome
                    for outcome in outcomes
                    if moving and _concerns(outcome, moving) and outcome.at >= (self._wanted or 0.0)
                ]
            ),
            self._wanted,
            None if moving is None or self._gave_way_first(moving.at) else self._gone,
            self._gave_way,
            frozenset(self._others),
        )


def came_of(outcome: PodOutcome, decision: MoveDecision) -> bool:
    """Whether an outcome belongs to a move. A decision is recorded once, and attempted at every look."""
    return outcome.at >= decision.at and _concerns(outcome, decision)


def _concerns(outcome: PodOutcome, decision: MoveDecision) -> bool:
    """Whether it is about a move of the same pod by the same policy."""
    mine = (outcome.policy, outcome.pod, outcome.about) == (decision.policy, decision.pod, decision.pod)
    return mine and outcome.action in ("evict", "surge")


def _says(decision: MoveDecision) -> tuple[object, ...]:
    """The fields whose change makes a decision a new one."""
    return decision.policy, decision.uid, decision.verdict, decision.strategy, decision.reason, decision.node


class Held(Struct, frozen=True):
    """A pod that a policy wants moved, and that stays. `reason` is one word for why, `why` a sentence."""

    decision: MoveDecision
    reason: str
    why: str = ""
    at: float = 0.0


def held(folder: Path) -> list[Held]:
    """All pods whose last decision is to move but which stay, by policy, reason and name."""
    newest: dict[tuple[str, object], MoveDecision] = {}
    for record in read_back(folder, containing=b'"type":"moving"'):
        if isinstance(record, MoveDecision):
            newest.setdefault((record.policy, record.pod), record)
    standing = {
        key: decision for key, decision in newest.items() if decision.verdict != "over" and decision.refusal != LEAVING
    }
    held_back = list(_held_back(standing, folder))
    return sorted(held_back, key=lambda entry: (entry.decision.policy, entry.reason, entry.decision.pod))


def _held_back(standing: dict[tuple[str, object], MoveDecision], folder: Path) -> Iterator[Held]:
    moves = {
        key: decision for key, decision in standing.items() if decision.verdict == "move" and decision.mode == "act"
    }
    for key, decision in standing.items():
        if decision.verdict == "refuse":
            yield Held(decision, decision.refusal, decision.message, decision.at)
        elif key not in moves:
            yield Held(decision, "Observe", 'mode is "observe": nothing is moved', decision.at)
    for outcome in _last_outcomes(moves, folder):
        if outcome.result != "done":
            yield Held(moves[outcome.policy, outcome.pod], outcome.reason, outcome.message, outcome.at)


def _last_outcomes(moves: dict[tuple[str, object], MoveDecision], folder: Path) -> Iterator[PodOutcome]:
    """The last outcome of each of these moves, if there is one."""
    unanswered = dict(moves)
    oldest = min((decision.at for decision in unanswered.values()), default=0.0)
    for record in read_back(folder, containing=b'"type":"placed"') if unanswered else ():
        if record.at < oldest or not unanswered:
            return
        if not isinstance(record, PodOutcome):
            continue
        decision = unanswered.get((record.policy, record.pod))
        if decision is not None and came_of(record, decision):
            del unanswered[record.policy, record.pod]
            yield record
