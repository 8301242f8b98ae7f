"""Preemption: which pods are evicted for one that fits nowhere, within budgets, and only if it then fits; and in which
order the pods of a node would be."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import counted
from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.filter_score import Filtered, fits_without
from elasticd.kit.node_table import needed
from elasticd.model.actions import GIVES_WAY, Evict, Nominate
from elasticd.model.disruption import Refused
from elasticd.model.placement import DisruptionBudget, EvictionOrder, Mask, Spared, Turn, Victims
from elasticd.model.workload import Failure, Pod

OFFERS = 100
"""How many of the nodes where others could be preempted are compared, best score first; kube-scheduler compares a tenth
of the nodes and at least as many."""

BUDGET = Spared("a PodDisruptionBudget lets too few of them go")
IN_VAIN = Spared("it would not suffice")

UNKNOWN: Refused = ("BudgetsUnknown", "PodDisruptionBudgets are not known")

TOLD = 5
"""How many reasons against preemption are listed, the most frequent first; each names its budget."""


class Preemption(Struct, frozen=True, eq=False):
    """A node and the pods that are preempted there; without pods: those that are leaving already make the room."""

    node: int
    victims: tuple[Pod, ...]
    why: str = ""
    asked: int = 0
    """About how many nodes was asked."""

    def actions(self, pod: Pod, name: str) -> tuple[Nominate | Evict, ...]:
        """The actions in their order: note the node on the pod, then evict."""
        actions: list[Nominate | Evict] = [] if pod.nominated == name else [Nominate(pod.ref, pod.uid, name)]
        reason = f"{GIVES_WAY} {pod.namespace}/{pod.name}"
        for victim in self.victims:
            restore, first = not victim.owner[0], victim.needs.restart == "OnFailure"
            actions.append(Evict(victim.ref, victim.uid, name, reason, restore, first, victim.owner[2]))
        return tuple(actions)


class NoVictims(Struct, frozen=True, gc=False):
    """No pod can be evicted: why, and what would have to change, on how many nodes. With `failures` it is not
    known who may."""

    why: str = ""
    mends: Mapping[str, int] = {}
    failures: tuple[Failure, ...] = ()
    asked: int = 0
    """About how many nodes was asked."""


def forbidden(pod: Pod) -> str:
    """Why a PodDisruptionBudget protects a pod, in a clause. A pod that is not ready is protected only where too few
    others are ready and the budget's policy is not AlwaysAllow: else the budget is not about it."""
    if pod.ready is True:
        return "a PodDisruptionBudget forbids it"
    return "a PodDisruptionBudget forbids it: it is not ready, and too few others are (unhealthyPodEvictionPolicy)"


class Budgets:
    """What PodDisruptionBudgets still allow within one plan; nothing where they are not known."""

    def __init__(self, budgets: Iterable[DisruptionBudget], *, known: bool = True) -> None:
        self.known, self.now = known, tuple(budgets)
        """The budgets after what was planned: the same tuple until more is."""
        self._by_namespace = _by_namespace(self.now)

    def spend(self, pod: Pod) -> None:
        if any(pod.uid in budget.pods for budget in self._by_namespace.get(pod.namespace, ())):
            self.now = tuple(
                replace(budget, pods=budget.pods - {pod.uid}, allowed=budget.allowed - 1)
                if pod.uid in budget.pods
                else budget
                for budget in self.now
            )
            self._by_namespace = _by_namespace(self.now)

    def bear(self, pods: Sequence[Pod]) -> bool:
        if not self.known:
            return not pods
        return self.overdrawn(pods) is None

    def overdrawn(self, pods: Sequence[Pod]) -> DisruptionBudget | None:
        """The first budget that does not let all of these pods go; None: each does."""
        concerned = [budget for name in {pod.namespace for pod in pods} for budget in self._by_namespace.get(name, ())]
        return next(
            (budget for budget in concerned if sum(pod.uid in budget.pods for pod in pods) > max(0, budget.allowed)),
            None,
        )

    def refusal(self, pod: Pod) -> Refused | None:
        """Why a pod must not go now; None: it may."""
        if not self.known:
            return UNKNOWN
        if (budget := self.overdrawn([pod])) is None:
            return None
        return ("Refused", f"it was {budget.why}") if budget.why else ("Budget", forbidden(pod))


def _by_namespace(budgets: Iterable[DisruptionBudget]) -> dict[str, list[DisruptionBudget]]:
    """Group budgets by namespace: each is about pods of its own alone."""
    grouped: dict[str, list[DisruptionBudget]] = {}
    for budget in budgets:
        grouped.setdefault(budget.namespace, []).append(budget)
    return grouped


