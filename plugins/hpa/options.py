"""The options of an HPA: metrics with their targets, and behavior, in the words of autoscaling/v2.

Knows which combinations contradict each other; knows nothing of pods or samples.
"""

from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from elasticd.api import Meta, Struct
from elasticd.kit import Pick, Rate, milli, parse_quantity

Quantity = Annotated[str | int | float, Meta(description="quantity, as 250m or 1.5Gi")]
Name = Annotated[str, Meta(min_length=1, description="as its source calls it")]
Percent = Annotated[int, Meta(ge=1, description="percent of the request")]
Tolerance = Annotated[float, Meta(ge=0, description="part of the target that is near enough, 0.1 = 10 %")]
Window = Annotated[int, Meta(ge=0, le=3600, description="seconds")]


@lru_cache(maxsize=1024)
def quantity_milli(quantity: Quantity) -> int:
    """Thousandths of "250m", "1.5Gi" or a number. Raises ValueError when it is not a finite quantity."""
    return milli(parse_quantity(quantity) if isinstance(quantity, str) else float(quantity))


class _Metric(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """One metric and its one target."""

    @property
    def failure(self) -> str:
        """The HPA's reason where it cannot be computed."""
        return f"FailedGet{type(self).__name__}Metric"


class _OfResource(_Metric, frozen=True, kw_only=True):
    """A resource of the pods, and its target."""

    kind: ClassVar[str]
    resource: Name
    utilization: Percent | None = None
    average_value: Quantity | None = None

    def __post_init__(self) -> None:
        _check_one("utilization", self.utilization, "average_value", self.average_value)

    @property
    def source(self) -> str:
        return self.resource

    @property
    def description(self) -> str:
        """The HPA's words for it, as in "... above target"."""
        percentage = "" if self.utilization is None else " utilization (percentage of request)"
        return f"{self.resource} {self.kind}{percentage}"


class Resource(_OfResource, tag="Resource", frozen=True):
    """A resource of the pods: `utilization` in percent of their requests, or `average_value` for each pod."""

    kind: ClassVar[str] = "resource"
    container: ClassVar[str] = ""

    @property
    def label(self) -> str:
        return self.resource


class ContainerResource(_OfResource, tag="ContainerResource", frozen=True, kw_only=True):
    """The same of one container of each pod."""

    kind: ClassVar[str] = "container resource"
    container: Name

    @property
    def label(self) -> str:
        return f"{self.resource} of {self.container}"


class _OfSeries(_Metric, frozen=True, kw_only=True):
    """A series under any name."""

    series: Name

    @property
    def source(self) -> str:
        return self.series

    @property
    def label(self) -> str:
        return f"{type(self).__name__.lower()}/{self.series}"

    @property
    def description(self) -> str:
        return f"{type(self).__name__.lower()} metric {self.series}"


class Pods(_OfSeries, tag="Pods", frozen=True, kw_only=True):
    """A series with a sample for each pod, averaged over them."""

    resource: ClassVar[str] = ""
    container: ClassVar[str] = ""
    utilization: ClassVar[None] = None
    average_value: Quantity

    def __post_init__(self) -> None:
        _check_quantity("average_value", self.average_value)


class _OfWhole(_OfSeries, frozen=True, kw_only=True):
    """A series of the workload as a whole, and its target."""

    value: Quantity | None = None
    average_value: Quantity | None = None

    def __post_init__(self) -> None:
        _check_one("value", self.value, "average_value", self.average_value)


class Object(_OfWhole, tag="Object", frozen=True):
    """A series with one sample: `value` for all pods together, or `average_value` for each."""


class External(_OfWhole, tag="External", frozen=True):
    """A series of any samples, summed: `value` for all pods together, or `average_value` for each."""


Metric = Resource | ContainerResource | Pods | Object | External


class Direction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scaling one way. What is left out is the HPA's default of that direction. Up: window 0 s, the larger of 4 pods
    and 100 % in 15 s. Down: `downscale_stabilization`, 100 % in 15 s."""

    stabilization_window: Window | None = None
    policies: (
        Annotated[tuple[Rate, ...], Meta(min_length=1, description="how much at once; left out, as in the HPA")] | None
    ) = None
    select: Pick = "Max"
    tolerance: Tolerance | None = None


class Behavior(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """autoscaling/v2's behavior. Given at all, both directions have rules."""

    scale_up: Direction = Direction()
    scale_down: Direction = Direction()


UP_POLICIES = (Rate("Pods", 4, 15), Rate("Percent", 100, 15))
DOWN_POLICIES = (Rate("Percent", 100, 15),)
Rules = Annotated[Literal["current", "1.20"], Meta(description="of which Kubernetes")]


def _check_one(first: str, value: Quantity | None, second: str, alternative: Quantity | None) -> None:
    if value is not None and alternative is not None:
        raise ValueError(f"{first}: must be left out beside {second}, is {value!r}")
    if value is None and alternative is None:
        raise ValueError(f"{first}: must be given, or {second}, is missing")
    _check_quantity(first if alternative is None else second, value if alternative is None else alternative)


def _check_quantity(key: str, quantity: Quantity | None) -> None:
    if quantity is None:
        return
    try:
        thousandths = quantity_milli(quantity)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    if thousandths <= 0:
        raise ValueError(f"{key}: must be > 0, is {quantity!r}")
