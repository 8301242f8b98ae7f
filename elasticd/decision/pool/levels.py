"""Where the nodes of a pool stand, as its strategies say it.

Pure. Knows which word about a node is the most urgent; knows no rule of what is too much.
"""

from collections.abc import Iterable, Sequence

from elasticd.decision.pool.asking import PoolCase
from elasticd.model.moves import NodeLevel, Stand
from elasticd.model.workload import Failure

URGENT: tuple[Stand, ...] = ("gives", "high", "unknown", "level", "takes")
"""The most urgent first: a node takes pods only where nobody has anything against it."""


def levels(case: PoolCase) -> tuple[tuple[NodeLevel, ...], tuple[Failure, ...]]:
    """One word about each node that there is one about, in the order of the first strategy; and who failed."""
    if not case.hooks.implements("explain_nodes"):
        return (), ()
    heard = case.ask("explain_nodes")
    said = [one for _, found in heard.values for one in found if case.columns.index(one.node) is not None]
    return tuple(merged(said)), heard.failures


def merged(said: Iterable[NodeLevel]) -> Sequence[NodeLevel]:
    """The most urgent word about each node; of equal ones the first."""
    found: dict[str, NodeLevel] = {}
    for one in said:
        known = found.get(one.node)
        if known is None or URGENT.index(one.state) < URGENT.index(known.state):
            found[one.node] = one
    return list(found.values())
