"""What the log says of trouble: a line for each change."""

import pytest
from msgspec.structs import replace

from elasticd.decide import held
from elasticd.model import Failure, Ref
from elasticd.policy import Bounds, Policy, Target
from elasticd.records import Decision, Outcome
from elasticd.troubles import Troubles

REF = Ref("shop", "Deployment", "web")
RULE = Policy(name="p", replicas=Bounds(max=3), strategies=(), workload=Target("shop", "web"))
WELL = held(RULE, REF, 1.0, "x", "y")


def failing(*messages: str) -> Decision:
    return replace(WELL, failures=tuple(Failure("hpa", "limit", message) for message in messages))


def test_a_plugin_that_fails_is_told_once_and_once_more_when_it_fails_otherwise_or_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    troubles = Troubles()
    for decision in (WELL, failing("raised A"), failing("raised A"), failing("raised B"), WELL, WELL):
        troubles.decided(decision)
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "policy p: shop/Deployment/web: plugin hpa: limit raised A"),
        ("WARNING", "policy p: shop/Deployment/web: plugin hpa: limit raised B"),
        ("INFO", "policy p: shop/Deployment/web: its plugins work again"),
    ]


def test_an_action_that_failed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    outcome = Outcome("d", 1.0, "p", REF, "failed", 1, 2, message="403 Forbidden")
    Troubles().acted(outcome)
    Troubles().acted(replace(outcome, result="done"))
    assert caplog.messages == ["policy p: shop/Deployment/web: 403 Forbidden"]


def test_a_workload_that_is_no_longer_governed_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    troubles.decided(failing("raised A"))
    troubles.governed(set())
    troubles.decided(failing("raised A"))
    assert len(caplog.messages) == 2
