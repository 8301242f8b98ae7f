"""Calls the hooks of a pool's plugins, and checks their answers. For workloads: decision/workload/asking.py."""

import operator
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.text import LONGEST, one_line
from elasticd.decision.workload.asking import Asks
from elasticd.kit.node_table import NodeTable
from elasticd.model.moves import Move, NodeLevel, PoolPast, Promise
from elasticd.model.placement import (
    EvictionOrder,
    Mend,
    Placement,
    PoolObservation,
    Refusal,
    Scores,
    Selection,
    Spared,
    Turn,
    Victims,
)
from elasticd.model.policy import PoolPolicy
from elasticd.model.workload import Answers, Pod


class PoolCase(Struct, frozen=True, eq=False):
    """All that a plan for a pool depends on. `off` names implementations that have failed too often."""

    policy: PoolPolicy
    observation: PoolObservation
    columns: NodeTable
    hooks: Asks
    off: frozenset[str] = frozenset()
    past: PoolPast = PoolPast()
    node: int = -1
    """The index of the node whose eviction order is asked for."""
    promises: tuple[Promise, ...] = ()
    reserved: tuple[tuple[str, Pod], ...] = ()
    """Pods that wait, counted in the table on the nodes that are being made free for them, by the names of these."""
    rejected_by: Mapping[str, frozenset[str]] = {}
    """By the UID of a pending pod, the nodes that it or another of its controller could not be bound to, or whose
    kubelets did not start it."""

    def ask(self, hook: str, **arguments: Any) -> Answers:
        """Call a hook; an answer that makes no sense counts as a failure."""
        shared = {"nodes": self.columns, "observation": self.observation, "past": self.past}
        check, size = _CHECKS[hook], len(self.columns.names)

        def read(value: Any, _: str) -> Any:
            check(value, size)
            return _cut_texts(value)

        return self.hooks.ask(hook, {"policy": self.policy, **shared, **arguments}, self.off, read)


def _check_items(value: Any, kind: type) -> None:
    if not isinstance(value, Sequence) or not all(isinstance(item, kind) for item in value):
        raise TypeError(f"must be a sequence of {kind.__name__}s")


def _check_mask(value: Any, size: int) -> None:
    if not isinstance(value, np.ndarray) or (value.dtype, value.shape) != (np.bool_, (size,)):
        raise TypeError(f"must be an array of {size} booleans, one for each node")


def _check_refusals(value: Any, size: int) -> None:
    _check_items(value, Refusal)
    for refusal in value:
        _check_mask(refusal.nodes, size)
        if any(lack.dtype != np.int64 or lack.shape != (size,) for lack in refusal.missing.values()):
            raise TypeError(f"missing must have arrays of {size} whole numbers, one for each node")


def _check_selection(value: Any, size: int) -> None:
    if not isinstance(value, Selection):
        raise TypeError("must be a Selection")
    _check_mask(value.nodes, size)


def _check_scores(value: Any, size: int) -> None:
    if not isinstance(value, Scores):
        raise TypeError("must be Scores")
    values: Any = value.values
    if not isinstance(values, np.ndarray) or (values.dtype, values.shape) != (np.float64, (size,)):
        raise TypeError(f"values must be an array of {size} doubles, one for each node")
    if not np.isfinite(value.weight) or np.isinf(values).any():
        raise ValueError("weight and values must not be infinite")


def _check_placements(value: Any, size: int) -> None:
    _check_items(value, Placement)
    if any(not 0 <= placement.node < size or placement.pod < 0 for placement in value):
        raise ValueError(f"must name nodes from 0 to {size - 1}, and pods from 0")
    if len({placement.pod for placement in value}) < len(value):
        raise ValueError("must place each pod once")


def _check_victims(value: Any, _: int) -> None:
    if not isinstance(value, Victims | Spared):
        raise TypeError("must be Victims or Spared")


def _check_order(value: Any, _: int) -> None:
    turns: Any = value.turns if isinstance(value, EvictionOrder) else [None]
    if not all(isinstance(turn, Turn) and isinstance(turn.pod, Pod) for turn in turns):
        raise TypeError("must be an EvictionOrder of Turns of pods")
    if not all(
        isinstance(text, str) for text in (value.rule, *(text for turn in turns for text in (turn.stays, turn.why)))
    ):
        raise TypeError("must be told in words")
    if len({turn.pod.uid for turn in turns}) < len(turns):
        raise ValueError("must name each pod once")


def _check_moves(value: Any, _: int) -> None:
    _check_items(value, Move)
    amounts = ((move.benefit, move.disruption, *move.use.values(), *move.relief) for move in value)
    if not all(isfinite(amount) for move_amounts in amounts for amount in move_amounts):
        raise ValueError("benefit, disruption, use and relief must be finite")
    if not all(move.fits is None or callable(move.fits) for move in value):
        raise TypeError("fits must be a function of what nodes use")
    if not all(isinstance(move.waits, str) for move in value):
        raise TypeError("waits must be a sentence")


def _check_levels(value: Any, _: int) -> None:
    _check_items(value, NodeLevel)
    _decode_levels(msgspec.json.encode(value))
    if len({level.node for level in value}) < len(value):
        raise ValueError("must name each node once")


_decode_levels = msgspec.json.Decoder(list[NodeLevel]).decode


_TEXTS: Mapping[type, tuple[str, ...]] = {
    Refusal: ("reason", "mends"),
    Mend: ("text",),
    Selection: ("why", "fault", "match"),
    Victims: ("why",),
    Spared: ("why", "mends"),
    EvictionOrder: ("turns", "rule"),
    Turn: ("stays", "why"),
    Move: ("reason", "message", "waits"),
    NodeLevel: ("message",),
}
"""The fields of an answer that hold text for people, or records with such text."""


def _cut_texts(value: Any) -> Any:
    """Cut the texts of an answer to a line each, as the log, the pages and the journal keep them all. Returns the same
    object where none is longer."""
    if isinstance(value, str):
        return one_line(value) if len(value) > LONGEST else value
    if isinstance(value, Sequence):
        parts = [_cut_texts(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else tuple(parts)
    cut = {}
    for name in _TEXTS.get(type(value), ()):
        field = getattr(value, name)
        if field and (brief := _cut_texts(field)) is not field:
            cut[name] = brief
    return replace(value, **cut) if cut else value


_CHECKS: Mapping[str, Callable[[Any, int], None]] = {
    "filter_nodes": _check_refusals,
    "select_nodes": _check_selection,
    "score_nodes": _check_scores,
    "place_pods": _check_placements,
    "select_victims": _check_victims,
    "explain_victims": _check_order,
    "rebind_pods": _check_moves,
    "rebalance_nodes": _check_moves,
    "explain_nodes": _check_levels,
}
