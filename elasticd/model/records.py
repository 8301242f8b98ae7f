"""What the journal holds: decisions, what they were made from, and what came of them.

Frozen records, readable for as long as a journal is kept: a field that is added has a default. Knows nothing of files.
"""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from elasticd.model.actions import Create, Mark, Remove, Resize, Result, Scale
from elasticd.model.workload import Condition, Failure, Limit, Recommendation, Ref, Resizing, Resources, Series

Verdict = Literal["scale", "keep", "hold"]

DISABLED, BY_HAND = "ScalingDisabled", "ScaledToZeroByHand"
"""The reasons of decisions about workloads that a person has scaled to zero."""

FOREIGN_OWNER = "ForeignOwner"
"""The reason why a count, or what pods request, is left as it is: somebody else sets it."""


class Sizing(Struct, frozen=True, gc=False, omit_defaults=True):
    """What containers should request, the pods that are to request it now, why others are left as they are, and pods
    that have not been given yet what they request."""

    resources: tuple[Resources, ...] = ()
    resizes: tuple[Resize, ...] = ()
    unresized: str = ""
    resizing: tuple[Resizing, ...] = ()

    @property
    def foreign(self) -> str:
        """Who else says what the pods request, in a sentence, where elasticd yields to them; empty: nobody."""
        reason, _, message = self.unresized.partition(": ")
        return message if reason == FOREIGN_OWNER else ""


class Decision(Struct, frozen=True, gc=False, tag="decision"):
    """All that went into one answer about one workload, and the answer.

    `verdict` is scale (the count changes), keep (it is right as it is) or hold (it cannot be known, or must
    not be changed). `wish` is what the strategies together asked for, `replicas` what is left of it after
    all limits.
    """

    id: str
    at: float
    policy: str
    workload: Ref
    mode: Literal["act", "observe"]
    current: int
    replicas: int
    verdict: Verdict
    reason: str
    message: str
    uid: str = ""
    wish: int | None = None
    recommendations: tuple[Recommendation, ...] = ()
    limits: tuple[Limit, ...] = ()
    conditions: tuple[Condition, ...] = ()
    failures: tuple[Failure, ...] = ()
    series: tuple[Series, ...] = ()
    pods: int = 0
    interval: float = 0.0
    interval_by: str = ""
    action: Scale | Create | None = None
    blind: bool = False
    """Whether it could not be known what is needed."""
    marks: tuple[Mark, ...] = ()
    """What is written before the action, in this order; when one cannot be, the action is not begun."""
    recall: float = 0.0
    """Seconds for which what its series came to is remembered."""
    removals: tuple[Remove, ...] = ()
    """Jobs to delete, after the action."""
    sizing: Sizing = Sizing()
    """Changes of what pods request come last."""
    confirmed: float | None = None
    """When the cluster last proved what is known of the workload; None: no strategy was asked."""
    surged: int | UnsetType = UNSET
    """Replicas of `current` that a surge has added for a time; unset: none."""
    zero: str | UnsetType = UNSET
    """The revision of a Deployment that is at 0 by decision; unset: it is not, or has none."""

    @property
    def own_count(self) -> int:
        """`current` without what a surge has added."""
        return self.current - self.surged if isinstance(self.surged, int) else self.current

    @property
    def asked(self) -> int | None:
        """The wish as the limits of the wish itself leave it: what the past remembers of it."""
        if self.wish is None:
            return None
        wish = self.wish
        for limit in self.limits:
            if limit.of_wish:
                wish = limit.clamp(wish)
        return wish


class Basis(Struct, frozen=True, gc=False, tag="basis", omit_defaults=True):
    """What the next decisions of a policy about a workload are made from, as far as it has changed since the last one.

    `parts` are by name, as JSON: "policy", "workload", "pod/NAME" and so on (decision/basis.py); those `gone` are no
    longer there. `whole`: none of before is left. Without a workload it is about the nodes, which decisions of all
    policies see. Samples are not among them, as each decision has its own.
    """

    at: float
    policy: str = ""
    workload: Ref | None = None
    parts: dict[str, Raw] = {}
    fields: dict[str, Raw] = {}
    """Of parts that were there before: only the fields that have changed."""
    like: dict[str, str] = {}
    """Of a part that is new and among the `fields`: the part of before that it is like, but for these and its name.
    Without one it is like the last of its kind, in the order of their names."""
    by: dict[str, dict[str, float | tuple[float, int]]] = {}
    """By node, then resource, by how much what is free has changed; where the sum is off, also by how many doubles."""
    gone: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    """Jobs that are gone, and remembered as they were last."""
    whole: bool = False


class Reopened(Struct, frozen=True, gc=False, tag="reopened"):
    """A daemon began to lead: windows over the past open afresh, because another may have acted before."""

    at: float


class Outcome(Struct, frozen=True, gc=False, tag="outcome"):
    """What came of a decision's action: done, refused (by us), conflict (the world moved), failed, or
    observed (mode observe: it would have been done). `reason` is one word for counting, `condition` what the HPA would
    say of it. `code` is the API's status, 0 when it was not asked. `resized` is the uid of the pod to which a resize
    was sent, whatever came of it, or for which its node had no room: it rests."""

    decision: str
    at: float
    policy: str
    workload: Ref
    result: Result
    before: int
    after: int
    code: int = 0
    message: str = ""
    reason: str = ""
    condition: Condition | None = None
    seconds: float = 0.0
    resized: str = ""
