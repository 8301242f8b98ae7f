"""Actions on a cluster, and the cluster's answers.

Frozen records: an action names the state it was decided for, so that it has no effect on another. Knows nothing of how
actions are carried out.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from elasticd.model.workload import Ref, Sizes


class Scale(Struct, frozen=True, gc=False, omit_defaults=True, tag="scale"):
    """Set the scale subresource from `before` to `after`, if it still is the workload that was judged."""

    workload: Ref
    uid: str
    version: str
    before: int
    after: int
    reason: str
    removes: "Evict | None" = None
    """The eviction that it comes to, where its controller is told which pod it removes for it; None: it chooses."""
    counted: int | None = None
    """How many pods its controller counted when a fall was judged; None: it is no fall by what pods are seen."""


class Create(Struct, frozen=True, gc=False, tag="create"):
    """Create Jobs of a set, until there are `after` instead of `before`.

    The names follow from what was seen, so that the same decision, made again after a lost reply or by another daemon,
    creates nothing twice. `manifest` is empty in what is recorded: a template may hold secrets.
    """

    workload: Ref
    uid: str
    before: int
    after: int
    reason: str
    template: str
    """The hash of the template."""
    first: int
    """The number of the first Job to create: one more than the highest that was seen."""
    decision: str = ""
    manifest: str = ""

    def names(self) -> tuple[str, ...]:
        """The names of the Jobs: SET-HASH-NUMBER."""
        numbers = range(self.first, self.first + self.after - self.before)
        return tuple(f"{self.workload.name}-{self.template}-{number}" for number in numbers)


class Remove(Struct, frozen=True, gc=False, tag="remove"):
    """Delete these Jobs (name and UID each) and their pods; `before` and `after` count those in flight."""

    workload: Ref
    uid: str
    before: int
    after: int
    reason: str
    jobs: tuple[tuple[str, str], ...]


class Announce(Struct, frozen=True, gc=False, tag="announce"):
    """Create a Kubernetes Event about the workload."""

    workload: Ref
    uid: str
    reason: str
    message: str
    warning: bool = False


class Mark(Struct, frozen=True, gc=False, tag="mark"):
    """Set annotations of a workload, or of one of its pods, or take them away (None), if it still has this uid; and
    this version, where one is given."""

    workload: Ref
    uid: str
    annotations: dict[str, str | None]
    pod: str = ""
    reason: str = ""
    version: str = ""

    def on(self, annotations: Mapping[str, str]) -> dict[str, str]:
        merged = {**annotations, **self.annotations}
        return {key: value for key, value in merged.items() if value is not None}


class Resize(Struct, frozen=True, gc=False, tag="resize"):
    """Set what containers of a running pod request, by container and resource, if it still is the one that was judged
    and requests what it did `before`."""

    workload: Ref
    uid: str
    pod: str
    before: Sizes
    after: Sizes
    reason: str = ""


class Bind(Struct, frozen=True, gc=False, tag="bind"):
    """Put a pod (a Ref of kind Pod) on a node, if it still is the one that was judged and is on none."""

    workload: Ref
    uid: str
    node: str
    reason: str = ""


GIVES_WAY = "is preempted for"
"""How the reason of an eviction begins that makes room for another pod."""

BREAKER = "Breaker"
"""The reason of a refusal while so much is lost at once that nothing that is observed is believed."""

NO_ROOM = "NoRoom"
"""The reason of a refusal of what a node has no room for any more, as others were let have it."""

OUTDATED = "Outdated"
"""The reason of a refusal that finds no fault with what was asked for: it is judged anew, and may be done then."""


class Ready(Struct, frozen=True, gc=False):
    """Pods of which at least `count` must be there and ready: those of a selector, by UID."""

    selector: str
    uids: frozenset[str]
    count: int


class Evict(Struct, frozen=True, gc=False, tag="evict"):
    """Let a pod be evicted, as the eviction API does it, if it still is the one that was judged.

    With `restore` it has no controller that would recreate it: its manifest is recorded first, and it is recreated
    under its own name and waits for a node. `first`: it then waits before all others of its priority.
    """

    workload: Ref
    uid: str
    node: str
    reason: str = ""
    restore: bool = False
    first: bool = False
    owner: str = ""
    """The UID of its controller."""
    target: str = ""
    """The planned node of the pod or its replacement; empty: unknown."""
    others: Ready | UnsetType = UNSET
    """The pods that do its work, which the server is asked about just before."""


class TryEvict(Struct, frozen=True, gc=False, tag="try_evict"):
    """Ask whether an eviction would be let through, without doing it."""

    evict: Evict

    @property
    def workload(self) -> Ref:
        return self.evict.workload


class Nominate(Struct, frozen=True, gc=False, tag="nominate"):
    """Note on a pod the node that is being made free for it; an empty one takes the note away."""

    workload: Ref
    uid: str
    node: str


class BindClaim(Struct, frozen=True, gc=False, tag="bind_claim"):
    """Let a claim (a Ref of kind PersistentVolumeClaim) of a pod be bound for a node: to `volume`, which is then kept
    for it, or without one to a volume that its class provisions for that node. Only if the claim, or the volume, still
    is the one that was judged, in this version."""

    workload: Ref
    uid: str
    version: str
    node: str
    volume: str = ""
    volume_uid: str = ""
    by_user: bool = False
    """Whether somebody else had already said that the volume is for this claim."""


Action = Scale | Create | Remove | Announce | Mark | Resize | Bind | Evict | TryEvict | Nominate | BindClaim


Result = Literal["done", "refused", "conflict", "failed", "observed"]


class Answer(Struct, frozen=True, gc=False):
    """What a cluster says to an action: done, refused (a budget, a lost lease), conflict (the world moved
    since it was judged) or failed. `reason` is one word for counting, empty when done; `code` is the API's HTTP
    status, 0 when it was not asked. `after` is the count that came of it, None: the one that was asked for."""

    result: Result
    code: int = 0
    message: str = ""
    reason: str = ""
    after: int | None = None


def outdated(node: str) -> Answer:
    """What becomes of the eviction of a pod whose node is not as it was when that was judged."""
    return Answer("refused", message=f"{node} has changed meanwhile, and it is judged anew", reason=OUTDATED)
