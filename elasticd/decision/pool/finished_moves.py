"""Reports moves that are no longer wanted, so that stale statuses are cleared."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from elasticd.kit.node_table import NodeTable
from elasticd.model.moves import GONE, NOT_WANTED, MoveDecision
from elasticd.model.workload import Pod

OnNodes = Mapping[str, Sequence[Pod]]


def over(
    before: Iterable[MoveDecision],
    now: Sequence[MoveDecision],
    columns: NodeTable,
    on_nodes: OnNodes,
    leaving: Collection[str],
    at: float,
) -> list[MoveDecision]:
    """Decide that moves are over: those that were decided `before` and are not wanted `now`.

    Nothing is decided while a strategy cannot tell what it wants, nor about a pod that is leaving and still there, as
    `on_nodes` has it: another is made first. Pods that leave are marked so in `columns`, the nodes of the pool;
    `leaving` has their UIDs, on other nodes too.
    """
    if any(decision.failures for decision in now):
        return []
    wanted_pods = {decision.pod for decision in now}
    finished: list[MoveDecision] = []
    for previous in before:
        index = columns.index(previous.node)
        present = _is_among(previous, on_nodes.get(previous.node, ()))
        stays = (
            _is_among(previous, columns.pods(index)) if index is not None else present and previous.uid not in leaving
        )
        if previous.pod not in wanted_pods and (stays or not present):
            why = "it need not go any more" if index is not None else f"{previous.node} is not in the pool any more"
            reason = (NOT_WANTED, why) if stays else (GONE, f"it has left {previous.node}")
            finished.append(_finish(previous, *reason, at))
    return finished


def dropped(before: Iterable[MoveDecision], at: float) -> list[MoveDecision]:
    """Decide that all these moves are over, as no policy in force moves pods as theirs did."""
    return [
        _finish(decision, NOT_WANTED, "the policy that wanted it moves no pods any more", at) for decision in before
    ]


def _is_among(decision: MoveDecision, pods: Iterable[Pod]) -> bool:
    return any(pod.uid == decision.uid and not pod.deleted for pod in pods)


def _finish(decision: MoveDecision, reason: str, message: str, at: float) -> MoveDecision:
    over = replace(decision, verdict="over", refusal="", action=None, failures=())
    return replace(over, id=f"{decision.policy}:{decision.pod}@{at:.3f}", at=at, reason=reason, message=message)
