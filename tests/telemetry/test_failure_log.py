"""What the log says of trouble: a line for each change."""

import pytest
from msgspec.structs import replace

from elasticd.decision.decide import held
from elasticd.model.actions import Result
from elasticd.model.listener import Governed
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.records import Decision, Outcome, Sizing
from elasticd.model.workload import Failure, Recommendation, Ref, Resources
from elasticd.telemetry.failure_log import FailureLog, asked

REF = Ref("shop", "Deployment", "web")
RULE = Policy(name="p", replicas=Bounds(max=3), strategies=(), workload=Target("shop", "web"))
HELD = held(RULE, REF, 1.0, "x", "y")
"""Nothing was asked."""
WELL = replace(HELD, interval_by="policy", wish=2, recommendations=(Recommendation(2, "Wanted"),))


def failing(*messages: str) -> Decision:
    return replace(WELL, failures=tuple(Failure("hpa", "limit", message) for message in messages))


def test_a_plugins_failure_is_logged_once_until_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    troubles = FailureLog()
    for decision in (WELL, failing("raised A"), failing("raised A"), failing("raised B"), WELL, WELL):
        troubles.on(decision)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "policy p: shop/Deployment/web: plugin hpa: limit raised A"),
        ("WARNING", "policy p: shop/Deployment/web: plugin hpa: limit raised B"),
        ("INFO", "policy p: shop/Deployment/web: its plugins work again"),
    ]


def failed(hook: str) -> Decision:
    return replace(HELD, reason="PluginFailed", interval_by="policy", failures=(Failure("mine", hook, "raised A"),))


UNKNOWN = replace(HELD, interval_by="policy", reason="NotTrusted")
NO_OPINION = replace(HELD, interval_by="policy", reason="NoRecommendation")
GROWS = replace(WELL, verdict="scale", current=1, replicas=2)
FALLS = replace(WELL, verdict="scale", current=3, replicas=2)
SIZED = replace(UNKNOWN, sizing=Sizing((Resources("web", {"cpu": 1.0}),)))


@pytest.mark.parametrize(
    ("hook", "between", "well"),
    [
        pytest.param("recommend_replicas", [HELD, UNKNOWN, SIZED], WELL, id="asked for a count"),
        pytest.param("recommend_replicas", [HELD], NO_OPINION, id="without an opinion"),
        pytest.param("limit", [HELD, UNKNOWN, NO_OPINION], WELL, id="a limit"),
        pytest.param("rank_pods", [HELD, WELL, GROWS], FALLS, id="asked who goes, as the count falls"),
        pytest.param("recommend_resources", [HELD, WELL], SIZED, id="asked for requests"),
        pytest.param("poll_interval", [HELD], UNKNOWN, id="asked for the pace"),
        pytest.param("", [HELD, UNKNOWN, NO_OPINION], WELL, id="one that blocked"),
        pytest.param("", [HELD, UNKNOWN], SIZED, id="one that blocked, about requests alone"),
    ],
)
def test_recovery_is_logged_only_after_the_failed_hook_is_called(
    hook: str, between: list[Decision], well: Decision, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    troubles = FailureLog()
    for decision in (failed(hook), *between, failed(hook), *between):
        troubles.on(decision)
    assert len(caplog.messages) == 1, caplog.messages
    troubles.on(well)
    assert caplog.messages[1:] == ["policy p: shop/Deployment/web: its plugins work again"]


def test_a_hold_for_another_reason_counts_as_no_plugin_call() -> None:
    assert asked(HELD) == frozenset()


def test_an_action_that_fails_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    troubles, other = FailureLog(), Ref("shop", "Deployment", "api")
    forbidden = Outcome("d", 1.0, "p", REF, "failed", 1, 2, 403, "cannot patch", "Forbidden")
    done = replace(forbidden, result="done", code=200, message="", reason="")
    late = replace(forbidden, code=0, message="no answer in time", reason="Timeout")
    resized = replace(done, after=1)
    for outcome in (
        done,
        forbidden,
        resized,
        replace(forbidden, after=3),
        resized,
        late,
        forbidden,
        replace(late, workload=other),
        done,
    ):
        troubles.on(outcome)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "policy p: shop/Deployment/web: cannot patch"),
        ("WARNING", "policy p: shop/Deployment/web: no answer in time"),
        ("WARNING", "policy p: shop/Deployment/web: cannot patch"),
        ("WARNING", "policy p: shop/Deployment/api: no answer in time"),
        ("INFO", "policy p: shop/Deployment/web: its actions are done again"),
    ]
    assert [outcome.workload for outcome in troubles.undone] == [other]
    troubles.on(Governed(frozenset()))
    assert troubles.undone == ()


@pytest.mark.parametrize(
    ("results", "told"),
    [
        pytest.param(["conflict"] * 2, False, id="two"),
        pytest.param(["conflict"] * 3, True, id="three in a row"),
        pytest.param(["refused"] * 3, True, id="three refusals, as by the breaker"),
        pytest.param(["conflict", "conflict", "done", "conflict"], False, id="three, with one that was done between"),
        pytest.param(["conflict"] * 4 + ["done"], False, id="done at last"),
    ],
)
def test_conflicts_and_refusals_in_a_row_are_told(results: list[Result], *, told: bool) -> None:
    troubles = FailureLog()
    for result in results:
        troubles.on(Outcome("d", 1.0, "p", REF, result, 1, 2, 409, "the name is taken", "Conflict"))
    assert bool(troubles.undone) == told


def test_an_action_that_failed_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    outcome = Outcome("d", 1.0, "p", REF, "failed", 1, 2, message="403 Forbidden")
    FailureLog().on(outcome)
    FailureLog().on(replace(outcome, result="done"))
    assert caplog.messages == ["policy p: shop/Deployment/web: 403 Forbidden"]


def test_a_workload_that_is_no_longer_governed_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    troubles = FailureLog()
    troubles.on(failing("raised A"))
    troubles.on(Governed(set()))
    troubles.on(failing("raised A"))
    assert len(caplog.messages) == 2
