"""Makes the decisions of a journal again, from what it has of what they were made from.

Reads no clock and acts on nothing. Knows the journal's records and judgement; knows nothing of what is printed.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import ConfigError
from elasticd.config.policies import restored_policy
from elasticd.decision.basis import Remade, Subject, folded
from elasticd.decision.decide import Case, evaluate
from elasticd.decision.workload.falls import WAITS
from elasticd.journal import Journal, Record
from elasticd.kit.history import HORIZON
from elasticd.model.actions import Scale
from elasticd.model.policy import Policy
from elasticd.model.records import Basis, Decision
from elasticd.model.workload import Ref
from elasticd.registry import Hooks, Registry

Came = Literal["same", "otherwise", "not asked", "not known"]
"""How a decision came out. `not asked`: no strategy was, so there is nothing to make again; `not known`: the journal
does not have all that it was made from."""

LACKS = "the journal does not have what it was made from"

NEEDED = frozenset({"policy", "workload", "off", "caps", "fault", "autoscaler", "nodes", "rooms"})


class Replayed(Struct, frozen=True):
    """A decision, the one that was made again, and why there is none, or why it may differ."""

    decision: Decision
    came: Came
    made: Decision | None = None
    why: str = ""


class Replay:
    """Takes the records of a journal in their order. `dropped`: it once had older ones. `instead`: a policy by which
    the workloads that it governs are decided about, each time from what was then."""

    def __init__(self, registry: Registry, *, dropped: bool = False, instead: Policy | None = None) -> None:
        self._registry, self._dropped, self._instead = registry, dropped, instead
        self._journal = Journal()
        self._begun: float | None = None
        self._parts: dict[Subject, dict[str, bytes]] = {}
        self._policies: dict[bytes, tuple[Policy, Hooks] | str] = {}
        self._hooks = None if instead is None else Hooks((*instead.strategies, *instead.limits))

    def all(self, records: Iterable[Record], wanted: str = "") -> Iterator[Replayed]:
        """Each decision made again; of this workload alone (NAMESPACE/KIND/NAME), if one is
        wanted."""
        for record in records:
            if isinstance(record, Decision) and wanted in ("", str(record.workload)):
                yield from self._replayed(record)
            self._take(record)

    def _take(self, record: Record) -> None:
        if self._begun is None:
            self._begun = record.at
        if isinstance(record, Basis):
            subject = None if record.workload is None else (record.policy, record.workload)
            self._parts[subject] = folded(self._parts.get(subject, {}), record)
        else:
            self._journal.append(record)

    def _replayed(self, decision: Decision) -> Iterator[Replayed]:
        parts = self._parts.get((decision.policy, decision.workload), {})
        if decision.confirmed is None:
            yield Replayed(decision, "not asked", why=decision.reason)
        elif not parts.keys() >= NEEDED:
            yield Replayed(decision, "not known", why=LACKS)
        else:
            try:
                instead = self._instead
                yield from self._otherwise(decision, parts, instead) if instead else [self._again(decision, parts)]
            except msgspec.DecodeError:  # changes of a part whose whole is in a damaged line
                yield Replayed(decision, "not known", why=LACKS)

    def _again(self, decision: Decision, parts: Mapping[str, bytes]) -> Replayed:
        policy = self._policy(parts["policy"])
        if isinstance(policy, str):
            return Replayed(decision, "not known", why=policy)
        made = evaluate(self._case(decision, parts, *policy)).decision
        if msgspec.json.encode(_as_recorded(made, decision)) == msgspec.json.encode(decision):
            return Replayed(decision, "same", made)
        if self._dropped and decision.at < (self._begun or inf) + max(HORIZON, decision.recall):
            return Replayed(decision, "not known", made, "what was before the journal begins may have mattered")
        return Replayed(decision, "otherwise", made)

    def _otherwise(self, decision: Decision, parts: Mapping[str, bytes], policy: Policy) -> Iterator[Replayed]:
        """The decision by another policy, which is not compared in its wording; none where that does not govern it."""
        hooks = self._hooks
        case = self._case(decision, parts, policy, hooks) if hooks else None
        if case is None or not policy.governs(case.observation.workload):
            return
        missing = sorted((hooks.reads if hooks and hooks.reads else frozenset()) - case.observation.series.keys())
        if missing:
            why = f"{policy.name} reads {', '.join(missing)}, which its policy did not read then"
            yield Replayed(decision, "not known", why=why)
            return
        # A fall waits by the wishes before, which are those of the recorded policy.
        if case.caps is not None:
            case = replace(case, caps=replace(case.caps, falls_after=0.0))
        made = evaluate(case).decision
        same = (made.replicas, made.verdict) == (decision.replicas, decision.verdict)
        if any(limit.name == WAITS for limit in decision.limits):
            same = same or made.asked == decision.asked
        yield Replayed(decision, "same" if same else "otherwise", made)

    def _case(self, decision: Decision, parts: Mapping[str, bytes], policy: Policy, hooks: Hooks) -> Case:
        acts, key = decision.mode == "act", (decision.policy, decision.workload)
        past = self._journal.past(*key, decision.at, decision.own_count, decision.uid, acts=acts)
        return Remade(decision, parts, self._parts.get(None, {})).case(policy, hooks, past)

    def _policy(self, text: bytes) -> tuple[Policy, Hooks] | str:
        known = self._policies.get(text)
        if known is None:
            try:
                policy = restored_policy(text, self._registry)
                known = policy, Hooks((*policy.strategies, *policy.limits))
            except ConfigError as error:
                known = f"its policy can no longer be read: {error}"
            self._policies[text] = known
        return known


def _as_recorded(made: Decision, decision: Decision) -> Decision:
    """The decision without what an older version did not record of a fall."""
    if isinstance(made.action, Scale) and isinstance(decision.action, Scale) and decision.action.counted is None:
        return replace(made, action=replace(made.action, counted=None))
    return made


class Difference(Struct, frozen=True):
    """Decisions of one policy about one workload in a row that came out otherwise in the same way."""

    first: Replayed
    until: float
    decisions: int = 1


class Summary(Struct):
    """How many decisions came out how, why some could not be made again, and those that came out otherwise."""

    came: dict[str, int] = {}
    why: dict[str, int] = {}
    workloads: set[str] = set()
    begin: float = inf
    end: float = -inf
    differences: list[Difference] = []

    @property
    def decisions(self) -> int:
        return sum(self.came.values())


def summary(replayed: Iterable[Replayed]) -> Summary:
    """Count how decisions came out; those that differ in the same way in a row are put together."""
    total, last = Summary(), dict[tuple[str, Ref], int]()
    for each in replayed:
        decision = each.decision
        key = decision.policy, decision.workload
        total.came[each.came] = total.came.get(each.came, 0) + 1
        total.workloads.add(str(decision.workload))
        total.begin, total.end = min(total.begin, decision.at), max(total.end, decision.at)
        if each.came == "not known":
            total.why[each.why] = total.why.get(each.why, 0) + 1
        if each.came != "otherwise":
            last.pop(key, None)
            continue
        index = last.get(key)
        before = None if index is None else total.differences[index]
        if before is None or index is None or _kind(before.first) != _kind(each):
            last[key] = len(total.differences)
            total.differences.append(Difference(each, decision.at))
        else:
            total.differences[index] = Difference(before.first, decision.at, before.decisions + 1)
    return total


def _kind(replayed: Replayed) -> tuple[object, ...]:
    decision, made = replayed.decision, replayed.made
    pair = (decision,) if made is None else (decision, made)
    return tuple([(each.verdict, each.current, each.replicas, each.reason) for each in pair])
