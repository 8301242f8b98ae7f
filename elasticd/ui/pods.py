"""Decisions about pods in words: what `explain pod`, `moves` and `run --decisions` print.

Knows the records and the terminal; knows nothing of where a record came from.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.errors import nearest
from elasticd.base.text import counted, last_heard, one_line
from elasticd.kit.surge import BEGUN
from elasticd.model.moves import MoveDecision, Underway
from elasticd.model.placement import NodeScore, PodDecision, PodOutcome
from elasticd.model.reports import Held, PodFound, PodReport, PodStatus, PoolAbout
from elasticd.ui.terminal import add_row, ago, make_table, seconds

_DONE = {
    "bind": "bind to",
    "claim": "bind a claim for",
    "evict": "evict from",
    "nominate": "note node",
    "surge": "make another first, for",
}

_STEPS = frozenset({"Raise", "Raised", "Mark", "Ready", "Lower", "Evict", "Unmark", "TakeBack", "Waiting", "Leaving"})
"""Steps of a move by making another first that are not its end."""

_GOOD, _DOUBT = "bold green", "yellow"

# One line for each record.


def mark(mode: str, *, dry_run: bool = False) -> str:
    """The prefix of a line about something that is not really done; empty in mode act."""
    return "(observe) " if mode == "observe" else "(dry run) " if dry_run else ""


def placing_line(decision: PodDecision, outcomes: Sequence[PodOutcome] = ()) -> str:
    """Where a pod goes, or why it waits, and the outcome unless it simply succeeded."""
    text = _placing(decision)
    if not decision.acts:
        return one_line(text)
    failed = next((outcome for outcome in outcomes if outcome.result != "done"), None)
    return one_line("; ".join(filter(None, (text, _result(failed or (outcomes[-1] if outcomes else None))))))


def _placing(decision: PodDecision) -> str:
    where = {"bind": f"bind to {decision.node}", "preempt": f"make room on {decision.node}"}
    return f"{where.get(decision.verdict, decision.verdict)}: {_why(decision.reason, decision.message)}"


def waiting_line(decision: PodDecision, failed: PodOutcome | None) -> str:
    """Why a pod has no node: the last decision about it, or the last action, if that could not be done."""
    if failed is not None:
        return outcome_line(failed)
    if decision.verdict == "bind" and decision.acts:
        return one_line(f"is being bound to {decision.node}")
    return one_line(f"{mark(decision.mode)}{_placing(decision).removeprefix('wait: ')}")


def moving_line(decision: MoveDecision, outcome: PodOutcome | None = None) -> str:
    """That a pod should leave its node, and what came of that."""
    where = f"{decision.node} for {decision.target}" if decision.target else decision.node
    why = _why(decision.reason, decision.message)
    if not decision.pod.name:
        text = f"nobody is moved: {why}"
    elif decision.verdict == "over":
        text = f"no longer to leave {decision.node}: {why}"
    elif decision.verdict == "refuse":
        stays = _why(decision.refusal, decision.message)
        text = f"should leave {decision.node}: {decision.reason}; stays: {stays}"
    elif not decision.acts:
        text = f"would leave {where}: {why}"
    elif outcome and _left(outcome):
        more = "" if outcome.action == "surge" else _why(outcome.reason, outcome.message)
        text = "; ".join(filter(None, (f"left {where}: {why}", more)))
    else:
        text = f"should leave {where}: {why}; {_result(outcome)}"
    return one_line(text)


def outcome_line(outcome: PodOutcome) -> str:
    """What came of an action."""
    if (outcome.action, outcome.result) == ("surge", "refused"):
        return one_line(f"does not leave {outcome.node} now: {_why(outcome.reason, outcome.message)}")
    if outcome.result != "done":
        return one_line(f"could not {f'{_did(outcome)} {outcome.node}'.rstrip()}: {_result(outcome)}")
    did = "evicted from" if outcome.action == "evict" else _did(outcome)
    return one_line(": ".join(filter(None, (f"{did} {outcome.node}".rstrip(), _result(outcome)))))


def on_the_way(outcome: PodOutcome) -> bool:
    """Whether an outcome is a successful step of a move, with others to come."""
    return outcome.action == "surge" and outcome.result == "done" and outcome.reason in _STEPS


def _left(outcome: PodOutcome) -> bool:
    if outcome.result != "done":
        return False
    return outcome.reason == "Moved" if outcome.action == "surge" else outcome.message != BEGUN


def _result(outcome: PodOutcome | None) -> str:
    """An outcome in a phrase, such as `refused: Blackout, ...`; empty if the action simply worked."""
    if outcome is None:
        return "no answer is recorded"
    why = _why(outcome.reason, outcome.message)
    if outcome.result == "done":
        return why
    about = f" ({outcome.about.full_name})" if outcome.about != outcome.pod else ""
    return f"{outcome.result}{about}: {why}" if why else f"{outcome.result}{about}"


def _did(outcome: PodOutcome) -> str:
    """The action as a phrase that a node's name may follow."""
    taken_away = outcome.action == "nominate" and not outcome.node
    return "take the note of a node away" if taken_away else _DONE[outcome.action]


