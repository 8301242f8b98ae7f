"""What is remembered of the labels of nodes, by the pods that were there."""

import json
from collections.abc import Sequence

import pytest

from elasticd.kit import BINDING
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Node, Pod
from elasticd.runtime.pools.history import EARLIER, PoolHistory
from tests.kit.pools import NOW, node, pod

Labels = dict[str, str]
Step = tuple[Labels | None, Sequence[Pod]]
"""The labels of node a (None: there is no such node), and the pods there."""

P, Q = pod("p", on="a"), pod("q", on="a")
FRONT, BACK = {"tier": "front"}, {"tier": "back"}
DISK = {"expressions": [{"key": "disk", "operator": "in", "values": ["ssd"]}]}
WITH_BINDING = pod("p", on="a", annotations={BINDING: json.dumps(DISK)})
UNREADABLE = pod("p", on="a", annotations={BINDING: "{"})


def remembered(*steps: Step, keys: frozenset[str] = frozenset({"tier"})) -> dict[str, tuple[Labels, ...]]:
    """By pod, the earlier labels of its node after these looks."""
    history = PoolHistory(PoolPolicy(name="pool", pool=PoolSelect(), strategies=()), NOW)
    past = history.past(NOW)
    for second, (labels, pods) in enumerate(steps):
        nodes: list[Node] = [] if labels is None else [node("a", labels=labels)]
        history.note(nodes, {"a": pods}, NOW + second, keys)
        past = history.past(NOW + second)
    names, own = {each.uid: each.name for each in (P, Q)}, node("a").labels.keys()
    return {
        names[uid]: tuple({key: labels[key] for key in labels.keys() - own} for labels in sets)
        for uid, sets in past.earlier_labels.items()
    }


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([(FRONT, [P])], {}, id="the first look"),
        pytest.param([(FRONT, [P]), (FRONT, [P])], {}, id="no change"),
        pytest.param([(FRONT, [P]), (BACK, [P])], {"p": (FRONT,)}, id="it was there before"),
        pytest.param([(FRONT, []), (BACK, [P])], {}, id="it came with the change"),
        pytest.param([(FRONT, [P]), (BACK, [P, Q])], {"p": (FRONT,)}, id="another came with the change"),
        pytest.param([(FRONT, [P]), (BACK, [])], {}, id="it has gone"),
        pytest.param([(FRONT, [P]), (BACK, [P]), (BACK, [])], {}, id="it went later"),
        pytest.param([(FRONT, [P]), ({}, [P]), (BACK, [P])], {"p": (FRONT, {})}, id="two changes"),
        pytest.param([(FRONT, [P]), (BACK, [P])] * 9, {"p": (BACK, FRONT)}, id="to and fro"),
        pytest.param([(FRONT, [P]), (None, []), (BACK, [P])], {}, id="the node was away"),
        pytest.param([(FRONT | {"disk": "ssd"}, [P]), (FRONT, [P])], {}, id="a label that nothing names"),
        pytest.param([(FRONT | {"disk": "ssd"}, [UNREADABLE]), (FRONT, [P])], {}, id="a binding that is not readable"),
        pytest.param(
            [({"disk": "ssd"}, [WITH_BINDING]), ({}, [WITH_BINDING])],
            {"p": ({"disk": "ssd"},)},
            id="a label that its binding names",
        ),
        pytest.param(
            [(FRONT, [P]), *((BACK | {"seen": str(count)}, [P]) for count in range(20))],
            {"p": (FRONT,)},
            id="many changes of a label that nothing names",
        ),
    ],
)
def test_pods_remember_the_labels_that_their_node_had(
    steps: list[Step], expected: dict[str, tuple[Labels, ...]]
) -> None:
    assert remembered(*steps) == expected


def test_only_the_last_few_sets_of_labels_are_kept() -> None:
    steps: list[Step] = [({"tier": str(count)}, [P]) for count in range(20)]
    assert remembered(*steps) == {"p": tuple({"tier": str(count)} for count in range(19 - EARLIER, 19))}
