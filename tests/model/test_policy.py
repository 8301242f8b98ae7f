"""Policies: bounds that make sense, and whom a policy governs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.model.policy import Bounds, Policy, Select, Strategy, Target, Trust
from elasticd.model.workload import Ref, Workload

WEB = Workload(Ref("shop", "Deployment", "web"), "uid", "1", 1, labels={"tier": "web", "team": "a"})


def policy(workload: Target | None = None, select: Select | None = None) -> Policy:
    return Policy(name="p", replicas=Bounds(10), strategies=(), workload=workload, select=select)


@given(st.integers(0, 50), st.integers(1, 50))
def test_bounds_are_in_order_or_refused(least: int, most: int) -> None:
    if least <= most:
        assert Bounds(most, least).min == least
    else:
        with pytest.raises(ValueError, match=rf"^min: must be <= max = {most}, is {least}$"):
            Bounds(most, least)


def test_bounds_have_one_replica_at_least_unless_told_otherwise() -> None:
    assert Bounds(10) == Bounds(max=10, min=1)


@pytest.mark.parametrize(
    ("target", "governs"),
    [
        pytest.param(Target("shop", "web"), True, id="by-name"),
        pytest.param(Target("shop", "api"), False, id="another-name"),
        pytest.param(Target("test", "web"), False, id="another-namespace"),
        pytest.param(Target("shop", "web", "StatefulSet"), False, id="another-kind"),
        pytest.param(Target("shop", "web", api_version="x/v1"), False, id="another-api"),
    ],
)
def test_a_policy_with_a_name_governs_just_that(target: Target, governs: bool) -> None:
    assert policy(target).governs(WEB) is governs
    assert target.ref == Ref(target.namespace, target.kind, target.name, target.api_version)


@pytest.mark.parametrize(
    ("select", "governs"),
    [
        pytest.param(Select(("shop",)), True, id="namespace"),
        pytest.param(Select(("test", "shop")), True, id="one-of-the-namespaces"),
        pytest.param(Select(("*",)), True, id="any-namespace"),
        pytest.param(Select(("sho*",)), False, id="a-star-is-no-pattern"),
        pytest.param(Select(("test",)), False, id="another-namespace"),
        pytest.param(Select(("*",), {"tier": "web"}), True, id="label"),
        pytest.param(Select(("*",), {"tier": "web", "team": "a"}), True, id="all-labels"),
        pytest.param(Select(("*",), {"tier": "web", "team": "b"}), False, id="one-label-differs"),
        pytest.param(Select(("*",), {"zone": ""}), False, id="a-label-it-does-not-have"),
        pytest.param(Select(("*",), kind="StatefulSet"), False, id="another-kind"),
        pytest.param(Select(("*",), api_version="x/v1"), False, id="another-api"),
    ],
)
def test_a_policy_that_selects_governs_what_matches(select: Select, governs: bool) -> None:
    assert policy(select=select).governs(WEB) is governs


def test_a_policy_without_either_governs_nobody() -> None:
    assert not policy().governs(WEB)


def test_a_strategy_reads_everything_unless_it_says() -> None:
    assert Strategy().reads() is None


@pytest.mark.parametrize(
    ("options", "current", "count"),
    [
        pytest.param({"unknown": "hold"}, 5, 5, id="hold"),
        pytest.param({"unknown": "floor", "replicas": 3}, 5, 5, id="above-the-floor"),
        pytest.param({"unknown": "floor", "replicas": 3}, 1, 3, id="below-the-floor"),
        pytest.param({"unknown": "ceiling", "replicas": 3}, 5, 3, id="above-the-ceiling"),
        pytest.param({"unknown": "ceiling", "replicas": 3}, 1, 1, id="below-the-ceiling"),
        pytest.param({"unknown": "fallback", "replicas": 3}, 5, 5, id="a-fallback-lowers-nothing"),
        pytest.param({"unknown": "fallback", "replicas": 3}, 1, 3, id="and-raises"),
        pytest.param({"unknown": "fallback", "replicas": 3, "may_lower": True}, 5, 3, id="unless-it-may"),
    ],
)
def test_where_a_count_goes_for_lack_of_knowledge(options: dict[str, Any], current: int, count: int) -> None:
    trust = Trust(**options)
    assert trust.instead(current) == count
    assert trust.lowers or trust.instead(current) >= current


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"unknown": "ceiling"}, 'replicas: must be given for unknown = "ceiling", is missing'),
        (
            {"unknown": "ceiling", "replicas": 3, "may_lower": True},
            'may_lower: must be left out for unknown = "ceiling", is true',
        ),
    ],
)
def test_a_ceiling_has_a_count_and_lowers_anyway(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=rf"^{problem}$"):
        Trust(**options)
