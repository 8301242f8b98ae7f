"""How loaded the nodes of a pool are, as its strategies judge them.

Pure. Knows which level of a node is the most urgent; knows no rule of what is too much.
"""

from collections.abc import Iterable, Sequence

from elasticd.decision.pool.asking import PoolCase
from elasticd.model.moves import NodeLevel, Stand
from elasticd.model.workload import Failure

URGENT: tuple[Stand, ...] = ("gives", "high", "unknown", "level", "takes")
"""The most urgent first: a node takes pods only where nobody has anything against it."""


def levels(case: PoolCase) -> tuple[tuple[NodeLevel, ...], tuple[Failure, ...]]:
    """The most urgent level of each node that a strategy judges, in the order of the first strategy; and who failed."""
    if not case.hooks.implements("explain_nodes"):
        return (), ()
    answers = case.ask("explain_nodes")
    opinions = [
        level
        for _, node_levels in answers.values
        for level in node_levels
        if case.columns.index(level.node) is not None
    ]
    return tuple(merged(opinions)), answers.failures


def merged(opinions: Iterable[NodeLevel]) -> Sequence[NodeLevel]:
    """The most urgent level of each node; of equal ones the first."""
    by_node: dict[str, NodeLevel] = {}
    for level in opinions:
        previous = by_node.get(level.node)
        if previous is None or URGENT.index(level.state) < URGENT.index(previous.state):
            by_node[level.node] = level
    return list(by_node.values())
