"""Bald eagle search: places pending pods in batches, so that cpu, memory, bandwidth and disk are used evenly.

Knows the options. The search is in search.py, the score of a plan in fitness.py, and the constraints on a plan in
batches.py.

Source: Geng, Wang, "Improved Bald Eagle Search Algorithm for Kubernetes Resource Scheduling Application", Computer
Systems & Applications 32(4), 2023 (TBESK).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from elasticd.api import Candidate, Meta, Nodes, Placement, PoolStrategy, Struct, hookimpl

from .batches import Way, placements
from .fitness import WEIGHED, Scale
from .search import Habits

_FAVOURED, _OTHER = 0.3, 0.2

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


class _Eagles(PoolStrategy, frozen=True):
    batch: Annotated[int, Meta(ge=1, le=200, description="pods that are placed together")] = 25
    eagles: Annotated[int, Meta(ge=2, le=1000, description="plans that are followed at a time")] = 30
    iterations: Annotated[int, Meta(ge=1, le=10000, description="at most, for a batch")] = 60
    patience: Annotated[
        int, Meta(ge=1, le=10000, description="iterations without a better plan after which a batch is done")
    ] = 20
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="another one gives other plans for the same pods")] = 0
    bandwidth: Annotated[str, Meta(min_length=1, description="the resource")] = "elasticd.io/bandwidth"
    disk: Annotated[str, Meta(min_length=1, description="the resource")] = "ephemeral-storage"
    peak: Annotated[
        PeakSeries, Meta(description="of what nodes really used within the pool's peak_window, beside requests")
    ] = PeakSeries()
    load: Annotated[Weights, Meta(description="of the load that a node will have, v")] = Weights(0.25, 0.25, 0.25, 0.25)
    critical: Annotated[
        float, Meta(gt=0, le=1, description="load that is too much, T; raises all scores alike, so changes no plan")
    ] = 0.9
    share: Annotated[
        Literal["type", "request"],
        Meta(description="what a node has left is weighed by the pod's type there, or by what parts of it it asks for"),
    ] = "type"
    compressible: Annotated[
        Weights, Meta(description="for pods that ask for more cpu than memory, and more bandwidth than disk")
    ] = Weights(_FAVOURED, _OTHER, _FAVOURED, _OTHER)
    incompressible: Annotated[
        Weights, Meta(description="for pods that ask for more memory than cpu, and more disk than bandwidth")
    ] = Weights(_OTHER, _FAVOURED, _OTHER, _FAVOURED)
    balanced: Annotated[Weights, Meta(description="for all other pods")] = Weights(0.25, 0.25, 0.25, 0.25)

    def __post_init__(self) -> None:
        for name in ("load", "compressible", "incompressible", "balanced"):
            total = sum(getattr(self, name).all)
            if abs(total - 1) > 1e-6:
                raise ValueError(f"{name}: must come to 1, is {total:.6g}")
        for name, reserved in (("bandwidth", ("cpu", "memory")), ("disk", ("cpu", "memory", self.bandwidth))):
            if getattr(self, name) in reserved:
                raise ValueError(f"{name}: must be a resource of its own, is {getattr(self, name)!r}")

    def reads(self) -> tuple[str, ...]:
        return ()

    def reads_of_nodes(self) -> tuple[str, ...]:
        return tuple(name for name in self.peak.all if name)

    def scale(self) -> Scale:
        """The weights as arrays."""
        kinds = np.array([self.compressible.all, self.balanced.all, self.incompressible.all])
        mu = kinds if self.share == "type" else None
        return Scale(mu, np.array(self.load.all), np.full(WEIGHED, self.critical))

    def way(self, *, improved: bool, printed: bool = False, greedy: bool = False) -> Way:
        """The settings of a plan, from the options."""
        resources = ("cpu", "memory", self.bandwidth, self.disk)
        habits = Habits(
            eagles=self.eagles, iterations=self.iterations, patience=self.patience, improved=improved, printed=printed
        )
        return Way(resources, self.peak.all, self.scale(), habits, self.batch, self.seed, greedy)


class BaldEagle(_Eagles, tag="bald-eagle", frozen=True):
    """Places pending pods in batches, each by an improved bald eagle search (TBESK) for the plan with the highest mean
    S_N.

    S_N (eq. 27) is R_N + L_N, over cpu, memory, bandwidth and disk: R_N is what a node has left relative to what the
    pod requests, L_N how far the node's load stays below the critical load. Capacity is what is allocatable. Load is
    what is requested; in L_N it is the peak of measured use where that is known. A pod that fits nowhere is left out,
    and no plan exceeds what a node has of any resource that a pod requests, weighed or not. The pods of a batch keep
    their order. The same pods, nodes and options give the same plan: the random numbers follow from `seed` and the
    pods' UIDs.

    What the paper leaves open: weights and sizes are ours; a coordinate of a plan picks one of the nodes that the pod
    may go to, the one with the most room first; positions are reflected at the bounds. `printed` swoops by the
    equations as the paper prints them; the default is BES's own swoop, which the paper means. `greedy` is not in the
    paper: one of the first plans puts each pod in turn on the node with the highest S_N, so the search starts from what
    placing without a search gives; docs/bald-eagle.md compares both. Source: TBESK, sections 3.1 to 3.3, eqs (3)-(31).
    """

    greedy: Annotated[bool, Meta(description="begin with each pod on its best node; false: as the paper does")] = True
    printed: Annotated[bool, Meta(description="swoop by eqs (11)-(12) as printed; false: as BES does")] = False

    @hookimpl
    def place_pods(self, pods: Sequence[Candidate], nodes: Nodes) -> list[Placement]:
        """A placement, with its S_N, for each pod that fits on some node."""
        return _places(pods, nodes, self.way(improved=True, printed=self.printed, greedy=self.greedy))


class BaldEaglePlain(_Eagles, tag="bald-eagle-plain", frozen=True):
    """Places pending pods in batches, each by the original bald eagle search: random first plans and no mutation.

    This is what TBESK is compared with; all else is as in `bald-eagle`. Source: Alsattar, Zaidan, Zaidan, "Novel
    meta-heuristic bald eagle search optimisation algorithm", Artificial Intelligence Review 53(3), 2020.
    """

    @hookimpl
    def place_pods(self, pods: Sequence[Candidate], nodes: Nodes) -> list[Placement]:
        """A placement, with its S_N, for each pod that fits on some node."""
        return _places(pods, nodes, self.way(improved=False))


def _places(pods: Sequence[Candidate], nodes: Nodes, way: Way) -> list[Placement]:
    return list(placements(pods, nodes, way)) if pods and nodes.names else []


@hookimpl
def register_strategies() -> list[type[PoolStrategy]]:
    return [BaldEagle, BaldEaglePlain]