def _why(reason: str, message: str) -> str:
    return ", ".join(filter(None, (reason, message)))


# What a running daemon knows of a pod, in a clause.


def undecided(name: str, status: PodStatus) -> str:
    """Why nothing was decided about a pod."""
    pod, namespace = status.found, name.split("/", maxsplit=1)[0]
    if not status.fresh:
        return last_heard(status.at, status.confirmed)
    if pod is None:
        problem = "no such pod waits or runs" if status.inhabited else f"no pod is seen in namespace {namespace}"
        return one_line(f"{problem}{status.near}")
    if not status.pools:
        return "no policy in force has a table [pool]"
    if not pod.policy:
        return one_line(_explain_unclaimed(namespace, pod, status.pools))
    if not status.leading:
        why = "and another elasticd leads: ask there"
    elif pod.node:
        why = f"and it runs on {pod.node}: nothing has been decided since"
    else:
        why = "and has yet to look at it"
    return one_line(f"policy {pod.policy} is about it, {why}")


def _explain_unclaimed(namespace: str, pod: PodFound, pools: Sequence[PoolAbout]) -> str:
    same_scheduler = [pool for pool in pools if pool.scheduler == pod.scheduler]
    if not same_scheduler:
        schedulers = sorted({pool.scheduler for pool in pools})
        listed = " and ".join(f'"{scheduler}"' for scheduler in schedulers)
        hint = nearest(pod.scheduler, schedulers) or f", and policies are about pods of {listed}"
        return f'its schedulerName is "{pod.scheduler}"{hint}'
    same_namespace = [pool for pool in same_scheduler if {namespace, "*"} & {*pool.namespaces}]
    if not same_namespace:
        namespaces = "; ".join(f"{pool.policy}: {', '.join(pool.namespaces)}" for pool in same_scheduler)
        return f"no policy is about namespace {namespace} ({namespaces})"
    pairs = [(pool.policy, ", ".join(map("=".join, sorted(pool.labels.items())))) for pool in same_namespace]
    return f"no policy is about pods with its labels ({'; '.join(map(': '.join, pairs))})"


def unclaimed(name: str, status: PodStatus) -> str:
    """Why no policy is about a pod that is there; empty: one is, or it is not known."""
    pod = status.found
    return undecided(name, status) if status.fresh and pod is not None and not (pod.policy or pod.policies) else ""


def place(status: PodStatus, uid: str) -> str:
    """Where the pod is now; `uid` is that of the pod about which something was decided."""
    pod = status.found
    if not status.fresh:
        return f"it is not known where it is: {last_heard(status.at, status.confirmed)}"
    if pod is None:
        return "it is gone: no pod of this name waits or runs"
    another = "another pod of this name " if uid and pod.uid != uid else "it "
    if pod.pretended:
        really = f"still runs on {pod.node}" if pod.node else "still waits for a node"
        where = f" to {pod.seen}" if pod.seen else ""
        return f"in the dry run {another}was {pod.pretended}{where}; in the cluster it {really}"
    if pod.deleted:
        return f"{another}is being deleted{f' on {pod.node}' if pod.node else ''}"
    return f"{another}{f'is on {pod.node}' if pod.node else 'waits for a node'}"


# A pod, and all that was decided about it.


def explain(name: str, report: PodReport, at: float) -> RenderableType:
    """Print what was decided about a pod, the newest first, and where it is."""
    view, sections = _PodView(one_line(name), report, at), list[tuple[float, list[RenderableType]]]()
    if report.gave_way:
        sections.append((report.gave_way.at, view.gave_way(report.gave_way)))
    if report.moving:
        sections.append((report.moving.at, view.moving(report.moving)))
    if decision := report.decision:
        last = all(at <= decision.at for at, _ in sections)
        sections.append((decision.at, view.placing(decision, last=last)))
    sections.sort(key=lambda entry: -entry[0])
    (_, (head, *body)), *older = sections
    return Group(head, view.now(), *body, *(part for _, section in older for part in (Text(), *section)))


