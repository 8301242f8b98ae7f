"""What `check` advises: who looks more often than its sources have something new."""

from collections.abc import Sequence
from typing import Any

import pytest

from elasticd.config.checking import advise
from elasticd.model.policy import Bounds, Policy, Strategy, Target, Trust
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


def policy(*strategies: Strategy, sources: tuple[str, ...] = (), interval: float = 30.0) -> Policy:
    return Policy(
        name="p",
        replicas=Bounds(9),
        strategies=strategies,
        workload=Target("shop", "web"),
        trust=Trust(sources=sources),
        interval=interval,
    )


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
