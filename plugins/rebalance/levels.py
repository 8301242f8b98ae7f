"""Computes how loaded the nodes of a pool are: which have too much, which are calm, which can take more, and the
excess.

Knows columns of numbers and the marks they are compared with; knows no pods and no past.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from elasticd.api import Column, Fits, Mask, Nodes, Places, Struct
from elasticd.kit import LEAST_USE, Seen, balance_score, capacity

from .options import Marks, Options

Parts = dict[str, Column]
"""Fractions of nodes, by resource."""


class Levels(Struct, frozen=True, eq=False):
    """For each node: whether it has too much (`above`), is calm, can take more of something (`low`), and how loaded it
    is (`worst`, the greater the worse; NaN: its use is not known, and none of the others holds).

    `sizes` are the nodes' capacities in the series' units, `parts` their use as fractions of these, `means` the pool's
    means of `parts`, by resource.
    """

    above: Mask
    calm: Mask
    low: Mask
    worst: Column
    sizes: Parts
    parts: Parts
    means: dict[str, float]


def levels(rule: Options, nodes: Nodes, seen: Seen, mean_of: Seen | None = None) -> Levels:
    """The levels by the rule, where nodes use what `seen` says, compared with the pool's mean of `mean_of` (default
    `seen`).

    Marks are compared with the mean, so giving and taking pods must use the same mean: that of what was measured.
    Estimates for young pods would raise one mean and not the other, and a node could take a pod that it must then give
    up.
    """
    sizes = {name: capacity(nodes, name) for name in rule.resources()}
    parts = {name: seen(name) / size for name, size in sizes.items()}
    means = {name: rule.mean(nodes, name, mean_of or seen) for name in sizes}
    if rule.by == "score":
        above, calm, low, worst = _by_score(rule, rule.load(nodes, seen=seen, mean_of=mean_of), parts)
    else:
        above, calm, low, worst = _by_marks(rule, parts, means)
    if rule.mode == "product" and rule.by != "use":
        above &= np.fmax.reduce(list(parts.values())) >= rule.least
    return Levels(above, calm, low, worst, sizes, parts, means)


def taking(rule: Options, nodes: Nodes) -> Levels:
    """The levels by which nodes take pods: measured use plus an estimate for young pods."""
    return levels(rule, nodes, rule.seen(nodes), nodes.measured)


def above(rule: Options, nodes: Nodes) -> Mask:
    """Nodes too loaded to take pods. Computes less than taking() by score, as it runs for each pod placed."""
    if rule.by != "score":
        return taking(rule, nodes).above
    use = rule.seen(nodes)
    overloaded = rule.load(nodes, mean_of=nodes.measured) <= rule.lower
    places = np.flatnonzero(overloaded)
    parts = [use(name)[places] / capacity(nodes, name)[places] for name in rule.resources()]
    overloaded[places] = np.fmax.reduce(parts) >= rule.least
    return overloaded


def excess(rule: Options, now: Levels) -> Parts:
    """How much each node has too much of, by resource, in the series' units."""
    if rule.amount == "mean":
        parts = _over(now.parts, now.means)
    elif rule.by == "score":
        parts = _released(rule, -now.worst, now.parts, now.means)
    else:
        parts = _over(now.parts, _calm_limits(rule, now.means))
    return {name: part * now.sizes[name] for name, part in parts.items()}


def fits(rule: Options, now: Levels, due: Iterable[str]) -> Fits:
    """A function of use: which nodes can take a pod from one with too much of `due`, and stay calm."""
    if rule.by == "score":
        return _fits_score(rule, now)
    by_name, most = lows(rule, now.parts, now.means), _calm_limits(rule, now.means)
    low = np.asarray(np.logical_and.reduce([by_name[name] for name in due]))

    def fits_marks(used: Mapping[str, Column], places: Places) -> Mask:
        calm = [used[name] / size[places] <= most[name] for name, size in now.sizes.items()]
        return np.asarray(np.logical_and.reduce([low[places], *calm]))

    return fits_marks


