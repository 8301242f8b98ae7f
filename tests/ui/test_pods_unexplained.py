"""Why nothing was decided about a pod, and where it is, in words."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.reports import PodFound, PodStatus, PoolAbout
from elasticd.ports.cluster import Stray
from elasticd.runtime.pools.report import found_pod
from elasticd.ui.pods import place, unclaimed, undecided
from tests.kit.pools import NOW, pod

POOL = PoolAbout("batch", "act", "elasticd", ("shop", "film"))
SEEN = PodStatus(NOW, NOW - 1, leading=True, pools=(POOL,), inhabited=True)
WEB = PodFound("uid-web", "elasticd", policy="batch")


def seen(**more: Any) -> PodStatus:
    return replace(SEEN, **more)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        pytest.param(
            seen(inhabited=False, near=', did you mean "shop"?'),
            'no pod is seen in namespace sopp, did you mean "shop"?',
            id="no such namespace",
        ),
        pytest.param(
            seen(near=', did you mean "sopp/web"?'),
            'no such pod waits or runs, did you mean "sopp/web"?',
            id="no such pod",
        ),
        pytest.param(
            seen(found=PodFound("u", "default-scheduler")),
            'its schedulerName is "default-scheduler", and policies are about pods of "elasticd"',
            id="another scheduler",
        ),
        pytest.param(
            seen(found=PodFound("u", "Elasticd")),
            'its schedulerName is "Elasticd", did you mean "elasticd"?',
            id="a misspelt scheduler",
        ),
        pytest.param(
            seen(found=PodFound("u", "elasticd")),
            "no policy is about namespace sopp (batch: shop, film)",
            id="a namespace that no policy is about",
        ),
        pytest.param(
            seen(found=PodFound("u", "elasticd"), pools=(replace(POOL, namespaces=("*",), labels={"tier": "a"}),)),
            "no policy is about pods with its labels (batch: tier=a)",
            id="labels that no policy is about",
        ),
        pytest.param(seen(found=WEB, pools=()), "no policy in force has a table [pool]", id="no pool"),
        pytest.param(seen(found=WEB), "policy batch is about it, and has yet to look at it", id="it has just come"),
        pytest.param(
            seen(found=replace(WEB, node="a")),
            "policy batch is about it, and it runs on a: nothing has been decided since",
            id="it runs already",
        ),
        pytest.param(
            seen(found=WEB, leading=False),
            "policy batch is about it, and another elasticd leads: ask there",
            id="another daemon leads",
        ),
        pytest.param(seen(confirmed=NOW - 300), "the cluster was last heard of 300 s ago", id="nothing is known"),
        pytest.param(seen(confirmed=0.0), "the cluster has not been read yet", id="nothing was ever known"),
    ],
)
def test_it_is_told_why_nothing_was_decided(what: PodStatus, told: str) -> None:
    assert undecided("sopp/web", what) == told


@pytest.mark.parametrize(
    ("what", "told"),
    [
        pytest.param(seen(found=WEB), "it waits for a node", id="it waits"),
        pytest.param(seen(found=replace(WEB, node="a")), "it is on a", id="it runs"),
        pytest.param(seen(found=replace(WEB, node="a", deleted=True)), "it is being deleted on a", id="it is leaving"),
        pytest.param(seen(), "it is gone: no pod of this name waits or runs", id="it is gone"),
        pytest.param(
            seen(found=replace(WEB, uid="anew", node="b")), "another pod of this name is on b", id="it was recreated"
        ),
        pytest.param(
            seen(confirmed=NOW - 300),
            "it is not known where it is: the cluster was last heard of 300 s ago",
            id="nothing is known",
        ),
    ],
)
def test_it_is_told_where_a_pod_is_now(what: PodStatus, told: str) -> None:
    assert place(what, "uid-web") == told


@pytest.mark.parametrize(
    ("really", "on", "told"),
    [
        pytest.param("a", "", "in the dry run it was evicted; in the cluster it still runs on a", id="evicted"),
        pytest.param("a", "b", "in the dry run it was moved to b; in the cluster it still runs on a", id="moved"),
        pytest.param("", "b", "in the dry run it was bound to b; in the cluster it still waits for a node", id="bound"),
    ],
)
def test_a_dry_run_shows_its_action_and_the_real_state(really: str, on: str, told: str) -> None:
    policy = PoolPolicy(name="batch", pool=PoolSelect(), strategies=())
    pod_ = found_pod(pod("web", on=on or really), [policy], None, Stray(pod("web"), really, on))
    assert place(seen(found=pod_), "uid-web") == told
    assert place(seen(found=pod_), "another") == told.replace("run it was", "run another pod of this name was")
    assert (pod_.node, pod_.phase) == (really, "Running" if really else "Pending")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        pytest.param(
            seen(found=PodFound("u", "elasticd")),
            "no policy is about namespace sopp (batch: shop, film)",
            id="nobody is",
        ),
        pytest.param(seen(found=WEB), "", id="one places it"),
        pytest.param(seen(found=PodFound("u", "other", policies=("batch",))), "", id="one moves it"),
        pytest.param(seen(), "", id="it is gone"),
        pytest.param(seen(found=PodFound("u", "elasticd"), confirmed=NOW - 91), "", id="it is not known"),
    ],
)
def test_unclaimed_says_why_no_policy_applies_to_a_pod(what: PodStatus, told: str) -> None:
    assert unclaimed("sopp/web", what) == told
