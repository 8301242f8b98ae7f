"""The options of bald eagle strategies beside the search: the weights of resources, and the series of their use.

Knows which options contradict each other; knows no arithmetic.
"""

from typing import Annotated

from elasticd.api import Meta, Struct

Weight = Annotated[float, Meta(ge=0, le=1, description="of the four, which come to 1")]
Name = Annotated[str, Meta(description="series of nodes, in the resource's unit (cpu: cores); empty: requests instead")]


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    """How much each resource counts. They come to 1."""

    cpu: Weight
    memory: Weight
    bandwidth: Weight
    disk: Weight

    @property
    def all(self) -> tuple[float, float, float, float]:
        return self.cpu, self.memory, self.bandwidth, self.disk


class PeakSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the peak use of each resource is read."""

    cpu: Name = "cpu"
    memory: Name = "memory"
    bandwidth: Name = ""
    disk: Name = ""

    @property
    def all(self) -> tuple[str, str, str, str]:
        return self.cpu, self.memory, self.bandwidth, self.disk


def check_weights(**weights: Weights) -> None:
    """Refuse weights that do not sum to 1."""
    for name, weight in weights.items():
        total = sum(weight.all)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"{name}: must come to 1, is {total:.6g}")
