"""Which pods are wanted moved no longer, so that nobody takes what was said of them last for what holds.

Pure. Knows what was said before and what is said now; knows no rule of who should go.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from elasticd.columns import Columns
from elasticd.moves import GONE, NOT_WANTED, MoveDecision


def over(
    before: Iterable[MoveDecision], now: Sequence[MoveDecision], columns: Columns, at: float
) -> list[MoveDecision]:
    """A decision about each pod of which something was said `before` and nothing is said `now`. None while a strategy
    cannot tell what it wants."""
    if any(one.failures for one in now):
        return []
    wanted = {one.pod for one in now}
    return [_over(one, columns, at) for one in before if one.pod not in wanted]


def _over(said: MoveDecision, columns: Columns, at: float) -> MoveDecision:
    index = columns.index(said.node)
    there = index is not None and any(pod.uid == said.uid and not pod.deleted for pod in columns.pods(index))
    reason, message = (NOT_WANTED, "it need not go any more") if there else (GONE, f"it has left {said.node}")
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
