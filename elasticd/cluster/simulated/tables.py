"""What the tables of a simulated cluster's TOML have in common: names, counts and amounts.

Knows how an amount is written; knows no single table.
"""

import math
from collections.abc import Collection, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from elasticd.base.units import parse_quantity

Quantity = str | float
"""A Kubernetes quantity such as "250m" or "16Gi", or a plain number of cores or bytes."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
MOST = 100_000
"""Things that are alike, or pods of one workload: more than a cluster has, and as many as a simulation can hold."""

Number = Annotated[int, Meta(ge=1, le=MOST)]
Delay = Annotated[float, Meta(ge=0, le=86400, description="seconds")]
Moment = Annotated[float, Meta(ge=0, description="seconds since the start")]


def amount(key: str, quantity: Quantity) -> float:
    """A quantity in its base unit. Raises ValueError naming the key unless it is finite and >= 0."""
    try:
        value = parse_quantity(quantity) if isinstance(quantity, str) else quantity
    except ValueError as problem:
        raise ValueError(f"{key}: {problem}") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"{key}: must be finite and >= 0, is {quantity}")
    return value


def check_positive(key: str, quantity: Quantity) -> None:
    """Raises ValueError naming the key unless it is finite and > 0."""
    if amount(key, quantity) == 0:
        raise ValueError(f"{key}: must be > 0, is {quantity}")


def further(resources: Mapping[str, Quantity]) -> dict[str, float]:
    """Amounts of resources other than those that have keys of their own. Raises ValueError naming the key."""
    for name in ("cpu", "memory", "pods"):
        if name in resources:
            raise ValueError(f"resources: must not have {name}, which has a key of its own")
    return {name: amount(f"resources.{name}", quantity) for name, quantity in resources.items()}


def check_unique(key: str, names: Collection[str]) -> None:
    """Raises ValueError naming the first entry whose name was given before."""
    names_so_far: set[str] = set()
    for index, name in enumerate(names):
        if name in names_so_far:
            raise ValueError(f"{key}[{index}].name: must be given once, is {name!r} again")
        names_so_far.add(name)


class CountedTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One or, with a count, several alike: NAME, or NAME-1 to NAME-count."""

    name: Name
    count: Number = 1

    def names(self) -> list[str]:
        """The names it stands for."""
        return [self.name] if self.count == 1 else [f"{self.name}-{i}" for i in range(1, self.count + 1)]
