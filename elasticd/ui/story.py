"""Prints the story of a pod and the pods that are held back: `elasticd explain pod` and `moves`.

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
    """Print a pod's story, the newest part first. `seen` is what the daemon knows of it, or why it was not asked."""
    sections: list[tuple[float, list[RenderableType]]] = []
    pods = _Pod(one_line(name), seen, story.uid, at)
    if story.gave_way:
        sections.append((story.gave_way.at, pods.gave_way(story.gave_way)))
    if story.moving:
        sections.append((story.moving.at, pods.moving(story.moving, story)))
    if story.placing:
        last = all(at <= story.placing.at for at, _ in sections)
        sections.append((story.placing.at, pods.placing(story.placing, story.placed, last=last)))
    sections.sort(key=lambda entry: -entry[0])
    (_, (head, *body)), *older = sections
    parts: list[RenderableType] = [head, pods.now(), *body]
    for _, section in older:
        parts += [Text(), *section]
    return Group(*parts)


class _Pod:
    """A pod, and what is known of it now."""

    def __init__(self, name: str, seen: PodStatus | str, uid: str, at: float) -> None:
        self._name, self._status, self._at = name, seen, at
        pod = None if isinstance(seen, str) else seen.found
        self._pod = pod if pod and pod.uid == uid else None
        self._uid = uid
        self._unclaimed = "" if isinstance(seen, str) else unclaimed(name, seen)
        """Why no policy is about it any more."""

    def now(self) -> Text:
        """Where it is now."""
        if isinstance(self._status, str):
            return Text(one_line(f"told from the journal alone: {self._status}"), style="dim")
        present = self._pod is not None and self._status.fresh
        text = "; ".join(filter(None, (now(self._status, self._uid), self._unclaimed)))
        return Text(one_line(f"now: {text}"), style="default" if present and not self._unclaimed else _DOUBT)

    def _past(self, decision: PodDecision | MoveDecision) -> bool:
        """Whether the policy no longer governs the pod, so that its decision is void."""
        return self._pod is not None and decision.policy not in (self._pod.policy, *self._pod.policies)

    def placing(self, decision: PodDecision, outcomes: Sequence[PodOutcome], *, last: bool) -> list[RenderableType]:
        """Where the pod goes, or why it waits, as of the last look; `last`: nothing newer is known of it."""
        waits = self._pod is None or not (self._pod.node or self._pod.pretended)
        past = self._past(decision)
        latest = self._pod.latest if self._pod and waits and not past else None
        looked_at = latest.at if latest else None
        if latest and last and _alike(latest, decision):
            decision = replace(latest, at=decision.at, id=decision.id)
        good = pod_words.acts(decision) and all(outcome.result == "done" for outcome in outcomes)
        observed = decision.mode == "observe" and decision.verdict in ("bind", "preempt")
        before = "before: " if past and decision.verdict == "wait" else ""
        head = self._head(
            decision, looked_at, f"{before}{pod_words.placing(decision, outcomes)}", good=good or observed
        )
        gone = not isinstance(self._status, str) and self._status.fresh and self._pod is None
        return show_pods.placing(decision, outcomes, head, current=last and waits and not gone and not past)

    def moving(self, decision: MoveDecision, story: Story) -> list[RenderableType]:
        """Why it should leave its node, and what came of that."""
        outcomes, gone = story.moved, story.gone
        last = outcomes[-1] if outcomes else None
        looked_at, past = None, self._past(decision)
        if not isinstance(self._status, str) and decision.verdict != "over" and self._pod and not past:
            looked_at = next((pool.looked for pool in self._status.pools if pool.policy == decision.policy), None)
        good = pod_words.left(last) or decision.verdict == "over"
        line = pod_words.moving(decision, last)
        line = f"before: {line}" if past and not good else line
        if gone is not None and not pod_words.left(last):
            line = f"{line}; it has left {one_line(decision.node)} since, {self._ago(gone)}"
        head = self._head(decision, looked_at, line, good=good)
        began = story.wanted is not None and story.wanted < decision.at
        since = f", first {self._ago(story.wanted)}" if began and story.wanted is not None else ""
        wanted_by = Text(one_line(f"wanted by strategy {decision.strategy}{since}"), style="dim")
        return [head, wanted_by, *(_done(decision, outcomes) if decision.verdict == "move" else ())]

    def gave_way(self, outcome: PodOutcome) -> list[RenderableType]:
        """For which pod it was evicted."""
        preemptor = f"{outcome.pod.namespace}/{outcome.pod.name}"
        ago, message = self._ago(outcome.at), f"; {outcome.message}" if outcome.message else ""
        return [
            Text.assemble(
                (self._name, "bold"),
                f"  policy {one_line(outcome.policy)}\n",
                (one_line(f"gave way for {preemptor} on {outcome.node} {ago}{message}"), _DOUBT),
            )
        ]

    def _ago(self, at: float) -> str:
        return f"{seconds(max(0.0, self._at - at))} ago"

    def _head(self, decision: PodDecision | MoveDecision, looked_at: float | None, line: str, *, good: bool) -> Text:
        ago, last_look = self._ago(decision.at), "" if looked_at is None else f", last looked at {self._ago(looked_at)}"
        return Text.assemble(
            (self._name, "bold"),
            f"  policy {one_line(decision.policy)} ({decision.mode}), {ago}{last_look}\n",
            (f"{pod_words.mark(decision.mode)}{line}", _GOOD if good else _DOUBT),
        )


def _alike(latest: PodDecision, decision: PodDecision) -> bool:
    """Whether a pod waits for the same reason as before, so that what was found last stands for it."""
    kind = (latest.policy, latest.verdict, latest.reason)
    return decision.verdict == "wait" and kind == (decision.policy, decision.verdict, decision.reason)


def _done(decision: MoveDecision, outcomes: Sequence[PodOutcome]) -> list[RenderableType]:
    """The attempts of a move; equal ones in a row are one row, the last."""
    runs = [
        list(run) for _, run in groupby(outcomes, key=lambda outcome: (outcome.action, outcome.result, outcome.reason))
    ]
    again = sum(len(run) for run in runs) - len(runs)
    rows = show_pods.done(decision, [run[-1] for run in runs])
    return [*rows, Text(f"and the same {counted(again, 'time')} before", style="dim")] if again else rows


def held(pods: Iterable[Held], at: float) -> Iterator[RenderableType]:
    """A row for each pod that a policy wants moved and that stays, and before them how many there are."""
    pods = list(pods)
    reasons = Counter(held_pod.reason for held_pod in pods).most_common()
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons)
    yield Text(one_line(f"held back: {counted(len(pods), 'pod')} ({counts})"), style="bold")
    table = make_table("policy", "pod", "on", "wanted", "held back", "why", "said")
    for held_pod in pods:
        move = held_pod.decision
        wish = f"{move.strategy}: {move.reason}"
        ago = f"{seconds(max(0.0, at - held_pod.at))} ago"
        name = pod_words.name(move) if move.pod.name else "-"
        add_row(table, move.policy, name, move.node, wish, held_pod.reason, held_pod.why, ago)
    yield table