def make_room(case: PoolCase, filtered: Filtered, budgets: Budgets) -> Preemption | NoVictims:
    """Find the node where preemption costs least, and its victims."""
    pod, observation = filtered.pod, replace(case.observation, budgets=budgets.now)
    places, forced = filtered.places()
    if places is None:
        return NoVictims()
    offers: list[tuple[tuple[float, ...], Preemption]] = []
    spared: list[Spared] = []
    count = 0
    for count, index in enumerate(_by_score(case, filtered, places), 1):
        lacks = filtered.missing(index)
        answers = case.ask("select_victims", pod=pod, node=index, observation=observation, forced=forced, missing=lacks)
        if failures := answers.failures or _check_victims(answers.values, case.columns.pods(index)):
            return NoVictims(failures=failures, asked=count)
        for victims in _within_budgets(answers.values, budgets, spared):
            room = Preemption(index, victims.pods, victims.why, count)
            if victims.pods and victims.cost:
                offers.append((victims.cost, room))
            elif fits_without(case, filtered, room.node, room.victims):
                return room
            else:
                spared.append(IN_VAIN)
        if len(offers) >= OFFERS:
            break
    offers.sort(key=lambda offer: offer[0])  # of equal cost the better score stays first
    cheapest = next((room for _, room in offers if fits_without(case, filtered, room.node, room.victims)), None)
    return replace(cheapest or _explain_spared([*spared, *[IN_VAIN] * len(offers)]), asked=count)


def _explain_spared(spared: Sequence[Spared]) -> NoVictims:
    """Summarize why no pod can be evicted, the most frequent reason first."""
    reasons = _by_frequency(answer.why for answer in spared)
    parts = [f"on {counted(count, 'node')} {why}" for why, count in reasons[:TOLD]]
    if remainder := sum(count for _, count in reasons[TOLD:]):
        parts.append(f"on {counted(remainder, 'node')} for other reasons")
    return NoVictims(", ".join(parts), dict(_by_frequency(mend for answer in spared for mend in answer.mends)))


def _by_frequency(texts: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(texts).items(), key=lambda pair: (-pair[1], pair[0]))


def _within_budgets(
    answers: Iterable[tuple[str, Victims | Spared]], budgets: Budgets, spared: list[Spared]
) -> Iterator[Victims]:
    """The victims that all budgets let go; why others may not is added to `spared`."""
    for _, victims in answers:
        if isinstance(victims, Spared):
            spared.append(victims)
        elif budgets.bear(victims.pods):
            yield victims
        else:
            budget = budgets.overdrawn(victims.pods)
            spared.append(Spared(f"some of them were {budget.why}") if budget and budget.why else BUDGET)


def _check_victims(answers: Iterable[tuple[str, Victims | Spared]], residents: Sequence[Pod]) -> tuple[Failure, ...]:
    """The failures of strategies whose victims are not on the node, are leaving already, or are named twice."""
    staying = {pod.uid for pod in residents if not pod.deleted}
    failures: list[Failure] = []
    for name, victims in answers:
        if isinstance(victims, Spared):
            continue
        uids = {pod.uid for pod in victims.pods}
        if len(uids) < len(victims.pods) or not uids <= staying:
            problem = "must return pods that are on the node and not leaving it, each once"
            failures.append(Failure(name, "select_victims", problem))
    return tuple(failures)


def _by_score(case: PoolCase, filtered: Filtered, places: Mask) -> list[int]:
    """The nodes in question, best score first; of equal ones that first which lacks least, as fewer have to go
    there."""
    nodes = np.flatnonzero(places)
    lack = np.zeros(len(nodes), dtype=np.float64)
    for resource, amount in needed(filtered.pod).items():
        allocatable = case.columns.allocatable(resource)[nodes]
        lack += np.maximum(case.columns.requested(resource)[nodes] + amount - allocatable, 0) / np.maximum(
            allocatable, 1
        )
    order = np.lexsort((lack, -np.nan_to_num(filtered.ranked.total[nodes], nan=-np.inf)))
    return [int(index) for index in nodes[order]]


class NodeOrder(Struct, frozen=True, eq=False):
    """The eviction order of a node's pods, None where none is preempted there; and the implementations that failed."""

    order: EvictionOrder | None = None
    failures: tuple[Failure, ...] = ()


def eviction_order(case: PoolCase) -> NodeOrder:
    """The eviction order of `case.node` as things stand, with what protects each pod: strategies, and budgets once the
    pods before it have gone. A strategy that protects a pod does not count beside one that does not."""
    if not case.hooks.implements("select_victims"):
        return NodeOrder()
    answers, turns = case.ask("explain_victims", node=case.node), dict[str, Turn]()
    present = {pod.uid for pod in case.columns.pods(case.node)}
    for _, order in answers.values:
        for turn in order.turns:
            before = turns.get(turn.pod.uid)
            if turn.pod.uid in present and (before is None or (before.stays and not turn.stays)):
                turns[turn.pod.uid] = turn
    rule = "; ".join(filter(None, (order.rule for _, order in answers.values)))
    return NodeOrder(EvictionOrder(tuple(_apply_budgets(turns.values(), case)), rule), answers.failures)


def _apply_budgets(turns: Iterable[Turn], case: PoolCase) -> Iterator[Turn]:
    observation = case.observation
    initial, remaining = (Budgets(observation.budgets, known=observation.budgets_known) for _ in range(2))
    for turn in turns:
        if turn.stays:
            yield turn
        elif why := _kept_by_budget(turn.pod, initial, remaining):
            yield replace(turn, stays=why[0], why=why[1])
        else:
            remaining.spend(turn.pod)
            yield turn


def _kept_by_budget(pod: Pod, initial: Budgets, remaining: Budgets) -> Refused | None:
    if (why := initial.refusal(pod)) or remaining.bear([pod]):
        return why
    return "Budget", "its PodDisruptionBudget lets no more go than those before it"
