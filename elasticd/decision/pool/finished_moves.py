"""Which pods are wanted moved no longer, so that nobody takes what was said of them last for what holds.

Pure. Knows what was said before and what is said now; knows no rule of who should go.
"""

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
    """A decision about each pod of which something was said `before` and nothing is said `now`. None while a strategy
    cannot tell what it wants, nor of a pod that counts as leaving and is still there, as `on_nodes` has it: another is
    made first. Those that leave are so in `columns`, the nodes of the pool; `leaving` has their UIDs, on other nodes
    too."""
    if any(one.failures for one in now):
        return []
    wanted = {one.pod for one in now}
    found: list[MoveDecision] = []
    for one in before:
        index = columns.index(one.node)
        there = _there(one, on_nodes.get(one.node, ()))
        stays = _there(one, columns.pods(index)) if index is not None else there and one.uid not in leaving
        if one.pod not in wanted and (stays or not there):
            why = "it need not go any more" if index is not None else f"{one.node} is not in the pool any more"
            found.append(_over(one, *((NOT_WANTED, why) if stays else _gone(one)), at))
    return found


def dropped(before: Iterable[MoveDecision], at: float) -> list[MoveDecision]:
    """The same where no policy in force moves pods as theirs did."""
    return [_over(one, NOT_WANTED, "the policy that wanted it moves no pods any more", at) for one in before]


def _there(said: MoveDecision, pods: Iterable[Pod]) -> bool:
    return any(pod.uid == said.uid and not pod.deleted for pod in pods)


def _gone(said: MoveDecision) -> tuple[str, str]:
    return GONE, f"it has left {said.node}"


def _over(said: MoveDecision, reason: str, message: str, at: float) -> MoveDecision:
    return replace(
        said,
        id=f"{said.policy}:{said.pod}@{at:.3f}",
        at=at,
        verdict="over",
        reason=reason,
        message=message,
        refusal="",
        action=None,
        failures=(),
    )
