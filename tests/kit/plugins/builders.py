"""Workloads, pods and samples in few words, and whole decisions about them, to test strategies with."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import pytest

from elasticd import testing
from elasticd.api import (
    Change,
    Container,
    Decision,
    Limit,
    Observation,
    Past,
    Pod,
    Point,
    Quality,
    Recommendation,
    Ref,
    Run,
    Sample,
    Series,
    Strategy,
    Workload,
    hookimpl,
)
from elasticd.base.errors import ConfigError
from elasticd.config import load_policy

NOW = 1_000_000.0
OLD = NOW - 3600
REF = Ref("shop", "Deployment", "checkout")


def pod(name: str, cpu: float | None = 1.0, **changes: Any) -> Pod:
    """A pod Running and Ready for long, with one container that asks for `cpu` cores (None: for nothing)."""
    requests = {} if cpu is None else {"cpu": cpu}
    fields: dict[str, Any] = {
        "phase": "Running",
        "containers": (Container("web", requests),),
        "started": OLD,
        "ready": True,
        "ready_changed": OLD + 20,
    }
    return Pod("shop", name, f"uid-{name}", **(fields | changes))


def pods(count: int, cpu: float | None = 1.0, **changes: Any) -> list[Pod]:
    """Pods p0, p1 and so on."""
    return [pod(f"p{index}", cpu, **changes) for index in range(count)]


def sample(name: str, value: float, container: str = "", *, age: float = 10.0, window: float = 30.0) -> Sample:
    """A sample of a pod ("": of the workload), measured `age` seconds ago."""
    return Sample(value, NOW - age, NOW, window, name, container)


def use(*values: float | None) -> list[Sample]:
    """One sample for each of p0, p1 and so on; None: no sample."""
    return [sample(f"p{index}", value) for index, value in enumerate(values) if value is not None]


def series(
    samples: Iterable[Sample],
    name: str = "cpu",
    quality: Quality = Quality.FRESH,
    message: str = "",
    *,
    may_raise: bool = False,
    measured: float = NOW - 10,
) -> Series:
    """A series from a test, its newest sample of that time."""
    return Series(name, "test", quality, tuple(samples), message, measured, may_raise=may_raise)


def seen(
    replicas: int,
    pods: Iterable[Pod] = (),
    *series: Series,
    status: int | None = None,
    selector: str = "app=checkout",
    at: float = NOW,
    fault: tuple[str, str] = ("", ""),
) -> Observation:
    """What is known of a workload of so many replicas, fresh from the cluster."""
    counted = replicas if status is None else status
    workload = Workload(REF, "uid", "1", replicas, counted, selector)
    return Observation(at, workload, tuple(pods), {each.name: each for each in series}, confirmed=at, fault=fault)


WISHING: dict[str, Any] = {"metrics": [{"type": "External", "series": "queue", "average_value": 1}], "tolerance": 0}
"""Options of an HPA that wishes for one replica for each that waits in the queue, exactly."""


def queueing(current: int, waiting: int, at: float = NOW) -> Observation:
    """A workload of so many replicas, and how many wait in its queue."""
    return seen(current, (), series([sample("", float(waiting))], "queue"), at=at)


def before(
    wishes: Sequence[tuple[float, int]] = (),
    changes: Sequence[tuple[float, int, int]] = (),
    interval: float | None = None,
    *,
    points: Mapping[str, Sequence[tuple[float, float, int]]] | None = None,
    age: float = NOW - OLD,
) -> Past:
    """A past of (age in seconds, count) wishes, (age, before, after) scalings and (age, total, pods) points by series,
    oldest first; begun `age` seconds ago."""
    runs = tuple(Run(NOW - age, NOW - age, count) for age, count in wishes)
    carried_out = tuple(Change(NOW - age, start, end) for age, start, end in changes)
    came_to = {
        name: tuple(Point(NOW - at, total, count) for at, total, count in told) for name, told in (points or {}).items()
    }
    return Past(NOW - age, runs, carried_out, interval, points=came_to)


EMPTY = before()
S = TypeVar("S", bound=Strategy)


def decode(kind: type[S], **options: Any) -> S:
    """A strategy as it comes from its TOML table."""
    return msgspec.convert({"type": kind.__struct_config__.tag, **options}, kind)


def refusal(folder: Path, plugin: ModuleType, table: str, *, least: int = 1) -> str:
    """The one line by which a policy with this strategy is refused, without the file's name."""
    path = folder / "web.toml"
    head = 'workload = { namespace = "shop", name = "web" }\n'
    path.write_text(f"{head}replicas = {{ min = {least}, max = 9 }}\n[[strategy]]\n{table}\n")
    with pytest.raises(ConfigError) as caught:
        load_policy(path, testing.registry(plugin))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


class Wants(Strategy, tag="wants", frozen=True):
    """Wishes for so many replicas, to see what limits make of it."""

    replicas: int

    def reads(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        """Always the same."""
        return Recommendation(self.replicas, "Wanted")


def judge(
    *strategies: Strategy,
    seen: Observation,
    past: Past = EMPTY,
    limits: Sequence[Strategy] = (),
    bounds: tuple[int, int] = (1, 1000),
) -> Decision:
    """The daemon's own decision, with nothing remembered unless it is given. No implementation may fail."""
    decision = testing.judge(*strategies, seen=seen, past=past, limits=limits, bounds=bounds)
    assert decision.failures == ()
    assert decision.reason != "LimitsContradict"
    return decision


def conditions(decision: Decision) -> dict[str, str]:
    """The reason of each of the HPA's conditions."""
    return {condition.type: condition.reason for condition in decision.conditions}


def ends(limit: Limit | None) -> tuple[int | None, int | None] | None:
    """The interval of a limit."""
    return None if limit is None else (limit.lowest, limit.highest)
