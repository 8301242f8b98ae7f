"""The order in which pods of a node would have to give way, and what protects each of them now."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from elasticd.decision.pool.asking import PoolCase
from elasticd.decision.pool.preemption import UNKNOWN, Budgets, forbidden
from elasticd.model.disruption import Refused
from elasticd.model.placement import EvictionOrder, Turn
from elasticd.model.workload import Failure, Pod


class NodeOrder(Struct, frozen=True, eq=False):
    """The eviction order of a node's pods, None where no pod gives way there; and the implementations that failed."""

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
    refused = frozenset[str]().union(*(budget.pods for budget in observation.budgets if budget.why))
    for turn in turns:
        if turn.stays:
            yield turn
        elif why := _kept_by_budget(turn.pod, initial, remaining, refused):
            yield replace(turn, stays=why[0], why=why[1])
        else:
            remaining.spend(turn.pod)
            yield turn


def _kept_by_budget(pod: Pod, initial: Budgets, remaining: Budgets, refused: frozenset[str]) -> Refused | None:
    if not initial.known:
        return UNKNOWN
    if pod.uid in refused:
        return "Refused", "its eviction was refused less than a minute ago"
    if not initial.bear([pod]):
        return "Budget", forbidden(pod)
    return None if remaining.bear([pod]) else ("Budget", "its PodDisruptionBudget lets no more go than those before it")