class _PodView:
    """A report on a pod at a time, and of what the daemon sees the part that is about the same pod."""

    def __init__(self, name: str, report: PodReport, at: float) -> None:
        self._name, self._report, self._at, self._status = name, report, at, report.seen
        pod = self._status.found if self._status else None
        self._pod = pod if pod and pod.uid == report.uid else None

    def now(self) -> Text:
        if self._status is None:
            return Text(one_line(f"told from the journal alone: {self._report.unseen}"), style="dim")
        why = unclaimed(self._name, self._status)
        text = "; ".join(filter(None, (place(self._status, self._report.uid), why)))
        sure = self._pod is not None and self._status.fresh and not why
        return Text(one_line(f"now: {text}"), style="default" if sure else _DOUBT)

    def placing(self, decision: PodDecision, *, last: bool) -> list[RenderableType]:
        """Where the pod goes, or why it waits, as of the last plan; `last`: nothing newer is known."""
        outcomes, past = self._report.outcomes, self._is_past(decision)
        waits = self._pod is None or not (self._pod.node or self._pod.pretended)
        latest = self._pod.latest if self._pod and waits and not past else None
        if latest and last and _waits_alike(latest, decision):
            decision = replace(latest, at=decision.at, id=decision.id)
        observed = decision.mode == "observe" and decision.verdict in ("bind", "preempt")
        good = observed or (decision.acts and all(outcome.result == "done" for outcome in outcomes))
        line = f"{'before: ' if past and decision.verdict == 'wait' else ''}{placing_line(decision, outcomes)}"
        gone = self._status is not None and self._status.fresh and self._pod is None
        return [
            self._head(decision, latest.at if latest else None, line, good=good),
            *_parts(decision, current=last and waits and not gone and not past),
            Text(),
            *_done(decision, outcomes),
        ]

    def moving(self, decision: MoveDecision) -> list[RenderableType]:
        """Why it should leave its node, and what came of that."""
        outcomes, gone, since = self._report.moved, self._report.gone, self._report.since
        last = outcomes[-1] if outcomes else None
        left, past = last is not None and _left(last), self._is_past(decision)
        looked_at = None
        if self._status and self._pod and decision.verdict != "over" and not past:
            looked_at = next((pool.looked for pool in self._status.pools if pool.policy == decision.policy), None)
        good, line = left or decision.verdict == "over", moving_line(decision, last)
        line = f"before: {line}" if past and not good else line
        if gone is not None and not left:
            line = f"{line}; it has left {one_line(decision.node)} since, {ago(gone, self._at)}"
        first = f", first {ago(since, self._at)}" if since is not None and since < decision.at else ""
        wanted_by = Text(one_line(f"wanted by strategy {decision.strategy}{first}"), style="dim")
        attempts = _attempts(decision, outcomes) if decision.verdict == "move" else []
        return [self._head(decision, looked_at, line, good=good), wanted_by, *attempts]

    def gave_way(self, outcome: PodOutcome) -> list[RenderableType]:
        """For which pod it was evicted."""
        message = f"; {outcome.message}" if outcome.message else ""
        line = f"was preempted for {outcome.pod.full_name} on {outcome.node} {ago(outcome.at, self._at)}{message}"
        head = f"  policy {one_line(outcome.policy)}\n"
        return [Text.assemble((self._name, "bold"), head, (one_line(line), _DOUBT))]

    def _is_past(self, decision: PodDecision | MoveDecision) -> bool:
        """Whether the policy no longer governs the pod, so that its decision is void."""
        return self._pod is not None and decision.policy not in (self._pod.policy, *self._pod.policies)

    def _head(self, decision: PodDecision | MoveDecision, looked_at: float | None, line: str, *, good: bool) -> Text:
        last_look = "" if looked_at is None else f", last looked at {ago(looked_at, self._at)}"
        return Text.assemble(
            (self._name, "bold"),
            f"  policy {one_line(decision.policy)} ({decision.mode}), {ago(decision.at, self._at)}{last_look}\n",
            (f"{mark(decision.mode)}{line}", _GOOD if good else _DOUBT),
        )


