"""Derives from the past which nodes have been too loaded for long enough, and which controllers are left alone.

Knows evaluations and moves of the last hour; knows nothing of which pod leaves next.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from elasticd.api import Column, Look, Mask, Moved, Nodes, Pod, PoolPast, Struct, Whole
from elasticd.kit import Backoff, whose

from .levels import Levels, levels
from .options import Options

MOST_COOLDOWNS = 2**12
"""To so many times itself `cooldown` doubles at most; moves are remembered for an hour."""

PART = 10
"""One in this many pods of a controller moves before the controller is left alone."""


class Heat(Struct, frozen=True, eq=False):
    """For each node: whether it must give up pods (`hot`), in how many evaluations in a row it has been too loaded
    (`times`), whether it rests after giving up pods (`rests`), and whether it must give up more after that
    (`lasts`)."""

    hot: Mask
    times: Whole
    rests: Mask
    lasts: Mask


def heat(rule: Options, nodes: Nodes, at: float, past: PoolPast, now: Levels) -> Heat:
    """The state that follows from the evaluations so far.

    A node is hot if it was too loaded in `observations` evaluations in a row, has not been calm since, and does not
    rest. An evaluation in which its use was not known resets the count. Without a past evaluation the present one is
    the first.
    """
    rests = np.zeros(len(nodes.names), dtype=np.bool_)
    if rule.mode == "paper":
        return Heat(now.above, now.above.astype(np.int64), rests, rests)
    looks = [_levels_at(rule, nodes, look) for look in past.looks if look.at < at] + [now]
    if past.looks and past.looks[-1].at < at:
        looks.pop()  # this evaluation is between two counted ones
    times, hot = np.zeros(len(nodes.names), dtype=np.int64), np.zeros(len(nodes.names), dtype=np.bool_)
    for look_levels in looks:
        times = np.where(look_levels.above, times + 1, 0)
        hot = (hot | (times >= rule.observations)) & ~look_levels.calm & np.isfinite(look_levels.worst)
    hot &= ~now.calm & np.isfinite(now.worst)
    if left := {moved.node for moved in past.moved if moved.at > at - rule.settle}:
        rests = np.array([name in left for name in nodes.names], dtype=np.bool_)
    return Heat(hot & ~rests, times, rests, hot & rests)


def _levels_at(rule: Options, nodes: Nodes, look: Look) -> Levels:
    """The levels of today's nodes at a past evaluation. A node that was not there has NaN."""
    unknown = np.full(len(look.names), np.nan)
    if look.names is nodes.names or look.names == nodes.names:
        return levels(rule, nodes, lambda series: look.use.get(series, unknown))
    places = {name: place for place, name in enumerate(look.names)}
    order = np.array([places.get(name, -1) for name in nodes.names], dtype=np.int64)

    def use(series: str) -> Column:
        return np.asarray(np.append(look.use.get(series, unknown), np.nan)[order])

    return levels(rule, nodes, use)


class Rests:
    """Tells which controllers are left alone."""

    def __init__(self, cooldown: float, at: float, moved: Iterable[Moved]) -> None:
        self._backoff, self._at = Backoff(cooldown, MOST_COOLDOWNS * cooldown), at
        self._chosen, self._moved = Counter[str](), defaultdict[str, list[Moved]](list)
        for move in sorted(moved, key=lambda move: move.at):
            self._moved[move.whose].append(move)

    def free(self, pod: Pod, nodes: Nodes) -> bool:
        """Whether another pod of its controller may leave."""
        moves, chosen, share = self._moved.get(whose(pod), ()), self._chosen[whose(pod)], _share(pod, nodes)
        rounds = len(moves) // share
        if chosen and (len(moves) + chosen) // share > rounds:
            return False
        return not rounds or self._at - moves[rounds * share - 1].at >= self._backoff.delay(rounds)

    def choose(self, pod: Pod) -> None:
        """Count a pod as chosen to leave."""
        self._chosen[whose(pod)] += 1

    def left(self, pod: Pod, nodes: Nodes) -> frozenset[str]:
        """The nodes that pods of its controller left too recently to come back."""
        moves = self._moved.get(whose(pod))
        if not moves:
            return frozenset()
        rest_time = self._backoff.delay(len(moves) // _share(pod, nodes) + 1)
        return frozenset(move.node for move in moves if self._at - move.at < rest_time)


def _share(pod: Pod, nodes: Nodes) -> int:
    return max(1, nodes.siblings(pod.owner[2]) // PART) if pod.owner[2] else 1
