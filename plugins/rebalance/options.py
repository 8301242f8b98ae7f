"""The options of rebalance, and which of them contradict each other.

Knows the options alone.
"""

from typing import Annotated, Literal

from elasticd.api import Meta, Struct
from elasticd.kit import Loaded

LOOKS = 20
"""How many past evaluations are kept, to know that a node was too loaded and has not been calm since."""

Mark = Annotated[float, Meta(ge=-1, le=1)]


class Marks(Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of what a node can allocate of a resource; by deviation so much above the pool's mean (below: negative)."""

    resource: Annotated[str, Meta(min_length=1, description="its name, which is that of a series of nodes and of pods")]
    high: Annotated[Mark, Meta(description="too loaded above this")]
    calm: Annotated[Mark, Meta(description="calm again up to this, and takes no pod that would bring it beyond")]
    low: Annotated[Mark, Meta(description="takes pods of a node that has too much of it below this")]


class Options(Loaded, frozen=True, kw_only=True):
    """See Rebalance."""

    by: Annotated[
        Literal["score", "use", "deviation"],
        Meta(description="what makes a node too loaded: its score, marks, or marks above the pool's mean"),
    ] = "score"
    lower: Annotated[float, Meta(ge=-100, le=-0.1, description="by score: too loaded from here down")] = -1.0
    calm: Annotated[float, Meta(ge=-100, le=0, description="by score: calm again from here up")] = -0.5
    upper: Annotated[float, Meta(ge=0, le=100, description="by score: takes pods from here up")] = 0.5
    balance: Annotated[
        float,
        Meta(ge=0, le=10, description="by score: who takes pods has at least so much of 10 - 10 x |cpu - memory|"),
    ] = 7.0
    least: Annotated[
        float,
        Meta(ge=0, le=1, description="not by marks: a node that uses less than this part of each resource is level"),
    ] = 0.2
    marks: Annotated[
        tuple[Marks, ...], Meta(description="by use or deviation: of each resource of which a node may have too much")
    ] = ()
    amount: Annotated[
        Literal["threshold", "mean"], Meta(description="how far a node is relieved: until it is calm, or to the mean")
    ] = "threshold"
    observations: Annotated[
        int, Meta(ge=1, le=LOOKS, description="looks in a row in which a node is too loaded before pods go")
    ] = 3
    settle: Annotated[
        float, Meta(ge=0, le=3600, description="seconds that a node which gave up pods is left alone")
    ] = 90.0
    cooldown: Annotated[
        float, Meta(ge=0, le=3600, description="seconds that a controller whose pods were moved is left alone at first")
    ] = 300.0
    avoid: Annotated[
        float, Meta(ge=0, le=1e6, description="how much worse a node that is too loaded scores for pods to be placed")
    ] = 100.0
    mode: Annotated[
        Literal["product", "paper"],
        Meta(description="paper: pods that may end go, at once, by what was measured last; no controllers' pods"),
    ] = "product"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cpu + self.memory:
            raise ValueError("cpu: must be > 0, or memory, is 0 as memory is")
        if self.calm < self.lower:
            raise ValueError(f"calm: must be >= lower = {self.lower:g}, is {self.calm:g}")
        if self.by == "score" and self.marks:
            raise ValueError('marks: must be left out for by = "score" (the default), is given')
        if self.by != "score" and not self.marks:
            raise ValueError(f'marks: must be given for by = "{self.by}", is missing')
        if self.by != "score" and self.mode == "paper":
            raise ValueError(f'by: must be "score" for mode = "paper", is "{self.by}"')
        if len({mark.resource for mark in self.marks}) < len(self.marks):
            raise ValueError(f"marks: must name each resource once, is {', '.join(self.resources())}")
        for index, mark in enumerate(self.marks):
            if not mark.low <= mark.calm <= mark.high:
                order = f"{mark.low:g}, {mark.calm:g}, {mark.high:g}"
                raise ValueError(f"marks[{index}]: must be low <= calm <= high, is {order}")
            if self.by == "use" and mark.low <= 0:
                raise ValueError(f'marks[{index}].low: must be > 0 for by = "use", is {mark.low:g}')

    def reads(self) -> tuple[str, ...]:
        return self.resources()

    def reads_of_nodes(self) -> tuple[str, ...]:
        return super().reads_of_nodes() if self.by == "score" else self.resources()

    def resources(self) -> tuple[str, ...]:
        """The resources of which a node may have too much."""
        return tuple(self.loads()) if self.by == "score" else tuple([mark.resource for mark in self.marks])

    def looks_back(self) -> int:
        """Enough to know that a node is not calm yet."""
        return 0 if self.mode == "paper" else LOOKS
