"""A policy's bounds change a count in steps, and so far; beyond that a person confirms it."""

import pytest
from msgspec.structs import replace

from elasticd.decision.decide import Case, decide
from elasticd.kit.history import begin, carry, remember, resume
from elasticd.model.disruption import PolicyCaps
from elasticd.model.history import Past
from elasticd.model.policy import Bounds
from elasticd.model.records import Decision, Outcome
from tests.kit.deciding import Wants, case, verdict

CAPS = PolicyCaps(within=60.0, step=10, most=100)


def bounded(bounds: Bounds, current: int, caps: PolicyCaps | None = CAPS) -> Case:
    judged = case([Wants(answer=bounds.max)], current=current)
    return replace(judged, policy=replace(judged.policy, replicas=bounds), caps=caps)


@pytest.mark.parametrize(
    ("bounds", "current", "caps", "expected"),
    [
        pytest.param(Bounds(900, 11), 1, CAPS, ("scale", 11, "TooFewReplicas"), id="ten more at once"),
        pytest.param(Bounds(900, 40), 20, CAPS, ("scale", 40, "TooFewReplicas"), id="twice as many at once"),
        pytest.param(Bounds(900, 900), 1, CAPS, ("scale", 11, "TooFewReplicas"), id="a mistake begins slowly"),
        pytest.param(Bounds(900, 900), 1, None, ("scale", 900, "TooFewReplicas"), id="without a ramp"),
        pytest.param(Bounds(900, 900, 900), 1, CAPS, ("scale", 900, "TooFewReplicas"), id="confirmed min"),
        pytest.param(Bounds(900, 890, 900), 1, CAPS, ("scale", 11, "TooFewReplicas"), id="min is not confirmed"),
        pytest.param(Bounds(5), 80, CAPS, ("scale", 40, "TooManyReplicas"), id="half at once"),
        pytest.param(Bounds(5), 15, CAPS, ("scale", 5, "TooManyReplicas"), id="ten fewer at once"),
        pytest.param(Bounds(5), 500, CAPS, ("scale", 400, "TooManyReplicas"), id="no more than may in all"),
        pytest.param(Bounds(5, 1, 5), 500, CAPS, ("scale", 5, "TooManyReplicas"), id="confirmed max"),
        pytest.param(Bounds(900), 1, CAPS, ("scale", 900, "Wanted"), id="strategies are not slowed"),
    ],
)
def test_bounds_change_a_count_in_steps(
    bounds: Bounds, current: int, caps: PolicyCaps | None, expected: tuple[str, int, str]
) -> None:
    assert verdict(decide(bounded(bounds, current, caps))) == expected


class Course:
    """What follows from a policy for one workload, decided every 20 s, in an hour."""

    def __init__(self, current: int) -> None:
        self.current, self.decisions, self.at = current, list[Decision](), 0.0
        self.past: Past | None = None

    def look(self, bounds: Bounds, until: float) -> None:
        while self.at < until:
            judged = bounded(bounds, self.current)
            at = judged.observation.at + self.at
            self.past = resume(self.past or begin(at, self.current), at, self.current)
            seen = replace(judged.observation, at=at, confirmed=at)
            decision = decide(replace(judged, observation=seen, past=self.past))
            self.past = remember(self.past, decision)
            if decision.action:
                after = decision.action.after
                outcome = Outcome("d", at, "p", decision.workload, "done", self.current, after)
                self.past, self.current = carry(self.past, outcome), after
            self.decisions.append(decision)
            self.at += 20.0


def test_a_ramp_goes_on_and_then_waits_for_a_person() -> None:
    course = Course(1)
    course.look(Bounds(900, 900), 7200.0)
    counts = [decision.action.after for decision in course.decisions if decision.action]
    assert counts == [11, 22, 44, 88, 101]
    last = course.decisions[-1]
    assert verdict(last) == ("hold", 101, "Unconfirmed")
    assert last.message == (
        "101 replicas are below min = 900; a min of 899 more than there were (1) changes 100 replicas at most "
        "(bounds_most of [disruption]) until confirmed = 900 stands under [replicas]"
    )
    assert [limit.name for limit in last.limits if limit.bound] == ["ramp", "bounds"]
    course.look(Bounds(900, 900, 900), 7220.0)
    assert course.current == 900


def test_between_two_steps_the_ramp_says_why_it_waits() -> None:
    course = Course(1)
    course.look(Bounds(900, 900), 40.0)
    assert verdict(course.decisions[-1]) == ("hold", 11, "BoundsPaced")
    assert course.decisions[-1].message.startswith(
        "11 replicas are below min = 900; 10 pods added in the last 60 s; at most 10 in 60 s "
        "(bounds_step of [disruption]); a min of 899 more than there were (1)"
    )


def test_a_corrected_mistake_is_forgotten() -> None:
    course = Course(1)
    course.look(Bounds(900, 900), 900.0)
    course.look(Bounds(900, 1), 960.0)
    assert course.past
    assert course.past.bounds_from is None


def test_a_count_set_by_hand_is_never_taken_back() -> None:
    course = Course(1)
    course.look(Bounds(900, 900), 600.0)
    course.current = 500
    course.look(Bounds(900, 900), 900.0)
    assert course.current == 500
