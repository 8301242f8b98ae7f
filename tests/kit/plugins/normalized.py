"""HPAs that wish for what waits in a queue, whole decisions by them, and what to look at in those."""

from typing import Any

import pytest

from elasticd.api import Decision, Past
from elasticd_plugins.hpa import Hpa
from tests.kit.plugins.builders import EMPTY, WISHING, conditions, decode, ends, judge, queueing

Case = tuple[int, str, str]


def hpa(**options: Any) -> Hpa:
    """One whose wish is what waits in the queue."""
    return decode(Hpa, **(WISHING | options))


def astray(decision: Decision) -> list[str]:
    """The limits that are said to bind though they end elsewhere than at the answer."""
    return [limit.reason for limit in decision.limits if limit.bound and decision.replicas not in (ends(limit) or ())]


def decided(by: Hpa, current: int, wish: int, past: Past = EMPTY, *, bounds: tuple[int, int] = (1, 1000)) -> Decision:
    """A whole decision. Whatever is said to bind ends at the answer; the bounds are always told."""
    decision = judge(by, seen=queueing(current, wish), past=past, bounds=bounds)
    assert decision.wish == wish
    assert astray(decision) == []
    assert [ends(limit) for limit in decision.limits if limit.name == "bounds"] == [bounds]
    return decision


def normalize(by: Hpa, current: int, wish: int, past: Past = EMPTY, *, least: int = 1, most: int = 1000) -> Case:
    """The count, and the reasons of the conditions AbleToScale and ScalingLimited."""
    decision = decided(by, current, wish, past, bounds=(least, most))
    reasons = conditions(decision)
    return decision.replicas, reasons["AbleToScale"], reasons["ScalingLimited"]


def told(decision: Decision) -> list[tuple[str, Any, bool]]:
    """Reason, interval and whether it binds, of the limits but the bounds: the delay first."""
    limits = sorted((each for each in decision.limits if each.name != "bounds"), key=lambda limit: limit.condition)
    return [(limit.reason, ends(limit), limit.bound) for limit in limits]


def behaving(up: dict[str, Any] | None = None, down: dict[str, Any] | None = None, rules: str = "current") -> Hpa:
    """One with these rules of its directions."""
    return hpa(behavior={"scale_up": up or {}, "scale_down": down or {}}, rules=rules)


def rates(*policies: tuple[str, int, int], select: str = "Max") -> dict[str, Any]:
    """Rates without a window."""
    listed = [{"type": kind, "value": value, "period": period} for kind, value, period in policies]
    return {"policies": listed, "select": select, "stabilization_window": 0}


READY, WITHIN = "ReadyForNewScale", "DesiredWithinRange"
HELD, TOP, BOTTOM = "ScaleDownStabilized", "ScaleUpLimit", "ScaleDownLimit"
LEGACY = hpa()
LEGACY_OLD = hpa(rules="1.20")
BOTH_RULES = pytest.mark.parametrize("legacy", [LEGACY, LEGACY_OLD], ids=["current", "1.20"])
UP60, DOWN60 = {"stabilization_window": 60}, {"stabilization_window": 60}
ONE = {"policies": [{"type": "Pods", "value": 1, "period": 60}]}
