"""Reports for people about the daemon, pools and pods: nodes, the eviction order of their pods, the next moves.

Frozen records, as the pages return and the commands read them. Amounts are in cores and bytes; unknown values are
omitted. Knows nothing of how they are made or shown.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from elasticd.model.moves import ENOUGH, FAILING, LEAVING, TAKEN_BACK, MoveDecision, NodeLevel, Underway
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.policy import Policy, PoolPolicy, Select, Target
from elasticd.model.records import Decision, Outcome
from elasticd.model.workload import Failure, Ref

FRESH = 90.0
"""Seconds for which what was seen of the cluster is taken for how it is."""


class PolicyInForce(Struct, frozen=True):
    """A policy in force; `pool`: it is about the pods of a pool, else about the workload that it names or those that it
    selects. With neither, as an older daemon reports it, it may be about any."""

    policy: str
    mode: Literal["act", "observe"]
    pool: bool = False
    workload: Target | None = None
    select: Select | None = None

    def may_govern(self, ref: Ref, labels: Mapping[str, str]) -> bool:
        """Whether it may be about the workload with these labels, in whatever version of its kind."""
        if self.workload is not None:
            return str(self.workload.ref) == str(ref)
        if self.select is not None:
            return self.select.matches(replace(ref, api_version=self.select.api_version), labels)
        return not self.pool


def in_force(policy: Policy | PoolPolicy) -> PolicyInForce:
    """The policy as reports name it."""
    if isinstance(policy, PoolPolicy):
        return PolicyInForce(policy.name, policy.mode, pool=True)
    return PolicyInForce(policy.name, policy.mode, workload=policy.workload, select=policy.select)


class StatusReport(Struct, frozen=True):
    """The state of the daemon, and the last decision about each workload that policies govern.

    Without a daemon (`running`), `note` says so and `decisions` are the last in the journal; `leading` is then unknown,
    and so are the policies if their files have mistakes (None). `leader` is the identity of the leader, if known.
    `memory` says that its limit is near, and what the daemon has most of; `kept`, why the policies in force are not
    those of the files. `faults`: why this daemon cannot do its work, while nobody is known to lead; which views of the
    cluster are not current; that etcd was restored; that who leads has other policies; that bindings are not answered;
    that nobody scales a workload since a takeover; what keeps evicted pods from running again, a line for each, and
    which of their records cannot be used. `undone`: the last outcome of each workload whose last action failed.
    `under_way`: the workloads about which a decision or an action has not ended; None: not known.
    """

    running: bool
    leading: bool | None
    dry_run: bool
    decisions: tuple[Decision, ...]
    policies: tuple[PolicyInForce, ...] | None = None
    leader: str = ""
    cluster: object = None
    outlet: object = None
    note: str = ""
    memory: str = ""
    faults: tuple[str, ...] = ()
    kept: str = ""
    undone: tuple[Outcome, ...] = ()
    under_way: tuple[Ref, ...] | None = None


class HistoryRow(Struct, frozen=True):
    """Decisions in a row that say the same: the first of them with its outcome, when the last was made, and how many
    there were."""

    decision: Decision
    outcome: Outcome | None
    until: float
    decisions: int = 1


class PreviewRow(Struct, frozen=True):
    """What policies that are not in force yet would do now about a workload. `governed`: whether it newly comes under a
    policy, or under none any longer."""

    workload: Ref
    policy: str
    now: int
    would_be: int
    reason: str
    message: str
    governed: Literal["", "new", "no longer"] = ""


class Preview(Struct, frozen=True):
    """What policies would change now, and of how many workloads; `note`: what is not known of that."""

    changes: tuple[PreviewRow, ...]
    workloads: int
    note: str = ""


class NodeReport(Struct, frozen=True, gc=False):
    """A node of a pool, for people: the requests on it and its usage, in cores and bytes. Unknown values are omitted.
    `score` compares its usage with the pool's mean (thesis, 5-16, cpu and memory alike): > 0 less loaded, < 0 more.
    `level`: its state for strategies that move pods."""

    pool: str
    node: str
    state: str
    pods: int
    most_pods: int
    allocatable: dict[str, float] = {}
    requested: dict[str, float] = {}
    used: dict[str, float] = {}
    score: float | None = None
    level: NodeLevel | None = None

    @property
    def load(self) -> float:
        """The greatest part of any resource of the node that is used, or, where that is not known, requested."""
        amounts = {**self.requested, **self.used}
        parts = [
            amounts[name] / capacity for name, capacity in self.allocatable.items() if capacity and name in amounts
        ]
        return max(parts, default=0.0)


class NextMove(Struct, frozen=True):
    """What was decided in the latest look about a pod that should move, and what came of it, if it was tried.
    `underway`: it has begun to go, and how far that is, or how far that has been taken back."""

    decision: MoveDecision
    outcome: PodOutcome | None = None
    underway: Underway | None = None

    @property
    def taken_back(self) -> bool:
        if self.underway is not None:
            return self.underway.stays
        return self.outcome is not None and self.outcome.reason == TAKEN_BACK

    @property
    def begun(self) -> bool:
        """Whether the pod is leaving already."""
        return not self.taken_back and (self.underway is not None or self.decision.refusal == LEAVING)

    @property
    def awaited(self) -> bool:
        """Whether the pod goes once another is ready in its place."""
        going = self.underway
        return self.begun and going is not None and going.how == "surge" and not going.ends

    @property
    def goes(self) -> bool:
        """Whether nothing keeps the pod from going."""
        succeeded = self.outcome is None or self.outcome.result == "done"
        return self.begun or (self.decision.verdict == "move" and succeeded and not self.taken_back)

    @property
    def held(self) -> tuple[str, str]:
        """What keeps the pod where it is, one word and a sentence; both empty: nothing does."""
        decision, outcome = self.decision, self.outcome
        if self.begun:
            return "", ""
        if self.taken_back:
            end = f": {self.underway.step}" if self.underway else "; it is as it was before"
            return TAKEN_BACK, f"another was made first, in vain{end}"
        refused = outcome is not None and outcome.result == "refused"
        if decision.verdict == "refuse" and not (refused and decision.refusal in (ENOUGH, FAILING)):
            return decision.refusal, decision.message
        if outcome is not None and outcome.result != "done":
            return outcome.reason or outcome.result, outcome.message
        return "", ""


class Moving(Struct, frozen=True):
    """The latest look for pods that should move: when it was (0: not yet), when the next is due, in a line what comes
    of it, and the moves."""

    at: float
    due: float
    summary: str
    moves: tuple[NextMove, ...] = ()
    failures: tuple[Failure, ...] = ()


class PoolReport(Struct, frozen=True):
    """A pool: its nodes, the most loaded first, and, where a strategy moves pods, what would move next. `stale`: which
    kinds of objects are not current, a line for each."""

    pool: str
    mode: str
    nodes: tuple[NodeReport, ...]
    moving: Moving | None = None
    stale: tuple[str, ...] = ()


class HeapPod(Struct, frozen=True, gc=False):
    """A pod of a node. `stays` and `why` say what prevents its move now, in a word and a sentence; empty: nothing.
    `turn` is its position in the eviction order, from 1 on; 0: none, for the reason in `spared` and `spared_why`."""

    namespace: str
    name: str
    restart: str
    priority: int = 0
    requested: dict[str, float] = {}
    used: dict[str, float] = {}
    stays: str = ""
    why: str = ""
    turn: int = 0
    spared: str = ""
    spared_why: str = ""


class NodeView(Struct, frozen=True):
    """One node of a pool. `never`, `on_failure` and `always` are its pods by restartPolicy, each in the order in which
    they would be preempted, those behind that something keeps; in `rooted` are those that never do, with why, and in
    `leaving` those that are on their way from it, or to it. `labels` are those that somebody asks for."""

    mode: str
    node: NodeReport
    never: tuple[HeapPod, ...] = ()
    on_failure: tuple[HeapPod, ...] = ()
    always: tuple[HeapPod, ...] = ()
    rooted: tuple[HeapPod, ...] = ()
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    moving: Moving | None = None
    """Of the moves, those from it or to it; None: pods of this pool are never moved."""
    leaving: tuple[HeapPod, ...] = ()
    yields: bool = False
    """Whether pods of this pool are preempted for others."""
    rule: str = ""
    """To whom, in a clause."""
    failures: tuple[Failure, ...] = ()
    """Strategies that failed to say which pods are preempted."""
    stale: tuple[str, ...] = ()
    """Which kinds of objects are not current, a line for each."""


class PoolAbout(Struct, frozen=True):
    """A pool policy in force: which pods it is about, and when it was last looked at for pods that should move."""

    policy: str
    mode: Literal["act", "observe"]
    scheduler: str
    namespaces: tuple[str, ...] = ("*",)
    labels: dict[str, str] = {}
    looked: float | None = None


class PodFound(Struct, frozen=True):
    """A pod as the cluster shows it. `policy` is the first, by name, that is about it, and `policies` all of them, with
    those that move it though another scheduler places it; `latest` what was last decided when it was planned for while
    it waited. `pretended`: what a dry run did to it, and `seen` the node where that put
    it, if it put it on one; all else is as it really is."""

    uid: str
    scheduler: str
    node: str = ""
    phase: str = ""
    deleted: bool = False
    policy: str = ""
    latest: PodDecision | None = None
    pretended: Literal["", "bound", "moved", "evicted"] = ""
    seen: str = ""
    policies: tuple[str, ...] = ()


class PodStatus(Struct, frozen=True):
    """What is known of a name. Where there is no such pod: whether its namespace has any, and the nearest name. `at` is
    when it was asked, `confirmed` when the cluster last proved current what it shows."""

    at: float
    confirmed: float
    leading: bool
    pools: tuple[PoolAbout, ...] = ()
    found: PodFound | None = None
    inhabited: bool = False
    near: str = ""

    @property
    def fresh(self) -> bool:
        """Whether what the cluster showed is recent enough to be true now."""
        return self.at - self.confirmed <= FRESH


class PodReport(Struct, frozen=True):
    """The newest that was decided about a pod, and what came of it so far, in order.

    `moving` is newer than `decision`, about its place: where a pod was placed since, what was said of a move before is
    about another of its name. `gave_way` is the last time that it was evicted for another pod. `seen` is what a running
    daemon knows of it; None: for the reason `unseen`, none was asked.
    """

    decision: PodDecision | None = None
    outcomes: tuple[PodOutcome, ...] = ()
    moving: MoveDecision | None = None
    moved: tuple[PodOutcome, ...] = ()
    gave_way: PodOutcome | None = None
    seen: PodStatus | None = None
    unseen: str = ""
    since: float | None = None
    """Since when the same move has been decided: one that is held back is decided again when the pod goes at last."""
    gone: float | None = None
    """When it was seen to have left the node that it was to leave; None too where it was preempted meanwhile."""
    others: frozenset[str] = frozenset()
    """Other policies that have decided something about it, where it was asked for one's alone."""

    @property
    def empty(self) -> bool:
        return self.decision is None and self.moving is None and self.gave_way is None

    @property
    def uid(self) -> str:
        """The UID of the pod that it is about, as far as it is known."""
        newest = self.moving or self.decision
        return newest.uid if newest else ""


class Held(Struct, frozen=True):
    """A pod that a policy wants moved, and that stays. `reason` is one word for why, `why` a sentence."""

    decision: MoveDecision
    reason: str
    why: str = ""
    at: float = 0.0
