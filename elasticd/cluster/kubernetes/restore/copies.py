"""Compares a pod with the copy that the API server would create of it: admission may change what it is given.

Knows what decides where a pod may run; knows nothing of how the server is asked, or of why a pod is evicted.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import decoded
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import PodStatus, WirePod
from elasticd.kit.node_table import needed, whole
from elasticd.model.pod_spec import TopologySpread
from elasticd.model.workload import Node, Pod

_POD = msgspec.json.Decoder(WirePod)


class _RuntimeSpec(Struct, frozen=True, rename="camel"):
    runtime_class_name: str = ""


class _Runtime(Struct, frozen=True):
    spec: _RuntimeSpec = _RuntimeSpec()


_RUNTIME = msgspec.json.Decoder(_Runtime)


class Compared(Struct, frozen=True):
    """A pod, or what the server would create of it, and its runtime class, of which the model knows nothing.

    `spec` is the pod as its spec alone has it: while its node can never give it what it was resized to, the pod counts
    with what it was given.
    """

    pod: Pod
    spec: Pod
    runtime_class: str = ""


class Difference(Struct, frozen=True):
    """What would keep a copy from running where its pod may, in words; empty: nothing. `by_admission` is what admission
    changes, `by_resize` what the pod's own spec requests and its node does not give it."""

    by_admission: str = ""
    by_resize: str = ""

    @property
    def reason(self) -> str:
        return "CopyDiffers" if self.by_admission else "ResizeInfeasible" if self.by_resize else ""

    @property
    def message(self) -> str:
        """All of it, as one sentence."""
        sentences = []
        if self.by_admission:
            sentences.append(f"admission would now create it with other values of {self.by_admission}")
        if self.by_resize:
            sentences.append(f"its node never gave it what it was resized to: {self.by_resize}")
        return f"it might not run again: {', and '.join(sentences)}"


def read_compared(body: bytes, name: str, uid: str) -> Compared:
    """Read it from its JSON, as the pod of this name and UID: what the server answers to a trial has others. Raises
    ApiError."""
    wire = decoded(body, _POD, "Pod")
    named = replace(wire, metadata=replace(wire.metadata, name=name, uid=uid))
    of_spec = to_pod(replace(named, status=PodStatus()))
    return Compared(to_pod(named), of_spec, decoded(body, _RUNTIME, "Pod").spec.runtime_class_name)


def _hard_spread(pod: Pod) -> list[tuple[TopologySpread, bool]]:
    """The constraints that keep a pod off nodes, as they read for its labels, and whether it counts for them itself."""
    found = []
    for spread in pod.needs.spread:
        if spread.hard:
            rules = spread.selector(pod.labels)
            counts = rules is not None and all(rule.matches(pod.labels) for rule in rules)
            found.append((replace(spread, labels=rules, match_keys=()), counts))
    return found


_FIELDS: tuple[tuple[str, Callable[[Pod], Any]], ...] = (
    ("its schedulerName", lambda pod: pod.needs.scheduler),
    ("its nodeName", lambda pod: pod.node),
    ("its scheduling gates", lambda pod: pod.needs.gated),
    ("its priority", lambda pod: pod.needs.priority),
    ("its host ports", lambda pod: frozenset(pod.needs.ports)),
    ("its volumes", lambda pod: (frozenset(pod.volume_claims), frozenset(pod.needs.disks))),
    ("its required pod affinity", lambda pod: (pod.needs.repels, pod.needs.attracts)),
    ("its topology spread constraints", _hard_spread),
    ("what elasticd does not know", lambda pod: frozenset(pod.needs.unsupported)),
)
"""What must be the same in both."""


