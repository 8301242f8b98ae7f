"""What plugin authors test strategies for pools with: it lets good ones pass, and catches bad ones."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from elasticd.api import (
    Candidate,
    EvictionOrder,
    Move,
    NodeLevel,
    Nodes,
    Placement,
    Pod,
    PoolObservation,
    Refusal,
    Scores,
    Strategy,
    Turn,
    Victims,
    hookimpl,
)
from elasticd.testing import check_strategy

COUNTER = itertools.count(1)


class Sound(Strategy, tag="sound", frozen=True):
    """Answers every question about a pool."""

    def reads_of_nodes(self) -> tuple[str, ...]:
        return ("cpu", "memory")

    def reads(self) -> tuple[str, ...]:
        return ("cpu",)

    @hookimpl
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> Sequence[Refusal]:
        return [Refusal("Crowded", nodes.requested("pods") > 2, curable=True)]

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        return Scores(nodes.use("cpu") + nodes.peak("memory"))

    @hookimpl
    def place_pods(self, pods: Sequence[Candidate], nodes: Nodes) -> Sequence[Placement]:
        open_ = [np.flatnonzero(one.nodes) for one in pods]
        return [Placement(index, int(places[0])) for index, places in enumerate(open_) if len(places)]

    @hookimpl
    def select_victims(self, pod: Pod, node: int, nodes: Nodes, observation: PoolObservation) -> Victims | None:
        use = observation.use.get("cpu", {})
        idle = [one for one in nodes.pods(node) if use.get(f"{one.namespace}/{one.name}", 1.0) < 0.5]
        return Victims(tuple(idle)) if idle else None


class Fickle(Strategy, tag="fickle", frozen=True):
    """Scores otherwise each time."""

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        return Scores(np.full(len(nodes.names), float(next(COUNTER))))


class Grabby(Strategy, tag="grabby", frozen=True):
    """Labels what it is shown."""

    @hookimpl
    def filter_nodes(self, pod: Pod) -> None:
        pod.labels["seen"] = "yes"


class Hasty(Strategy, tag="hasty", frozen=True):
    """Divides by what a node may not have."""

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        return Scores(1000 / nodes.allocatable("cpu"))


class Narrow(Strategy, tag="narrow", frozen=True):
    """Answers for one node, whatever their number."""

    @hookimpl
    def filter_nodes(self) -> Sequence[Refusal]:
        return [Refusal("Narrow", np.zeros(1, dtype=np.bool_))]


class Firsts(Strategy, tag="firsts", frozen=True):
    """Places pods it was not asked about, on nodes that may not take them."""

    @hookimpl
    def place_pods(self, pods: Sequence[Candidate], nodes: Nodes) -> Sequence[Placement]:
        return [Placement(len(pods), 0)] if nodes.names else []


class Restless(Strategy, tag="restless", frozen=True):
    """Moves pods that wait."""

    @hookimpl
    def rebalance_nodes(self, observation: PoolObservation) -> Sequence[Move]:
        return [Move(pod, "Restless") for pod in observation.pending]


class Dreamy(Strategy, tag="dreamy", frozen=True):
    """Says where nodes stand that there are not."""

    @hookimpl
    def explain_nodes(self) -> Sequence[NodeLevel]:
        return [NodeLevel("nowhere", "level")]


class Greedy(Strategy, tag="greedy", frozen=True):
    """Preempts a pod twice, and on every node."""

    @hookimpl
    def select_victims(self, nodes: Nodes) -> Victims:
        return Victims((*nodes.pods(0), *nodes.pods(0)))


class Confused(Strategy, tag="confused", frozen=True):
    """Names pods of the first node on each."""

    @hookimpl
    def explain_victims(self, nodes: Nodes) -> EvictionOrder:
        return EvictionOrder(tuple(Turn(pod) for pod in nodes.pods(0)))


@pytest.mark.slow
def test_a_sound_strategy_passes() -> None:
    assert check_strategy(Sound()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        pytest.param(Fickle(), "plain: answered differently when asked again", id="not deterministic"),
        pytest.param(Grabby(), "plain: changed what it was shown", id="changes what it is shown"),
        pytest.param(
            Hasty(), "odd nodes: score_nodes raised RuntimeWarning: divide by zero encountered in divide", id="divides"
        ),
        pytest.param(Narrow(), "must be an array of 3 booleans, one for each node", id="another size"),
        pytest.param(Firsts(), "plain: place_pods placed a pod that is no candidate", id="no candidate"),
        pytest.param(
            Firsts(), "plain: place_pods placed a pod on a node that may not take it", id="a node that may not take it"
        ),
        pytest.param(Restless(), "plain: rebalance_nodes moves a pod that is on no node", id="moves those that wait"),
        pytest.param(Dreamy(), "plain: explain_nodes names a node that there is not", id="a node that there is not"),
        pytest.param(
            Greedy(), "plain: select_victims named a pod twice, or one of another node", id="another node's victims"
        ),
        pytest.param(
            Confused(), "plain: explain_victims named a pod twice, or one of another node", id="another node's line"
        ),
    ],
)
def test_a_bad_strategy_is_caught(bad: Strategy, problem: str) -> None:
    assert problem in "\n".join(check_strategy(bad))
