"""What `check` advises: who looks more often than its sources have something new."""

from collections.abc import Sequence
from typing import Any

import pytest

from elasticd.api import hookimpl
from elasticd.config.checking import advise
from elasticd.model.policy import Bounds, Foreign, Policy, Strategy, Target, Trust
from elasticd.ports.source import Source
from elasticd.sources.resource_metrics import ResourceMetrics
from tests.kit.policies import settings_of


class Fast(Strategy, tag="fast", frozen=True):
    """Looks each second."""

    series: tuple[str, ...] | None = ("cpu",)

    def reads(self) -> tuple[str, ...] | None:
        return self.series

    def fastest(self) -> float:
        return 1.0


class Calm(Fast, tag="calm", frozen=True):
    """Looks as often as its policy."""

    def fastest(self) -> Any:
        return None


class Queue(Source, tag="queue", frozen=True):
    """Has one series, at any time."""

    def offers(self) -> tuple[str, ...]:
        return ("queue",)


class Anything(Source, tag="anything", frozen=True):
    """Cannot say what it has."""


def policy(*strategies: Strategy, sources: tuple[str, ...] = (), interval: float = 30.0, **more: Any) -> Policy:
    return Policy(
        name="p",
        replicas=Bounds(9),
        strategies=strategies,
        workload=Target("shop", "web"),
        interval=interval,
        **{"trust": Trust(sources=sources), **more},
    )


class Counts(Strategy, tag="counts", frozen=True):
    """Says how many replicas."""

    @hookimpl
    def recommend_replicas(self) -> None:
        return None


class Ranks(Strategy, tag="ranks", frozen=True):
    """Says which pods go first."""

    @hookimpl
    def rank_pods(self) -> None:
        return None


class Both(Counts, tag="both", frozen=True):
    """Says both."""

    @hookimpl
    def rank_pods(self) -> None:
        return None


SLOW = ResourceMetrics()
LINE = (
    "p.toml: strategy fast: to look every 1 s brings nothing: resource-metrics usually has something new every 15 s "
    "(if not, say so by its option resolution)"
)
OWN = LINE.replace("strategy fast", "interval").replace("1 s", "5 s", 1)


@pytest.mark.parametrize(
    ("one", "sources", "lines"),
    [
        pytest.param(policy(Fast()), [SLOW], [LINE], id="each-second-on-15-s"),
        pytest.param(policy(Fast()), [ResourceMetrics(resolution=1)], [], id="a-source-known-to-be-faster"),
        pytest.param(policy(Fast()), [ResourceMetrics(resolution=15)], [LINE], id="a-source-known-to-be-slow"),
        pytest.param(policy(), [SLOW], [], id="nobody-asks-for-more-than-the-policy"),
        pytest.param(policy(Calm(), interval=5), [SLOW], [OWN], id="the-policys-own-interval"),
        pytest.param(policy(Fast()), [SLOW, Queue()], [LINE], id="a-faster-source-of-something-else"),
        pytest.param(policy(Fast(("cpu", "queue"))), [SLOW, Queue()], [], id="a-faster-source-that-it-reads-too"),
        pytest.param(policy(Fast(None)), [SLOW, Queue()], [], id="whoever-reads-everything"),
        pytest.param(policy(Fast(None), sources=("resource-metrics",)), [SLOW, Queue()], [LINE], id="the-one-it-names"),
        pytest.param(policy(Fast()), [], [], id="no-source"),
    ],
)  # fmt: skip
def test_who_looks_too_often_is_reported(one: Policy, sources: Sequence[Source], lines: list[str]) -> None:
    assert [*advise([one], settings_of(sources))] == lines


COUNT, FIRST = Counts(priority=1), Ranks(priority=1)
IN_VAIN = "strategy[0].priority: brings nothing: "
ALL_ALIKE = 'combine: "priority" brings nothing: all strategies have the same, so the largest count wins'


@pytest.mark.parametrize(
    ("one", "lines"),
    [
        pytest.param(policy(COUNT, Both(), combine="priority"), [], id="two counts by priority"),
        pytest.param(policy(COUNT, Both()), [IN_VAIN + 'combine is "max"'], id="two counts by size"),
        pytest.param(policy(COUNT, Both(), combine="mean"), [IN_VAIN + 'combine is "mean"'], id="the mean of two"),
        pytest.param(policy(COUNT), [IN_VAIN + "no other strategy says how many replicas"], id="one count"),
        pytest.param(policy(FIRST, Both()), [], id="two orders"),
        pytest.param(policy(FIRST, Counts()), [IN_VAIN + "no other strategy says which pods go first"], id="one order"),
        pytest.param(
            policy(Both(priority=1)),
            [IN_VAIN + "no other strategy says which pods go first or how many replicas"],
            id="one of each",
        ),
        pytest.param(
            policy(Fast(priority=1), Both()),
            [IN_VAIN + "it says neither how many replicas nor which pods go first"],
            id="an interval",
        ),
        pytest.param(policy(Counts(), Ranks()), [], id="no priority"),
        pytest.param(
            policy(Counts(), Ranks(), combine="mean"),
            ["combine: brings nothing: one strategy alone says how many replicas"],
            id="the mean of one",
        ),
        pytest.param(policy(Counts(), Both(), combine="priority"), [ALL_ALIKE], id="priorities that nobody has"),
        pytest.param(policy(COUNT, Both(priority=1), combine="priority"), [ALL_ALIKE], id="equal priorities"),
        pytest.param(policy(Counts(), Both(), combine="mean"), [], id="the mean of two without priority"),
        pytest.param(
            policy(Counts(), trust=Trust(unknown="up-only", after=60)),
            ['trust.after: brings nothing: unknown is "up-only"'],
            id="a wait for nothing",
        ),
        pytest.param(policy(Counts(), trust=Trust(unknown="floor", replicas=2, after=60)), [], id="a wait"),
        pytest.param(
            policy(Counts(), foreign=Foreign(strikes=0, within=60, pause=60)),
            ["foreign.within: brings nothing: strikes is 0", "foreign.pause: brings nothing: strikes is 0"],
            id="times of no strikes",
        ),
        pytest.param(policy(Counts(), foreign=Foreign(strikes=1, within=60, pause=60)), [], id="times of strikes"),
    ],
)
def test_an_option_that_others_leave_without_effect_is_reported(one: Policy, lines: list[str]) -> None:
    assert [*advise([one], None)] == [f"p.toml: {line}" for line in lines]
