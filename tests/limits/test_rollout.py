"""The limit `rollout`: what may move while pods of an old template are replaced."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.kit.surge import HASH
from elasticd.limits.behavior import Rollout
from elasticd.model.workload import REVISION, UNSEEN, Observation
from elasticd.testing import check_strategy, judge
from tests.kit.plugins.builders import REF, Wants, decode, ends, pod, seen


def rolling(text: str = "1 of 5 pods are of the newest template") -> Observation:
    shown = seen(5)
    return replace(shown, workload=replace(shown.workload, rollout=text))


@pytest.mark.parametrize(
    ("forbids", "text", "interval"),
    [
        pytest.param("down", "", None, id="no rollout"),
        pytest.param("both", "", None, id="none, whatever is forbidden"),
        pytest.param("down", "busy", (5, None), id="no scale-in"),
        pytest.param("both", "busy", (5, 5), id="no change"),
    ],
)
def test_a_rollout_forbids(forbids: Any, text: str, interval: Any) -> None:
    assert ends(Rollout(forbids=forbids).limit(rolling(text))) == interval


@pytest.mark.parametrize(
    ("revision", "interval"),
    [pytest.param("old", (5, None), id="a pod is replaced yet"), pytest.param("new", None, id="all are of it")],
)
def test_a_rollout_that_is_taken_back_forbids_too(revision: str, interval: Any) -> None:
    """A StatefulSet's status says nothing of it: its pods do."""
    pods = [pod(f"web-{index}", labels={REVISION: "new" if index else revision}) for index in range(5)]
    shown = seen(5, pods)
    workload = replace(shown.workload, ref=replace(REF, kind="StatefulSet"), new_revision="new")
    assert ends(Rollout().limit(replace(shown, workload=workload))) == interval


def unseen(*templates: str, kind: str = "Deployment") -> Observation:
    """A workload of five replicas whose newest spec was not seen, with pods of these templates."""
    owners = [("ReplicaSet", f"{REF.name}-{template}", "rs") for template in templates]
    pods = [
        pod(f"p{index}", labels={HASH: template}, owner=owner)
        for index, (template, owner) in enumerate(zip(templates, owners, strict=True))
    ]
    shown = seen(5, pods, status=len(pods))
    return replace(shown, workload=replace(shown.workload, ref=replace(REF, kind=kind), rollout=UNSEEN))


@pytest.mark.parametrize(
    ("shown", "interval"),
    [
        pytest.param(unseen("a", "a", "a"), (3, None), id="admission may refuse its ReplicaSet more"),
        pytest.param(unseen("a", "a", "b"), (5, None), id="pods of two templates"),
        pytest.param(unseen(*"aaaaaa"), (5, None), id="more pods than the count"),
        pytest.param(unseen("a", "a", "a", kind="StatefulSet"), (5, None), id="no Deployment"),
    ],
)
def test_replicas_that_were_never_made_may_go(shown: Observation, interval: Any) -> None:
    assert ends(Rollout().limit(shown)) == interval


@pytest.mark.parametrize(
    ("forbids", "wish", "replicas"),
    [
        pytest.param("down", 9, 9, id="it may grow"),
        pytest.param("down", 2, 5, id="it may not shrink"),
        pytest.param("both", 9, 5, id="nor grow, if that is forbidden too"),
    ],
)
def test_what_is_decided_meanwhile(forbids: Any, wish: int, replicas: int) -> None:
    found = judge(Wants(replicas=wish), seen=rolling(), limits=[Rollout(forbids=forbids)])
    assert found.replicas == replicas
    if replicas == 5:
        assert (found.verdict, found.reason, found.message) == (
            "hold",
            "RolloutInProgress",
            "1 of 5 pods are of the newest template",
        )


def test_a_direction_that_is_none_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="up"):
        decode(Rollout, forbids="up")


def test_nothing_confuses_it() -> None:
    assert Rollout().reads() == ()
    assert check_strategy(Rollout()) == []
