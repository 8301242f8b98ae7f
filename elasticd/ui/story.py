"""All that is told of a pod, and of pods that are held back: what `explain pod` and `moves` print.

Knows the records and the terminal; knows nothing of where a record came from.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.text import Text

from elasticd.base.text import counted, one_line
from elasticd.model.moves import MoveDecision
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.pod_status import PodStatus, now, unclaimed
from elasticd.ui import pod_words
from elasticd.ui import pods as show_pods
from elasticd.ui.decisions import add_row, make_table, seconds
from elasticd.ui.pod_story import Held, Story

_GOOD, _DOUBT = "bold green", "yellow"


def explain(name: str, story: Story, seen: PodStatus | str, at: float) -> RenderableType:
    """The newest first. `seen` is what a running daemon knows of the pod, or why none is asked."""
    told: list[tuple[float, list[RenderableType]]] = []
    pods = _Pod(one_line(name), seen, story.uid, at)
    if story.gave_way:
        told.append((story.gave_way.at, pods.gave_way(story.gave_way)))
    if story.moving:
        told.append((story.moving.at, pods.moving(story.moving, story)))
    if story.placing:
        last = all(at <= story.placing.at for at, _ in told)
        told.append((story.placing.at, pods.placing(story.placing, story.placed, last=last)))
    told.sort(key=lambda one: -one[0])
    (_, (head, *body)), *older = told
    parts: list[RenderableType] = [head, pods.now(), *body]
    for _, section in older:
        parts += [Text(), *section]
    return Group(*parts)


class _Pod:
    """A pod, and what is known of it now."""

    def __init__(self, name: str, seen: PodStatus | str, uid: str, at: float) -> None:
        self._name, self._seen, self._at = name, seen, at
        found = None if isinstance(seen, str) else seen.found
        self._found = found if found and found.uid == uid else None
        self._uid = uid
        self._nobody = "" if isinstance(seen, str) else unclaimed(name, seen)
        """Why no policy is about it any more."""

    def now(self) -> Text:
        """Where it is now."""
        if isinstance(self._seen, str):
            return Text(one_line(f"told from the journal alone: {self._seen}"), style="dim")
        there = self._found is not None and self._seen.fresh
        told = "; ".join(filter(None, (now(self._seen, self._uid), self._nobody)))
        return Text(one_line(f"now: {told}"), style="default" if there and not self._nobody else _DOUBT)

    def _past(self, decision: PodDecision | MoveDecision) -> bool:
        """Whether its policy is about it no longer, so that what was decided stands no more."""
        return self._found is not None and decision.policy not in (self._found.policy, *self._found.policies)

    def placing(self, decision: PodDecision, outcomes: Sequence[PodOutcome], *, last: bool) -> list[RenderableType]:
        """Where it goes, or why it waits, as it was last found; `last`: nothing has come of it since."""
        waits = self._found is None or not (self._found.node or self._found.pretended)
        past = self._past(decision)
        latest = self._found.latest if self._found and waits and not past else None
        looked = latest.at if latest else None
        if latest and last and _alike(latest, decision):
            decision = replace(latest, at=decision.at, id=decision.id)
        good = pod_words.acts(decision) and all(one.result == "done" for one in outcomes)
        observed = decision.mode == "observe" and decision.verdict in ("bind", "preempt")
        before = "before: " if past and decision.verdict == "wait" else ""
        head = self._head(decision, looked, f"{before}{pod_words.placing(decision, outcomes)}", good=good or observed)
        gone = not isinstance(self._seen, str) and self._seen.fresh and self._found is None
        return show_pods.placing(decision, outcomes, head, current=last and waits and not gone and not past)

    def moving(self, decision: MoveDecision, story: Story) -> list[RenderableType]:
        """Why it should leave its node, and what came of that."""
        outcomes, gone = story.moved, story.gone
        last = outcomes[-1] if outcomes else None
        looked, past = None, self._past(decision)
        if not isinstance(self._seen, str) and decision.verdict != "over" and self._found and not past:
            looked = next((one.looked for one in self._seen.pools if one.policy == decision.policy), None)
        good = pod_words.left(last) or decision.verdict == "over"
        line = pod_words.moving(decision, last)
        line = f"before: {line}" if past and not good else line
        if gone is not None and not pod_words.left(last):
            line = f"{line}; it has left {one_line(decision.node)} since, {self._ago(gone)}"
        head = self._head(decision, looked, line, good=good)
        began = story.wanted is not None and story.wanted < decision.at
        since = f", first {self._ago(story.wanted)}" if began and story.wanted is not None else ""
        told = Text(one_line(f"wanted by strategy {decision.strategy}{since}"), style="dim")
        return [head, told, *(_done(decision, outcomes) if decision.verdict == "move" else ())]

    def gave_way(self, outcome: PodOutcome) -> list[RenderableType]:
        """For whom it was evicted."""
        whom = f"{outcome.pod.namespace}/{outcome.pod.name}"
        ago, more = self._ago(outcome.at), f"; {outcome.message}" if outcome.message else ""
        return [
            Text.assemble(
                (self._name, "bold"),
                f"  policy {one_line(outcome.policy)}\n",
                (one_line(f"gave way for {whom} on {outcome.node} {ago}{more}"), _DOUBT),
            )
        ]

    def _ago(self, at: float) -> str:
        return f"{seconds(max(0.0, self._at - at))} ago"

    def _head(self, decision: PodDecision | MoveDecision, looked: float | None, line: str, *, good: bool) -> Text:
        ago, more = self._ago(decision.at), "" if looked is None else f", last looked at {self._ago(looked)}"
        return Text.assemble(
            (self._name, "bold"),
            f"  policy {one_line(decision.policy)} ({decision.mode}), {ago}{more}\n",
            (f"{pod_words.mark(decision.mode)}{line}", _GOOD if good else _DOUBT),
        )


def _alike(latest: PodDecision, decision: PodDecision) -> bool:
    """Whether a pod waits for the same reason as before, so that what was found last stands for it."""
    kind = (latest.policy, latest.verdict, latest.reason)
    return decision.verdict == "wait" and kind == (decision.policy, decision.verdict, decision.reason)


def _done(decision: MoveDecision, outcomes: Sequence[PodOutcome]) -> list[RenderableType]:
    """What was tried: the same again and again is one row, the last."""
    runs = [list(run) for _, run in groupby(outcomes, key=lambda one: (one.action, one.result, one.reason))]
    again = sum(len(run) for run in runs) - len(runs)
    rows = show_pods.done(decision, [run[-1] for run in runs])
    return [*rows, Text(f"and the same {counted(again, 'time')} before", style="dim")] if again else rows


def held(pods: Iterable[Held], at: float) -> Iterator[RenderableType]:
    """A row for each pod that a policy wants moved and that stays, and before them how many there are."""
    pods = list(pods)
    reasons = Counter(one.reason for one in pods).most_common()
    told = ", ".join(f"{count} {reason}" for reason, count in reasons)
    yield Text(one_line(f"held back: {counted(len(pods), 'pod')} ({told})"), style="bold")
    table = make_table("policy", "pod", "on", "wanted", "held back", "why", "said")
    for one in pods:
        move = one.decision
        wanted = f"{move.strategy}: {move.reason}"
        ago = f"{seconds(max(0.0, at - one.at))} ago"
        who = pod_words.name(move) if move.pod.name else "-"
        add_row(table, move.policy, who, move.node, wanted, one.reason, one.why, ago)
    yield table