class Copies:
    """Judges copies by the nodes and pods as they are watched."""

    def __init__(self, pods: PodStore, nodes: NodeStore, coming: Callable[[str], Iterable[Pod]]) -> None:
        """`coming`: the copies that have yet to be created and for which this node is kept."""
        self._pods, self._nodes, self._coming = pods, nodes, coming

    def difference(self, pod: Compared, copy: Compared, node: str) -> Difference:
        """What would keep the copy from running where the pod may. `node` is the one that is kept for the copy, or else
        the pod's own."""
        by_admission, by_resize = list(self._differing(pod, copy)), list[str]()
        place, grown, raised = self._nodes.get(node), _grown(pod.pod, copy.pod), _grown(pod.spec, copy.pod)
        for resource in grown if place is None else self._lacking(pod.pod, copy.pod, place, grown):
            rest = f"and {node} is gone" if place is None else f"for which {node} has too little left"
            (by_admission if resource in raised else by_resize).append(f"its request of {resource}, {rest}")
        if place is not None:
            by_admission += self._misfits(pod.pod, copy.pod, place)
        elif _node_rules(pod.pod) != _node_rules(copy.pod):
            by_admission.append(f"its nodeSelector or node affinity, and {node} is gone")
        return Difference(", ".join(by_admission), ", ".join(by_resize))

    def _differing(self, pod: Compared, copy: Compared) -> Iterator[str]:
        unbound = replace(pod.pod, node="")
        relabelled = replace(copy.pod, labels={**pod.pod.labels, **copy.pod.labels})  # a node's are copied when bound
        for name, value in _FIELDS:
            if value(unbound) != value(relabelled):
                yield name
        if pod.runtime_class != copy.runtime_class:
            yield "its runtimeClassName"
        if relabelled.labels != pod.pod.labels and (other := self._repelling(pod.pod, relabelled)):
            yield f"its labels, which the anti-affinity of {other.namespace}/{other.name} selects"

    def _repelling(self, pod: Pod, copy: Pod) -> Pod | None:
        """Another pod that keeps the copy away, but not the pod."""

        def keeps_off(other: Pod, one: Pod) -> bool:
            return any(term.selects(other.namespace, one.namespace, one.labels) for term in other.needs.repels)

        picky = (
            other for pods in self._pods.places().on_nodes().values() for other in pods
            if other.needs.repels and other.uid != pod.uid
        )  # fmt: skip
        return next((other for other in picky if keeps_off(other, copy) and not keeps_off(other, pod)), None)

    def _misfits(self, pod: Pod, copy: Pod, node: Node) -> Iterator[str]:
        """What the node does not give to the copy, though it would to the pod."""
        if not copy.needs.wants(node.name, node.labels) and _node_rules(pod) != _node_rules(copy):
            yield f"its nodeSelector or node affinity, which {node.name} does not obey"
        taint = copy.needs.tolerates(node.taints)
        if taint is not None and pod.needs.tolerates(node.taints) is None:
            yield f"its tolerations, which lack the taint {taint} of {node.name}"

    def _lacking(self, pod: Pod, copy: Pod, node: Node, resources: Iterable[str]) -> list[str]:
        """The resources of which the node has too little left for the copy, in its pod's place if that is there."""
        used = Counter[str]()
        there = self._pods.places().on_nodes().get(node.name, ())
        names = {(other.namespace, other.name) for other in there}
        for other in (*there, *(each for each in self._coming(node.name) if _name(each) not in names)):
            used.update(needed(other) if other.uid != pod.uid else {})
        asked = needed(copy)
        return [
            resource
            for resource in resources
            if used[resource] + asked[resource] > whole(resource, node.allocatable.get(resource, 0.0))
        ]


def _name(pod: Pod) -> tuple[str, str]:
    return pod.namespace, pod.name


def _node_rules(pod: Pod) -> Hashable:
    return frozenset(pod.needs.selector.items()), pod.needs.affinity


def _grown(pod: Pod, copy: Pod) -> list[str]:
    """The resources of which a copy requests more than its pod."""
    before = needed(pod)
    return [resource for resource, amount in needed(copy).items() if amount > before.get(resource, 0)]


_PLACING: tuple[tuple[str, Callable[[Pod], Any]], ...] = (
    *_FIELDS,
    ("its nodeSelector or node affinity", _node_rules),
    ("its tolerations", lambda pod: frozenset(pod.needs.tolerations)),
)
"""What decides, beside requests, where a pod may run."""


def difference_from(pod: Compared, fresh: Compared) -> str:
    """How a pod without a node differs from what the server would create now, by what decides where it may run; empty:
    in nothing."""
    before, after = needed(pod.spec), needed(fresh.spec)
    resources = sorted(each for each in {*before, *after} if before.get(each, 0) != after.get(each, 0))
    fields = (name for name, value in _PLACING if value(pod.spec) != value(fresh.spec))
    runtime = ("its runtimeClassName",) if pod.runtime_class != fresh.runtime_class else ()
    return ", ".join((*(f"its request of {each}" for each in resources), *fields, *runtime))
