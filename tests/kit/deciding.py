"""A case to decide, with strategies and limits that answer what a test wants."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from elasticd.api import Observation, Recommendation, Strategy, hookimpl
from elasticd.decision.decide import Case
from elasticd.kit.history import begin
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.records import Decision
from elasticd.registry import Hooks
from elasticd.testing import observation


class Wants(Strategy, tag="wants", frozen=True):
    """Answers what it is given."""

    answer: Any = None
    every: Any = None
    wrong: Any = None

    @hookimpl
    def recommend_replicas(self) -> Any:
        if self.wrong is not None:
            raise self.wrong
        return Recommendation(self.answer, "Wanted", "as told") if isinstance(self.answer, int) else self.answer

    @hookimpl
    def poll_interval(self) -> Any:
        return self.every


class Also(Wants, tag="also", frozen=True):
    """Another voice, first by name."""


class Forbids(Strategy, tag="forbids", frozen=True):
    """Limits as it is told."""

    answer: Any = None
    wrong: Any = None

    @hookimpl
    def limit(self) -> Any:
        if self.wrong is not None:
            raise self.wrong
        return self.answer


class Allows(Forbids, tag="allows", frozen=True):
    """Another limit, first by name."""


def seen(current: int, **changes: Any) -> Observation:
    return replace(observation([0.5] * min(current, 3), replicas=current), **changes)


def case(
    voices: Sequence[Strategy] = (),
    limits: Sequence[Strategy] = (),
    current: int = 5,
    bounds: tuple[int, int] = (1, 10),
    off: frozenset[str] = frozenset(),
    **changes: Any,
) -> Case:
    shown = seen(current, **changes)
    policy = Policy(
        name="p",
        replicas=Bounds(bounds[1], bounds[0]),
        strategies=tuple(voices),
        limits=tuple(limits),
        workload=Target("default", "web"),
        mode="act",
    )
    return Case(policy, shown, begin(shown.at, current), Hooks((*voices, *limits)), off)


def verdict(decision: Decision) -> tuple[str, int, str]:
    return decision.verdict, decision.replicas, decision.reason


BROKEN = Wants(wrong=RuntimeError("no data"))
UNKNOWN = Also(answer=Recommendation(None, "NoMetrics", "the source is down"))
OLD: dict[str, Any] = {"confirmed": observation().at - 121}
