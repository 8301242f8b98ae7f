"""What follows from the past: which nodes have been too loaded for long enough, and whose pods have been moved enough.

Knows looks and moves of the last hour; knows nothing of who goes next.
"""

from collections.abc import Iterable

import numpy as np

from elasticd.api import Column, Look, Mask, Moved, Nodes, Pod, PoolPast, Struct, Whole
from elasticd.kit import whose

from .levels import Levels, levels
from .options import Options

DOUBLINGS = 12
"""Of `cooldown` at most; moves are remembered for an hour."""

PART = 10
"""One in so many pods of a controller goes before it is left alone."""


class Heat(Struct, frozen=True, eq=False):
    """Of each node: whether it must give up pods (`hot`), in how many looks in a row it has been too loaded, whether
    it rests, having given up pods of late, and whether it will have to give up more then, as things stand (`lasts`)."""

    hot: Mask
    times: Whole
    rests: Mask
    lasts: Mask


def heat(rule: Options, nodes: Nodes, at: float, past: PoolPast, now: Levels) -> Heat:
    """What follows from the looks so far.

    A node is hot that was too loaded in so many looks in a row, has not been calm since, and does not rest. A look in
    which its use was not known begins all anew. Without any look, as it is now: the first of them.
    """
    rests = np.zeros(len(nodes.names), dtype=np.bool_)
    if rule.mode == "paper":
        return Heat(now.above, now.above.astype(np.int64), rests, rests)
    looks = [_levels_at(rule, nodes, look) for look in past.looks if look.at < at] + [now]
    if past.looks and past.looks[-1].at < at:
        looks.pop()  # it comes between two looks, and does not count as one
    times, hot = np.zeros(len(nodes.names), dtype=np.int64), np.zeros(len(nodes.names), dtype=np.bool_)
    for look_levels in looks:
        times = np.where(look_levels.above, times + 1, 0)
        hot = (hot | (times >= rule.observations)) & ~look_levels.calm & np.isfinite(look_levels.worst)
    hot &= ~now.calm & np.isfinite(now.worst)
    for moved in past.moved:
        if moved.at > at - rule.settle and (place := _place(nodes, moved.node)) is not None:
            rests[place] = True
    return Heat(hot & ~rests, times, rests, hot & rests)


def _levels_at(rule: Options, nodes: Nodes, look: Look) -> Levels:
    """How loaded today's nodes were. One that was not there has NaN."""
    unknown = np.full(len(look.names), np.nan)
    if look.names is nodes.names or look.names == nodes.names:
        return levels(rule, nodes, lambda series: look.use.get(series, unknown))
    places = {name: place for place, name in enumerate(look.names)}
    order = np.array([places.get(name, -1) for name in nodes.names], dtype=np.int64)

    def use(series: str) -> Column:
        return np.asarray(np.append(look.use.get(series, unknown), np.nan)[order])

    return levels(rule, nodes, use)


def _place(nodes: Nodes, name: str) -> int | None:
    try:
        return nodes.names.index(name)
    except ValueError:
        return None


class _Moves(Struct):
    """When pods of a controller were moved, and from which nodes, the oldest first; and how many are to be now."""

    times: list[float]
    nodes: list[str]
    chosen: int = 0


class Rests:
    """Which controllers are left alone."""

    def __init__(self, cooldown: float, at: float, moved: Iterable[Moved]) -> None:
        self._cooldown, self._at = cooldown, at
        self._moves: dict[str, _Moves] = {}
        for move in sorted(moved, key=lambda move: move.at):
            moves = self._moves.setdefault(move.whose, _Moves([], []))
            moves.times.append(move.at)
            moves.nodes.append(move.node)

    def free(self, pod: Pod, nodes: Nodes) -> bool:
        """Whether another pod of its controller may go."""
        moves = self._moves.get(whose(pod))
        if moves is None:
            return True
        share, moved = _share(pod, nodes), len(moves.times)
        rounds = moved // share
        if moves.chosen and (moved + moves.chosen) // share > rounds:
            return False
        return not rounds or self._at - moves.times[rounds * share - 1] >= self._rest(rounds)

    def choose(self, pod: Pod) -> None:
        """It is to go."""
        self._moves.setdefault(whose(pod), _Moves([], [])).chosen += 1

    def left(self, pod: Pod, nodes: Nodes) -> frozenset[str]:
        """The nodes that pods of its controller have left too short a time ago to come back."""
        moves = self._moves.get(whose(pod))
        if moves is None or not moves.times:
            return frozenset()
        rest_time = self._rest(len(moves.times) // _share(pod, nodes) + 1)
        return frozenset(node for at, node in zip(moves.times, moves.nodes, strict=True) if self._at - at < rest_time)

    def _rest(self, rounds: int) -> float:
        return float(self._cooldown * 2.0 ** min(rounds - 1, DOUBLINGS))


def _share(pod: Pod, nodes: Nodes) -> int:
    return max(1, nodes.siblings(pod.owner[2]) // PART) if pod.owner[2] else 1