def _waits_alike(latest: PodDecision, decision: PodDecision) -> bool:
    """Whether a pod waits for the same reason as before, so that what was found last stands for it."""
    kind = (latest.policy, latest.verdict, latest.reason)
    return decision.verdict == "wait" and kind == (decision.policy, decision.verdict, decision.reason)


def _parts(decision: PodDecision, *, current: bool) -> Iterator[RenderableType]:
    """What a decision was made of, in that order. What would have to change is told as long as that is `current`."""
    fits = decision.nodes - sum(decision.refusals.values())
    yield Text()
    yield Text(f"Nodes: {decision.nodes} in the pool, {max(0, fits)} not refused", style="bold")
    if decision.refusals:
        refusals = sorted(decision.refusals.items(), key=lambda pair: (-pair[1], pair[0]))
        yield make_table("refused", "why", rows=((str(count), reason) for reason, count in refusals))
    if decision.binding:
        yield from (Text(), Text("Bound to nodes with", style="bold"), Text(f"  {one_line(decision.binding)}"))
    if decision.scores:
        yield from (Text(), Text("Scores, the best nodes", style="bold"), _scores(decision.scores))
    for failure in decision.failures:
        yield Text(one_line(f"plugin {failure.plugin}: {failure.hook} {failure.message}"), style="yellow")
    if decision.mend and current:
        yield from (Text(), Text("What would have to change", style="bold"), Text(f"  {one_line(decision.mend)}"))


def _scores(scores: Sequence[NodeScore]) -> Table:
    names = sorted({name for score in scores for name in score.parts})
    table = make_table("node", "score", *names)
    for score in scores:
        values = (score.total, *(score.parts.get(name) for name in names))
        add_row(table, score.node, *("unknown" if value is None else f"{value:.3f}" for value in values))
    return table


def _done(decision: PodDecision | MoveDecision, outcomes: Sequence[PodOutcome]) -> list[RenderableType]:
    if not outcomes:
        untold = {"act": "nothing was done", "observe": "nothing is done: mode = observe"}[decision.mode]
        return [Text(untold, style="dim")]
    table = make_table("done", "pod", "node", "result", "answer", "took")
    for outcome in outcomes:
        answer = " ".join(filter(None, (str(outcome.code or ""), outcome.reason, outcome.message)))
        cells = (_did(outcome), outcome.about.full_name, outcome.node, outcome.result, answer, seconds(outcome.seconds))
        add_row(table, *cells)
    return [table]


def _attempts(decision: MoveDecision, outcomes: Sequence[PodOutcome]) -> list[RenderableType]:
    """The attempts of a move; equal ones in a row are one row, the last."""
    runs = groupby(outcomes, key=lambda outcome: (outcome.action, outcome.result, outcome.reason))
    lasts = [list(run)[-1] for _, run in runs]
    rows, again = _done(decision, lasts), len(outcomes) - len(lasts)
    return [*rows, Text(f"and the same {counted(again, 'time')} before", style="dim")] if again else rows


# Moves in flight, and pods that are held back.


def moves(in_flight: Iterable[Underway], now: float) -> Table:
    """A row for each move in flight: of which pod, how, and how far it is."""
    table = make_table("pod", "from", "how", "step", "for", "trouble")
    for move in sorted(in_flight, key=lambda move: move.pod):
        how = {"anew": "recreated", "surge": "another first", "evicted": "evicted"}[move.how]
        how = f"{how}: {move.why}" if move.why else how
        since = seconds(max(0.0, now - move.since))
        add_row(table, move.pod.full_name, move.node, how, move.step, since, move.fault or move.waits)
    return table


def held(pods: Sequence[Held], at: float) -> Iterator[RenderableType]:
    """A row for each pod that a policy wants moved and that stays, and before them how many there are."""
    counts = Counter(held_pod.reason for held_pod in pods).most_common()
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts)
    yield Text(one_line(f"held back: {counted(len(pods), 'pod')} ({reasons})"), style="bold")
    table = make_table("policy", "pod", "on", "wanted", "held back", "why", "said")
    for held_pod in pods:
        move, name = held_pod.decision, held_pod.decision.pod.full_name if held_pod.decision.pod.name else "-"
        why = held_pod.reason, held_pod.why, ago(held_pod.at, at)
        add_row(table, move.policy, name, move.node, f"{move.strategy}: {move.reason}", *why)
    yield table