def _fits_score(rule: Options, now: Levels) -> Fits:
    """Means do not change when a pod moves within the pool, so a score changes only with the logarithms of use."""
    before = {name: np.maximum(part, LEAST_USE) for name, part in now.parts.items()}

    def fits_score(used: Mapping[str, Column], places: Places) -> Mask:
        parts = {name: used[name] / size[places] for name, size in now.sizes.items()}
        score = -now.worst[places]
        for name, weight in rule.loads().items():
            score -= 10 * weight * np.log(np.maximum(parts[name], LEAST_USE) / before[name][places])
        return now.low[places] & (score >= rule.calm) & _balanced(parts, rule.balance)

    return fits_score


Four = tuple[Mask, Mask, Mask, Column]


def _by_score(rule: Options, score: Column, parts: Parts) -> Four:
    """Queues 1 and 2 of the thesis, 5.5.4, after its preselection."""
    low = (score >= rule.upper) & (score > 0) & _balanced(parts, rule.balance)
    return (score <= rule.lower) & (score < 0), score >= rule.calm, low, -score


def _balanced(parts: Parts, least: float) -> Mask:
    uses = list(parts.values())
    return balance_score(*uses) >= least


def _over(parts: Parts, marks: dict[str, float]) -> Parts:
    return {name: np.maximum(part - marks[name], 0.0) for name, part in parts.items()}


def _released(rule: Options, score: Column, parts: Parts, means: dict[str, float]) -> Parts:
    """How much a node must release so that its score reaches the threshold, as fractions of its capacity.

    If the use of all resources falls by the same factor, the score rises by ten times the sum of their weights times
    the factor's logarithm, while moves within the pool leave the means as they are. So the factor follows from how far
    the score must rise. In mode "product" only the part above the mean is released.
    """
    over = _over(parts, means)
    weights, paper = rule.loads(), rule.mode == "paper"
    counted = {name: np.ones_like(score) if paper else (over[name] > 0).astype(np.float64) for name in parts}
    weight = sum((weights[name] * mask for name, mask in counted.items()), np.zeros_like(score))
    rise = np.minimum(score - (rule.lower if paper else rule.calm), 0.0)
    remaining = np.exp(np.divide(rise, 10 * weight, out=np.zeros_like(score), where=weight > 0))
    released = {name: (1 - remaining) * part * counted[name] for name, part in parts.items()}
    return released if paper else {name: np.minimum(part, over[name]) for name, part in released.items()}


def _by_marks(rule: Options, parts: Parts, means: dict[str, float]) -> Four:
    """Koordinator's LowNodeLoad, with a third mark in between for calm nodes."""
    most = _calm_limits(rule, means)
    marks = shifted(rule, means)
    worst = np.maximum.reduce([part - marks[name].high for name, part in parts.items()])
    calm = np.logical_and.reduce([part <= most[name] for name, part in parts.items()])
    low = np.logical_or.reduce(list(lows(rule, parts, means).values()))
    return worst > 0, calm, low & np.isfinite(worst), worst


def shifted(rule: Options, means: dict[str, float]) -> dict[str, Marks]:
    """The marks by resource, as fractions of a node: by deviation those above the pool's means."""
    level = means if rule.by == "deviation" else dict.fromkeys(means, 0.0)
    by_resource = {mark.resource: (mark, level[mark.resource]) for mark in rule.marks}
    return {
        name: Marks(name, at + mark.high, at + mark.calm, at + mark.low) for name, (mark, at) in by_resource.items()
    }


def lows(rule: Options, parts: Parts, means: dict[str, float]) -> dict[str, Mask]:
    """The nodes that can take more of a resource, by resource."""
    return {name: parts[name] < mark.low for name, mark in shifted(rule, means).items()}


def _calm_limits(rule: Options, means: dict[str, float]) -> dict[str, float]:
    return {name: mark.calm for name, mark in shifted(rule, means).items()}
