"""What the journal says: the newest decisions about workloads and pods, and the pods that are held back.

No daemon need run. Knows the journal's records and which of them belong together; knows nothing of how they are shown.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import dropwhile, takewhile
from math import inf
from pathlib import Path

import msgspec

from elasticd.journal import DECISIONS, read_back
from elasticd.model.moves import GONE, LEAVING, MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision, Outcome
from elasticd.model.reports import Held, HistoryRow, PodReport
from elasticd.model.workload import Ref

EARLIER = 3600.0
"""Seconds before a pod was last placed for which records about it are read: they say why it waits again."""

PodRecord = PodDecision | MoveDecision | PodOutcome
_Key = tuple[str, Ref]


def latest(
    folder: Path, parts: Sequence[str], policy: str | None, at: float = inf
) -> tuple[Decision | None, Outcome | None]:
    """The newest decision about a workload up to a time, and the outcome of its action if there is one already."""
    return next((pair for pair in decided(folder, parts, policy) if pair[0].at <= at), (None, None))


def decided(
    folder: Path, parts: Sequence[str], policy: str | None = None, enough: Callable[[], bool] = lambda: False
) -> Iterator[tuple[Decision, Outcome | None]]:
    """The decisions about a workload, newest first, each with the outcome of its action if there is one. No older file
    is begun once it is `enough`."""
    outcomes: dict[str, Outcome] = {}
    for record in read_back(folder, msgspec.json.encode(parts[2]), enough):
        if not isinstance(record, Decision | Outcome):
            continue
        ref = record.workload
        if [ref.namespace, ref.kind, ref.name] != [*parts] or policy not in (None, record.policy):
            continue
        if isinstance(record, Decision):
            yield record, outcomes.pop(record.id, None)
        else:
            outcomes[record.decision] = record


def history(
    folder: Path, parts: Sequence[str], policy: str | None = None, begin: float = -inf, end: float = inf
) -> list[HistoryRow]:
    """What was decided about a workload between two times, oldest first. Decisions of a policy in a row that say the
    same share a row."""
    pairs = takewhile(lambda pair: pair[0].at >= begin, decided(folder, parts, policy))
    return in_rows(pair for pair in pairs if pair[0].at <= end)


def in_rows(pairs: Iterable[tuple[Decision, Outcome | None]]) -> list[HistoryRow]:
    """Decisions with their outcomes, given newest first, as rows, oldest first."""
    rows: list[HistoryRow] = []
    open_rows: dict[str, int] = {}
    for decision, outcome in pairs:
        index = open_rows.get(decision.policy)
        later = None if index is None else rows[index]
        row = HistoryRow(decision, outcome, decision.at)
        if later is None or _says(later) != _says(row):
            open_rows[decision.policy] = len(rows)
            rows.append(row)
        elif index is not None:
            rows[index] = HistoryRow(decision, outcome, later.until, later.decisions + 1)
    return sorted(rows, key=lambda row: row.decision.at)


def _says(row: HistoryRow) -> tuple[object, ...]:
    """What is news of a decision. A change of the count always is."""
    decision, outcome = row.decision, row.outcome
    does = decision.id if decision.verdict == "scale" and decision.mode == "act" else ""
    result = outcome and (outcome.result, outcome.reason)
    return decision.mode, decision.verdict, decision.reason, decision.current, decision.replicas, does, result


def latest_of_all(folder: Path) -> list[Decision]:
    """The newest decision about every workload."""
    newest: dict[_Key, Decision] = {}
    for record in read_back(folder, containing=DECISIONS):
        if isinstance(record, Decision):
            newest.setdefault((record.policy, record.workload), record)
    return [newest[key] for key in sorted(newest, key=str)]


def workloads(folder: Path) -> set[str]:
    """The workloads that there are decisions about, as NAMESPACE/KIND/NAME."""
    return {str(decision.workload) for decision in latest_of_all(folder)}


def pods(folder: Path) -> set[str]:
    """The pods that there are decisions about, as NAMESPACE/NAME."""
    records = read_back(folder, containing=b'"type":"placing"')
    return {record.pod.full_name for record in records if isinstance(record, PodDecision)}


def pod_report(folder: Path, pod: str, policy: str | None = None) -> PodReport:
    """What was decided about a pod, NAMESPACE/NAME, and what came of it; by one policy alone, if that is named."""
    records = list(_records_about(folder, pod, policy))
    own = [record for record in records if policy in (None, record.policy)]
    placing = next((record for record in own if isinstance(record, PodDecision)), None)
    # That a pod is leaving, or has left, does not say why: an older record does.
    newer = takewhile(lambda record: record is not placing, own)
    moves = [record for record in newer if isinstance(record, MoveDecision) and record.refusal != LEAVING]
    wanted = list(dropwhile(lambda move: move.reason == GONE, moves))
    moving = wanted[0] if wanted else None
    since = [move.at for move in takewhile(lambda move: _substance(move) == _substance(wanted[0]), wanted)][-1:]
    outcomes = [record for record in reversed(own) if isinstance(record, PodOutcome) and record.pod.full_name == pod]
    gave_way = next((record for record in own if isinstance(record, PodOutcome) and _gives_way(record, pod)), None)
    return PodReport(
        decision=placing,
        outcomes=tuple([outcome for outcome in outcomes if placing and outcome.decision == placing.id]),
        moving=moving,
        moved=tuple([outcome for outcome in outcomes if moving and _came_of(outcome, moving, since[0])]),
        gave_way=gave_way,
        since=since[0] if since else None,
        gone=_departure(moves, moving, gave_way),
        others=frozenset(record.policy for record in records if record.policy != policy and policy is not None),
    )


def _records_about(folder: Path, pod: str, policy: str | None) -> Iterator[PodRecord]:
    """The records about a pod, the newest first, until some time before the policy last placed it."""
    oldest = -inf
    for record in read_back(folder, containing=msgspec.json.encode(pod.partition("/")[2])):
        if record.at < oldest:
            return
        if isinstance(record, PodRecord) and pod in (record.pod.full_name, _about(record).full_name):
            if isinstance(record, PodDecision) and policy in (None, record.policy):
                oldest = max(oldest, record.at - EARLIER)
            yield record


def _about(record: PodRecord) -> Ref:
    return record.about if isinstance(record, PodOutcome) else record.pod


def _gives_way(outcome: PodOutcome, pod: str) -> bool:
    return outcome.pod.full_name != pod and (outcome.action, outcome.result) == ("evict", "done")


def _departure(moves: Sequence[MoveDecision], moving: MoveDecision | None, gave_way: PodOutcome | None) -> float | None:
    """When a pod was seen to have left its node; None where it was preempted for another meanwhile."""
    if moving is None or moves[0].reason != GONE:
        return None
    evicted = gave_way is not None and moving.at <= gave_way.at <= moves[0].at
    return None if evicted else moves[0].at


def _came_of(outcome: PodOutcome, decision: MoveDecision, since: float) -> bool:
    """Whether an outcome belongs to a move that has been wanted since then. A decision is recorded once, and attempted
    at every look."""
    own = (outcome.policy, outcome.pod, outcome.about) == (decision.policy, decision.pod, decision.pod)
    return own and outcome.action in ("evict", "surge") and outcome.at >= since


def _substance(decision: MoveDecision) -> tuple[object, ...]:
    """The fields whose change makes a decision a new one."""
    return decision.policy, decision.uid, decision.verdict, decision.strategy, decision.reason, decision.node


def held(folder: Path) -> list[Held]:
    """All pods whose last decision is to move but which stay, by policy, reason and name."""
    newest: dict[_Key, MoveDecision] = {}
    for record in read_back(folder, containing=b'"type":"moving"'):
        if isinstance(record, MoveDecision):
            newest.setdefault((record.policy, record.pod), record)
    unfinished = [move for move in newest.values() if move.verdict != "over" and move.refusal != LEAVING]
    outcomes = _last_outcomes(folder, [move for move in unfinished if move.acts])
    held_back = filter(None, (_held(move, outcomes.get((move.policy, move.pod))) for move in unfinished))
    return sorted(held_back, key=lambda entry: (entry.decision.policy, entry.reason, entry.decision.pod))


def _held(decision: MoveDecision, outcome: PodOutcome | None) -> Held | None:
    if decision.verdict == "refuse":
        return Held(decision, decision.refusal, decision.message, decision.at)
    if decision.mode == "observe":
        return Held(decision, "Observe", 'mode is "observe": nothing is moved', decision.at)
    if outcome is None or outcome.result == "done":
        return None
    return Held(decision, outcome.reason, outcome.message, outcome.at)


def _last_outcomes(folder: Path, decisions: Sequence[MoveDecision]) -> dict[_Key, PodOutcome]:
    moves = {(decision.policy, decision.pod): decision for decision in decisions}
    outcomes: dict[_Key, PodOutcome] = {}
    oldest = min((decision.at for decision in decisions), default=inf)
    for record in read_back(folder, containing=b'"type":"placed"') if moves else ():
        if record.at < oldest or len(outcomes) == len(moves):
            break
        decision = moves.get((record.policy, record.pod)) if isinstance(record, PodOutcome) else None
        if isinstance(record, PodOutcome) and decision and _came_of(record, decision, decision.at):
            outcomes.setdefault((record.policy, record.pod), record)
    return outcomes
