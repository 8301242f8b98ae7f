"""Which pods of a pool are moved, of those that strategies want moved.

Pure. Each move sees those before it done. Knows which pods stay, what a move must be worth, and that there must be a
place elsewhere first; knows no rule of who should go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from elasticd.actions import Evict
from elasticd.model import Failure, Pod
from elasticd.movable import rooted
from elasticd.moves import Move, MoveDecision
from elasticd.placing.ask import PoolCase
from elasticd.placing.look import look, rank
from elasticd.placing.plan import Draft
from elasticd.policy import MovesTable

Why = tuple[str, str]
"""One word for counting, and a sentence."""

UNKNOWN: Why = ("BudgetsUnknown", "PodDisruptionBudgets are not known")


def plan_moves(case: PoolCase) -> tuple[MoveDecision, ...]:
    """Decisions about all pods that strategies want moved, in the order in which they were made: those whose nodes do
    not suit them first. The second strategy that wants a pod moved has no say."""
    draft, decisions, failures = _Draft(case), list[MoveDecision](), tuple[Failure, ...]()
    seen: set[str] = set()
    for hook in ("rebind_pods", "rebalance_nodes"):
        heard = case.ask(hook)
        failures += heard.failures
        for name, moves in heard.values:
            for move in moves:
                if move.pod.uid not in seen:
                    seen.add(move.pod.uid)
                    decisions.append(draft.decide(name, move))
    if failures and decisions:
        decisions[0] = replace(decisions[0], failures=failures)
    return tuple(decisions)


class _Draft:
    """Moves that are being planned."""

    def __init__(self, case: PoolCase) -> None:
        self._case, self._draft = case, Draft(case)
        self._left = case.policy.moves.per_look
        self._siblings = _siblings(case)

    def decide(self, strategy: str, move: Move) -> MoveDecision:
        """Whether a pod is moved."""
        pod, draft = move.pod, self._draft
        decision = self._decision(strategy, move)
        if why := self._stays(move):
            return replace(decision, refusal=why[0], message=_joined(move.message, why[1]))
        index = draft.columns.index(pod.node)
        if index is None:
            return replace(decision, refusal="NoSuchNode", message=f"{pod.node} is not in the pool any more")
        target = ""
        if move.how == "reschedule":
            draft.columns.release(index, pod)
            place, why_not = self._elsewhere(move, index)
            if place is None:
                draft.columns.take(index, pod)
                return replace(decision, refusal="NoOtherNode", message=_joined(move.message, why_not))
            draft.columns.take(place, replace(pod, node=""))
            target = draft.columns.names[place]
        draft.budgets.spend(pod)
        self._left -= 1
        self._siblings[pod.owner[2]] -= 1
        restore = not pod.owner[0] and move.how == "reschedule"
        first = pod.needs.restart == "OnFailure"
        evict = Evict(pod.ref, pod.uid, pod.node, move.reason, restore=restore, first=first, owner=pod.owner[2])
        return replace(decision, verdict="move", target=target, action=evict)

    def _stays(self, move: Move) -> Why | None:
        """Why a pod is left where it is."""
        pod, table = move.pod, self._case.policy.moves
        if why := rooted(pod) or _unfit(pod, table, self._case.observation.at):
            return why
        if pod.owner[2] and self._siblings[pod.owner[2]] < 2 and not table.single:
            return "Single", "it is the only one of its controller"
        if (move.benefit or move.disruption) and move.benefit < table.worth * move.disruption:
            return "NotWorth", f"it brings {move.benefit:.3g} and costs {move.disruption:.3g}"
        if not self._draft.budgets.bear([pod]):
            known = self._draft.budgets.known
            return ("Budget", "a PodDisruptionBudget forbids it") if known else UNKNOWN
        return ("Enough", f"{table.per_look} are moved at a time") if self._left <= 0 else None

    def _elsewhere(self, move: Move, index: int) -> tuple[int | None, str]:
        """Another node that can take a pod, as things stand without it; None, and why there is none."""
        pod = replace(move.pod, node="", nominated="")
        if pod.needs.unsupported:
            return None, f"elasticd does not know {', '.join(pod.needs.unsupported)}, nor where it could go"
        found = look(self._case, pod)
        allowed = found.allowed().copy()
        allowed[index] = False
        for name in move.not_to:
            place = self._draft.columns.index(name)
            if place is not None:
                allowed[place] = False
        if not allowed.any():
            return None, found.unavailable()
        return rank(self._case, pod).best(allowed, self._draft.columns)[0], ""

    def _decision(self, strategy: str, move: Move) -> MoveDecision:
        policy, at, pod = self._case.policy, self._case.observation.at, move.pod
        return MoveDecision(
            id=f"{policy.name}:{pod.ref}@{at:.3f}",
            at=at,
            policy=policy.name,
            pod=pod.ref,
            mode=policy.mode,
            verdict="refuse",
            strategy=strategy,
            reason=move.reason,
            message=move.message,
            uid=pod.uid,
            node=pod.node,
            how=move.how,
            benefit=move.benefit,
            disruption=move.disruption,
        )


def _unfit(pod: Pod, table: MovesTable, at: float) -> Why | None:
    """Why a pod may not be moved under these settings."""
    young = pod.started is None or at - pod.started < table.min_age
    reasons = (
        (pod.deleted, "Leaving", "it is being deleted"),
        (pod.namespace in table.spared, "Spared", f"pods of {pod.namespace} stay"),
        (pod.needs.local and not table.local_storage, "LocalStorage", "what it has stored on its node would be lost"),
        (pod.needs.claims and not table.claims, "Claims", "it uses persistent volume claims"),
        (not pod.owner[0] and not table.bare, "Bare", "it has no controller"),
        (young, "Young", f"it has not run for {table.min_age:g} s"),
    )
    return next(((word, why) for holds, word, why in reasons if holds), None)


def _siblings(case: PoolCase) -> Counter[str]:
    """How many pods each controller has on the pool's nodes that are ready and stay."""
    columns = case.columns
    pods: Iterable[Pod] = (pod for index in range(len(columns.names)) for pod in columns.pods(index))
    return Counter(pod.owner[2] for pod in pods if pod.owner[2] and pod.ready and not pod.deleted)


def _joined(*texts: str) -> str:
    return ": ".join(filter(None, texts))


def counted(decisions: Iterable[MoveDecision]) -> Mapping[str, int]:
    """How many pods are left where they are, by the word that says why."""
    return Counter(one.refusal for one in decisions if one.verdict == "refuse")
