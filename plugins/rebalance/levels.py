"""How loaded the nodes of a pool are: which have too much, which are calm, which can take more, and how much is too
much.

Knows columns of numbers and the marks they are held against; knows no pods and no past.
"""

import numpy as np

from elasticd.api import Column, Mask, Nodes, Seen, Struct, balance_score, capacity

from .options import Options


class Levels(Struct, frozen=True, eq=False):
    """Of each node: whether it has too much (`above`), is calm, can take more (`low`), and how bad it is (`worst`, the
    greater the worse; NaN: what it uses is not known, and then it is none of these).

    `sizes` are what nodes have, `parts` what they use of that, `means` the pool's, all by resource. `excess` is how
    much too much each has, `up_to` the most that those which can take more may use (NaN for others), both in the
    series' unit.
    """

    above: Mask
    calm: Mask
    low: Mask
    worst: Column
    sizes: dict[str, Column]
    parts: dict[str, Column]
    means: dict[str, float]
    excess: dict[str, Column]
    up_to: dict[str, Column]


def levels(rule: Options, nodes: Nodes, seen: Seen) -> Levels:
    """As the rule has it."""
    sizes = {name: capacity(nodes, name) for name in rule.resources()}
    parts = {name: seen(name) / size for name, size in sizes.items()}
    means = {name: rule.mean(nodes, name, seen) for name in sizes}
    found = (_by_score if rule.by == "score" else _by_marks)(rule, nodes, seen, parts, means)
    excess = {name: part * sizes[name] for name, part in found.excess.items()}
    up_to = {name: np.where(found.low, part * sizes[name], np.nan) for name, part in found.up_to.items()}
    above = found.above
    if rule.by != "use" and rule.mode == "product":
        above = above & (np.fmax.reduce(list(parts.values())) >= rule.least)
    return Levels(above, found.calm, found.low, found.worst, sizes, parts, means, excess, up_to)


class _Found(Struct, frozen=True, eq=False):
    """Levels, with amounts as parts of nodes."""

    above: Mask
    calm: Mask
    low: Mask
    worst: Column
    excess: dict[str, Column]
    up_to: dict[str, float]


def _by_score(rule: Options, nodes: Nodes, seen: Seen, parts: dict[str, Column], means: dict[str, float]) -> _Found:
    """Queues 1 and 2 of the thesis, 5.5.4, after its preselection. Where each resource is at most exp(-calm/10) times
    the mean the score is calm or better, so that is how far a node may be filled."""
    score = rule.load(nodes, seen=seen)
    low = (score >= rule.upper) & (score > 0)
    if len(parts) > 1:
        low &= balance_score(*parts.values()) >= rule.balance
    above = (score <= rule.lower) & (score < 0)
    excess = _released(rule, score, parts, means)
    up_to = {name: float(np.exp(-rule.calm / 10)) * mean for name, mean in means.items()}
    return _Found(above, score >= rule.calm, low, -score, excess, up_to)


def _released(rule: Options, score: Column, parts: dict[str, Column], means: dict[str, float]) -> dict[str, Column]:
    """What a node is to release, as parts of it.

    mean: down to the pool's mean. threshold: with all resources less by the same factor the score rises by ten times
    the sum of their weights times its logarithm, while moves within the pool leave the means as they are; so the factor
    follows from how far the score must rise. In mode product only what exceeds the mean is released, and not below it.
    """
    over = {name: np.maximum(part - means[name], 0.0) for name, part in parts.items()}
    if rule.amount == "mean":
        return over
    weights, paper = rule.loads(), rule.mode == "paper"
    counted = {name: np.ones_like(score) if paper else (over[name] > 0).astype(np.float64) for name in parts}
    weight = sum((weights[name] * one for name, one in counted.items()), np.zeros_like(score))
    rise = np.minimum(score - (rule.lower if paper else rule.calm), 0.0)
    left = np.exp(np.divide(rise, 10 * weight, out=np.zeros_like(score), where=weight > 0))
    released = {name: (1 - left) * part * counted[name] for name, part in parts.items()}
    return released if paper else {name: np.minimum(part, over[name]) for name, part in released.items()}


def _by_marks(rule: Options, _: Nodes, __: Seen, parts: dict[str, Column], means: dict[str, float]) -> _Found:
    """Koordinator's LowNodeLoad, with a mark between for what is calm."""
    level = {name: means[name] if rule.by == "deviation" else 0.0 for name in parts}
    beyond = [part - (rule.marks[name].high + level[name]) for name, part in parts.items()]
    worst = np.maximum.reduce(beyond)
    calm = np.logical_and.reduce([part <= rule.marks[name].calm + level[name] for name, part in parts.items()])
    low = np.logical_and.reduce([part < rule.marks[name].low + level[name] for name, part in parts.items()])
    up_to = {name: rule.marks[name].calm + level[name] for name in parts}
    most = means if rule.amount == "mean" else up_to
    excess = {name: np.maximum(part - most[name], 0.0) for name, part in parts.items()}
    return _Found(worst > 0, calm, low, worst, excess, up_to)
