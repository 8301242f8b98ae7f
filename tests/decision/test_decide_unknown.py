"""Judgement of what is unknown: what the policy chooses, and for how long."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Limit, Past, Recommendation, Strategy, hookimpl
from elasticd.decision.decide import decide
from elasticd.kit.history import begin, remember
from elasticd.limits.behavior import Stabilization
from elasticd.model.policy import Trust
from elasticd.model.records import Decision
from elasticd.model.workload import Failure
from tests.kit.deciding import BROKEN, UNKNOWN, Also, Forbids, Wants, case, verdict


def unknown(trust: Trust, current: int, blind: float | None, limits: Sequence[Strategy] = ()) -> Decision:
    """What is decided when nothing has been known for so many seconds."""
    judged = case([UNKNOWN], limits, current=current)
    since = None if blind is None else judged.observation.at - blind
    policy = replace(judged.policy, trust=trust)
    return decide(replace(judged, policy=policy, past=replace(judged.past, blind_since=since)))


FLOOR = Trust(unknown="floor", replicas=7, after=0)
FALLBACK = Trust(unknown="fallback", replicas=7, after=180)
LOWER = Trust(unknown="fallback", replicas=2, after=180, may_lower=True)
CEILING = Trust(unknown="ceiling", replicas=2, after=180)


def test_past_goes_to_the_hooks() -> None:
    class Remembers(Strategy, tag="remembers", frozen=True):
        @hookimpl
        def recommend_replicas(self, past: Past) -> Recommendation:
            return Recommendation(past.runs[0].replicas + 1, "Past")

    assert decide(case([Remembers()])).replicas == 6


def test_failures_are_kept_with_what_was_said() -> None:
    decision = decide(case([BROKEN, Also(answer=8)]))
    assert decision.failures == (Failure("wants", "recommend_replicas", "raised RuntimeError: no data"),)
    assert [one.strategy for one in decision.recommendations] == ["also"]


@pytest.mark.parametrize(
    ("trust", "current", "blind", "expected"),
    [
        pytest.param(Trust(), 5, 9999.0, ("hold", 5, "NoMetrics"), id="holds-for-ever-by-default"),
        pytest.param(FLOOR, 5, None, ("scale", 7, "Floor"), id="below-the-floor-at-once"),
        pytest.param(Trust(unknown="floor", replicas=7), 5, 179.0, ("hold", 5, "NoMetrics"), id="or-after-a-while"),
        pytest.param(FLOOR, 7, None, ("hold", 7, "NoMetrics"), id="at-the-floor"),
        pytest.param(FLOOR, 9, 9999.0, ("hold", 9, "NoMetrics"), id="above-the-floor"),
        pytest.param(FALLBACK, 5, None, ("hold", 5, "NoMetrics"), id="not-known-for-the-first-time"),
        pytest.param(FALLBACK, 5, 179.0, ("hold", 5, "NoMetrics"), id="not-known-for-a-while"),
        pytest.param(FALLBACK, 5, 180.0, ("scale", 7, "Fallback"), id="not-known-for-too-long"),
        pytest.param(FALLBACK, 9, 9999.0, ("hold", 9, "NoMetrics"), id="the-fallback-lowers-nothing"),
        pytest.param(LOWER, 5, 180.0, ("scale", 2, "Fallback"), id="unless-it-may"),
        pytest.param(LOWER, 5, 10.0, ("hold", 5, "NoMetrics"), id="but-not-too-soon"),
        pytest.param(CEILING, 5, 10.0, ("hold", 5, "NoMetrics"), id="nor-does-a-ceiling"),
        pytest.param(CEILING, 5, 180.0, ("scale", 2, "Ceiling"), id="above-the-ceiling"),
        pytest.param(CEILING, 1, 180.0, ("hold", 1, "NoMetrics"), id="below-the-ceiling"),
        pytest.param(
            Trust(unknown="floor", replicas=99, after=0), 5, None, ("scale", 10, "Floor"), id="bounds-are-last"
        ),
    ],
)
def test_the_policy_chooses_the_action_when_metrics_are_unknown(
    trust: Trust, current: int, blind: float | None, expected: tuple[str, int, str]
) -> None:
    decision = unknown(trust, current, blind)
    assert verdict(decision) == expected
    (active,) = [one for one in decision.conditions if one.type == "ScalingActive"]
    assert (active.status, active.reason) == (False, "NoMetrics")


def test_a_fallback_is_restrained_like_any_wish() -> None:
    slow = Forbids(answer=Limit("Slow", "one at a time", 4, 6))
    assert verdict(unknown(FALLBACK, 5, 999.0, [slow])) == ("scale", 6, "Fallback")
    broken = Forbids(wrong=RuntimeError("bug"))
    assert verdict(unknown(FALLBACK, 5, 999.0, [broken]))[:2] == ("hold", 5)


@given(
    kind=st.sampled_from(["hold", "up-only", "floor", "fallback"]),
    replicas=st.integers(0, 30),
    current=st.integers(1, 10),
    blind=st.none() | st.floats(0, 1e6),
)
def test_nothing_unknown_shrinks_anything_that_may_not(
    kind: Any, replicas: int, current: int, blind: float | None
) -> None:
    trust = Trust(unknown=kind, replicas=replicas if kind in ("floor", "fallback") else None)
    assert unknown(trust, current, blind).replicas >= current


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_blind_time_counts_from_the_first_blind_decision(known: list[bool]) -> None:
    past, since = begin(0.0, 5), None
    for index, fine in enumerate(known):
        at = 10.0 * (index + 1)
        judged = case([Wants(answer=5) if fine else UNKNOWN], confirmed=at, at=at)
        past = remember(past, decide(replace(judged, past=past)))
        since = None if fine else at if since is None else since
        assert past.blind_since == since


def test_the_first_reading_after_an_outage_scales_nothing_in() -> None:
    """The outage lasts longer than the window, and nobody has asked for so few in it."""
    past, window, few = begin(0.0, 5), Stabilization(down=30.0), Wants(answer=1)
    looks = [(few if at > 60 else UNKNOWN, float(at)) for at in range(10, 110, 10)]
    counts = []
    for voice, at in looks:
        decision = decide(replace(case([voice], [window], confirmed=at, at=at), past=past))
        past = remember(past, decision)
        counts.append(decision.replicas)
    assert counts == [5] * 8 + [1] * 2


def test_pause_and_stale_view_do_not_change_the_blind_time() -> None:
    """Who was paused for an hour has not been blind for an hour; and who is blind stays so through an old view."""
    past = begin(0.0, 5)
    paused = decide(case([UNKNOWN], current=0))
    assert not paused.blind
    assert remember(past, paused).blind_since is None
    blind = remember(past, decide(case([UNKNOWN], at=10.0, confirmed=10.0)))
    assert blind.blind_since == 10.0
    old = decide(case([UNKNOWN], at=500.0, confirmed=10.0))
    assert (old.reason, remember(blind, old).blind_since) == ("StaleCluster", 10.0)
    known = decide(case([Wants(answer=5)], at=510.0, confirmed=510.0))
    assert remember(blind, known).blind_since is None


def test_the_first_moment_of_time_is_a_moment_too() -> None:
    blind = remember(begin(0.0, 5), decide(case([UNKNOWN], at=0.0, confirmed=0.0)))
    assert remember(blind, decide(case([UNKNOWN], at=9.0, confirmed=9.0))).blind_since == 0.0
