"""What has been read of the cluster, in memory: pods with an index by label, nodes, workloads.

Knows how to find things without scanning; knows nothing of how they came or of the wire format.
"""

import sys
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.errors import UNREADABLE
from elasticd.cluster.kubernetes.watch.versions import is_older
from elasticd.cluster.kubernetes.wire.objects import ObjectMeta, ScalingBehavior, ScalingRules, WireAutoscaler
from elasticd.cluster.kubernetes.wire.selector import Selector, SelectorError, parse_selector
from elasticd.kit.evictability import fails
from elasticd.kit.handover import STOPPED
from elasticd.model.policy import MOST
from elasticd.model.workload import Node, Pod, Ref, Room, Workload, group_of
from elasticd.ports.cluster import Kind

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name."""

_CACHED_SELECTIONS = 100_000


class Sink(Protocol):
    """Where a reflector puts what it reads."""

    def put(self, item: Any, *, listed: bool, restored: bool = False) -> Key:
        """Take the newest form of an object. What is listed is the truth; an event may be older than what is known.
        `restored`: it is listed by a server whose versions went back, so nothing that is known is newer."""

    def remove(self, item: Any) -> None:
        """The object is gone."""

    def retain(self, namespace: str, keep: Collection[Key]) -> None:
        """Forget all objects of the namespace (all namespaces, if empty) but these."""


class Store(Generic[T]):
    """Objects of one kind by their keys. A subclass does in `_changed` what follows when one comes, changes or goes."""

    def __init__(self, key: Callable[[T], Key]) -> None:
        self._key = key
        self._items: dict[Key, T] = {}

    def put(self, item: T, *, listed: bool, restored: bool = False) -> Key:
        """Store an object; one that is equal or older changes nothing."""
        key = self._key(item)
        old = self._items.get(key)
        if old is None or (old != item and (restored or not self._goes_back(old, item, listed=listed))):
            self._items[key] = item
            self._changed(old, item)
        return key

    def remove(self, item: T) -> None:
        self.drop(self._key(item))

    def retain(self, namespace: str, keep: Collection[Key]) -> None:
        for key in [key for key in self._items if namespace in ("", key[0]) and key not in keep]:
            self.drop(key)

    def drop(self, key: Key) -> None:
        if (old := self._items.pop(key, None)) is not None:
            self._changed(old, None)

    def _changed(self, old: T | None, new: T | None) -> None:
        raise NotImplementedError

    def _goes_back(self, old: T, new: T, *, listed: bool) -> bool:
        """Whether `new` is known to be older than `old`."""
        return False


def waits(pod: Pod) -> bool:
    """Whether it has yet to be put on a node."""
    return not pod.node and pod.is_active


def takes_room(pod: Pod) -> bool:
    """Whether it takes room on a node. One that is being deleted does until it is gone."""
    return bool(pod.node) and not pod.has_ended


def affects_placement(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change may let another pod be placed, or needs one to be: a pod waits, has left a node, changed its
    requests, or has failed."""
    if new is not None and waits(new):
        return True
    if old is None or not takes_room(old):
        return False
    if new is None or not takes_room(new) or new.uid != old.uid or new.needs.requests != old.needs.requests:
        return True
    return fails(old, new)


class Places:
    """All pods that wait or take room."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._waiting: dict[Key, Pod] = {}
        self._in_order = True
        """Whether the waiting pods are sorted: those that leave change nothing of that."""
        self._pending: tuple[Pod, ...] | None = None
        self._on = defaultdict[str, dict[str, Pod]](dict)
        """By node and UID: a key of namespace and name would be a tuple for each of very many pods."""
        self._on_nodes: dict[str, Sequence[Pod]] = {}
        self._stale: set[str] = set()
        self._nodes: tuple[Node, ...] = ()
        self._rooms: tuple[Room, ...] = ()
        self._unsummed: set[str] = set()
        self._selecting: set[Key] = set()
        for pod in pods:
            self.change(None, pod)

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came (no old one), changed or went (no new one)."""
        if old is not None:
            self._leave(old)
        if new is None:
            return
        key = (new.namespace, new.name)
        if new.needs.selects_namespaces:
            self._selecting.add(key)
        if takes_room(new):
            self._on[new.node][new.uid] = new
            self._stale.add(new.node)
        elif waits(new):
            self._waiting[key], self._pending, self._in_order = new, None, False

    def _leave(self, pod: Pod) -> None:
        key = (pod.namespace, pod.name)
        self._selecting.discard(key)
        if takes_room(pod):
            del self._on[pod.node][pod.uid]
            self._stale.add(pod.node)
        elif waits(pod):
            del self._waiting[key]
            self._pending = None

    @property
    def select_namespaces(self) -> bool:
        """Whether any pod selects others by the labels of their namespaces."""
        return bool(self._selecting)

    def pending(self) -> tuple[Pod, ...]:
        """The pods that wait, by namespace and name; the same tuple while nothing changed."""
        if not self._in_order:
            self._waiting, self._in_order = dict(sorted(self._waiting.items())), True
        if self._pending is None:
            self._pending = tuple(self._waiting.values())
        return self._pending

    def on_nodes(self) -> Mapping[str, Sequence[Pod]]:
        """The pods on each node, by namespace and name; a node keeps the same sequence while nothing changed there. The
        mapping itself is always the same object."""
        for node in self._stale:
            if pods := self._on[node]:
                self._on_nodes[node] = tuple(sorted(pods.values(), key=attrgetter("namespace", "name")))
            else:
                del self._on[node]
                self._on_nodes.pop(node, None)
        self._unsummed |= self._stale
        self._stale.clear()
        return self._on_nodes

    def rooms(self, nodes: tuple[Node, ...]) -> tuple[Room, ...]:
        """The rooms of these nodes, in their order; the same tuple while neither they nor what is requested changed. A
        node's is summed again where its pods changed: nothing drifts, as it would by adding and taking away."""
        pods_by_node = self.on_nodes()
        if self._unsummed or nodes is not self._nodes:
            known = {each.node.name: each for each in self._rooms if each.node.name not in self._unsummed}
            rooms = tuple(
                cached
                if (cached := known.get(node.name)) is not None and cached.node is node
                else Room.of(node, pods_by_node.get(node.name, ()))
                for node in nodes
            )
            self._nodes, self._rooms = nodes, self._rooms if rooms == self._rooms else rooms
            self._unsummed.clear()
        return self._rooms


class _Bucket:
    """Pods that have something in common, and how often that set or one of them changed."""

    __slots__ = ("changes", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.changes = 0

    def put(self, name: str, pod: Pod) -> None:
        self.pods[name] = pod
        self.changes += 1

    def drop(self, name: str) -> None:
        self.pods.pop(name, None)
        self.changes += 1


class _Namespace:
    """The pods of one namespace. Only labels that selectors ask for are indexed, from the first question on."""

    __slots__ = ("all", "by_label")

    def __init__(self) -> None:
        self.all = _Bucket()
        self.by_label: dict[str, defaultdict[str, _Bucket]] = {}

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came (no old one), changed or went (no new one). Values come and go (a StatefulSet's pod names), so an
        empty bucket is not kept."""
        if new is not None:
            self.all.put(new.name, new)
        elif old is not None:
            self.all.drop(old.name)
        for key, by_value in self.by_label.items():
            if old is not None and (value := old.labels.get(key)) is not None:
                by_value[value].drop(old.name)
                if not by_value[value].pods:
                    del by_value[value]
            if new is not None and (value := new.labels.get(key)) is not None:
                by_value[value].put(new.name, new)

    def _index(self, key: str) -> dict[str, _Bucket]:
        if key not in self.by_label:
            index = self.by_label[key] = defaultdict(_Bucket)
            for name, pod in self.all.pods.items():
                if (value := pod.labels.get(key)) is not None:
                    index[value].pods[name] = pod
        return self.by_label[key]

    def smallest(self, selector: Selector) -> _Bucket:
        """The fewest pods known to hold all that the selector selects. A set of them can only change with it."""
        buckets = [self._index(key)[value] for key, value in selector.pairs]
        return min(buckets, key=lambda bucket: len(bucket.pods), default=self.all)


def _owners(pod: Pod | None) -> tuple[tuple[str, str], ...]:
    """Names and UIDs of the pods with which a pod goes; empty: none, or it has ended."""
    return () if pod is None or pod.has_ended else pod.owner_pods


REPORTED = 10.0
"""Seconds after an eviction in which a watch should have shown it."""


class PodStore(Store[Pod]):
    """All pods."""

    def __init__(self) -> None:
        super().__init__(attrgetter("namespace", "name"))
        self._namespaces = defaultdict[str, _Namespace](_Namespace)
        self._selections: dict[tuple[str, str], tuple[_Bucket, int, tuple[Pod, ...]]] = {}
        self._places: Places | None = None
        self._dependents = Counter[str]()
        """By a pod's UID, how many pods that have not ended name it as their owner."""
        self._assumed_deleted: dict[Key, tuple[str, float]] = {}
        """UIDs of pods that were evicted, which nothing has shown yet, and since when."""
        self.placement_callbacks: list[Callable[[], None]] = []
        """Called when something happened that may let pods be placed. They must not block or raise."""

    def put(self, item: Pod, *, listed: bool, restored: bool = False) -> Key:
        """Store a pod as the API server shows it."""
        if item.deleted:
            self._assumed_deleted.pop((item.namespace, item.name), None)  # assumed no more
        return self._keep(item, listed=listed, restored=restored)

    def _keep(self, item: Pod, *, listed: bool, restored: bool = False) -> Key:
        """Store a pod, with what is known of those that it owns."""
        owns = item.uid in self._dependents
        known = item if item.owns == owns else replace(item, owns=owns)
        return super().put(known, listed=listed, restored=restored)

    def _count_dependents(self, old: Pod | None, new: Pod | None) -> None:
        """Mark pods that own others, and those that own none any more."""
        before, after = _owners(old), _owners(new)
        if before == after:
            return
        namespace = new.namespace if new is not None else old.namespace if old is not None else ""
        self._dependents.update(uid for _, uid in after)
        self._dependents.subtract(uid for _, uid in before)
        for name, uid in {*before, *after}:
            if not self._dependents[uid]:
                del self._dependents[uid]
            owner = self.get(namespace, name)
            if owner is not None and owner.uid == uid:
                self._keep(owner, listed=True)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        self._count_dependents(old, new)
        if (pod := new or old) is not None:
            self._namespaces[pod.namespace].change(old, new)
        if self._places is not None:
            self._places.change(old, new)
        if affects_placement(old, new):
            for callback in self.placement_callbacks:
                callback()

    def _goes_back(self, old: Pod, new: Pod, *, listed: bool) -> bool:
        """A pod never leaves its node, and a deletion is never undone. But a deletion may only have been assumed, so a
        list that does not show it is believed."""
        return old.uid == new.uid and (
            (not new.node and bool(old.node)) or (old.deleted and not new.deleted and not listed)
        )

    def assume(self, ref: Ref, uid: str, **known: Any) -> None:
        """Store our own change of a pod before the watch reports it, if the pod still has this UID."""
        pod = self.get(ref.namespace, ref.name)
        if pod is not None and pod.uid == uid:
            self._keep(replace(pod, **known), listed=False)

    def assume_deleted(self, ref: Ref, uid: str, now: float) -> None:
        """Store that a pod was evicted, if the watch has not reported it already."""
        pod = self.get(ref.namespace, ref.name)
        if pod is not None and pod.uid == uid and not pod.deleted:
            self._assumed_deleted[ref.namespace, ref.name] = uid, now
            self.assume(ref, uid, deleted=True)

    def unseen_deletions(self, now: float) -> list[Pod]:
        """Pods that were evicted long enough ago for the watch to have shown it, which it has not."""
        found = []
        for key, (uid, since) in list(self._assumed_deleted.items()):
            pod = self._items.get(key)
            if pod is None or pod.uid != uid or not pod.deleted:
                del self._assumed_deleted[key]  # known otherwise
            elif now > since + REPORTED:
                found.append(pod)
        return found

    def settle_deletion(self, ref: Ref, uid: str, *, stays: bool) -> bool:
        """Assume no more that a pod was deleted, as the API server was asked. Returns whether it counts as before: not
        if the watch has shown its deletion meanwhile."""
        key = (ref.namespace, ref.name)
        if self._assumed_deleted.get(key, ("", 0.0))[0] != uid:
            return False
        del self._assumed_deleted[key]
        pod = self._items.get(key)
        if pod is None or pod.uid != uid or not stays:
            return False
        self._keep(replace(pod, deleted=False), listed=True)
        return True

    def get(self, namespace: str, name: str) -> Pod | None:
        return self._items.get((namespace, name))

    def of_controller(self, namespace: str, uid: str) -> list[Pod]:
        """The pods of the controller with this UID."""
        return [pod for pod in self._items.values() if pod.owner[2] == uid and pod.namespace == namespace]

    def select(self, namespace: str, selector: str) -> tuple[Pod, ...]:
        """The pods of the namespace that it selects, ordered by name; the same tuple while nothing changed. Raises
        SelectorError when the selector is empty or unreadable."""
        key = (namespace, selector)
        if (cached := self._selections.get(key)) is not None and cached[0].changes == cached[1]:
            return cached[2]
        parsed = parse_selector(selector)
        bucket = self._namespaces[namespace].smallest(parsed)
        pods = [pod for pod in bucket.pods.values() if parsed.matches(pod.labels)]
        pods.sort(key=attrgetter("name"))
        if len(self._selections) >= _CACHED_SELECTIONS:
            self._selections.clear()
        self._selections[key] = (bucket, bucket.changes, tuple(pods))
        return self._selections[key][2]

    def all_of(self, namespace: str) -> tuple[Pod, ...]:
        """All pods of a namespace, in no order."""
        return tuple(self._namespaces[namespace].all.pods.values())

    def places(self) -> Places:
        """Which pods wait and which are on each node, updated from the first call on: only pools have to pay for it."""
        if self._places is None:
            self._places = Places(self._items.values())
        return self._places

    def __len__(self) -> int:
        return len(self._items)


class NodeStore(Store[Node]):
    """All nodes."""

    def __init__(self) -> None:
        super().__init__(lambda node: ("", node.name))
        self._sorted: tuple[Node, ...] | None = ()
        self.placement_callbacks: list[Callable[[], None]] = []

    def _changed(self, old: Node | None, new: Node | None) -> None:
        self._sorted = None
        if old is not None and new is not None and replace(old, images=new.images) == new:
            return  # another image lets no pod be placed
        for callback in self.placement_callbacks:
            callback()

    def get(self, name: str) -> Node | None:
        return self._items.get(("", name))

    def all(self) -> tuple[Node, ...]:
        """All nodes, ordered by name; the same tuple while nothing changed."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._items.values(), key=attrgetter("name")))
        return self._sorted


class Namespace(NamedTuple):
    """A namespace and its labels."""

    name: str
    labels: dict[str, str]


def to_namespace(wire: ObjectMeta) -> Namespace:
    """The name and labels of a namespace."""
    return Namespace(sys.intern(wire.metadata.name), wire.metadata.labels or {})


class NamespaceStore(Store[Namespace]):
    """All namespaces."""

    def __init__(self) -> None:
        super().__init__(lambda namespace: ("", namespace.name))
        self._labels: dict[str, dict[str, str]] | None = None
        self.placement_callbacks: list[Callable[[], None]] = []

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of each; the same mapping while nothing changed."""
        if self._labels is None:
            self._labels = {namespace.name: namespace.labels for namespace in self._items.values()}
        return self._labels

    def _changed(self, old: Namespace | None, new: Namespace | None) -> None:
        self._labels = None
        for callback in self.placement_callbacks:
            callback()


class KindStore(Store[Workload]):
    """The workloads of one kind."""

    def __init__(self, changed: Callable[[Workload | None, Workload | None], None]) -> None:
        super().__init__(attrgetter("ref.namespace", "ref.name"))
        self._on_change = changed

    def get(self, key: Key) -> Workload | None:
        return self._items.get(key)

    def all(self) -> Iterable[Workload]:
        return self._items.values()

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        self._on_change(old, new)

    def _goes_back(self, old: Workload, new: Workload, *, listed: bool) -> bool:
        """A list is believed, and an event of another object of the name."""
        return not listed and old.uid == new.uid and is_older(new.version, than=old.version)


class WorkloadStore:
    """All workloads that are watched, in a store for each kind. `version` changes with which there are, their
    labels and their owners."""

    def __init__(self) -> None:
        self._kinds = defaultdict[Kind, KindStore](lambda: KindStore(self._changed))
        self._all: tuple[Workload, ...] | None = ()
        self.version = 0

    def of(self, kind: Kind) -> KindStore:
        return self._kinds[kind]

    def get(self, ref: Ref) -> Workload | None:
        return self.of((ref.api_version, ref.kind)).get((ref.namespace, ref.name))

    def all(self) -> tuple[Workload, ...]:
        """All of them; the same tuple while nothing changed."""
        if self._all is None:
            self._all = tuple(chain.from_iterable(store.all() for store in self._kinds.values()))
        return self._all

    def put(self, item: Workload, *, listed: bool) -> None:
        self.of((item.ref.api_version, item.ref.kind)).put(item, listed=listed)

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        self._all = None
        if old is None or new is None or (old.labels, old.owner) != (new.labels, new.owner):
            self.version += 1


def selector_fault(selector: str) -> str:
    """What is wrong with a selector, empty when nothing is."""
    try:
        parse_selector(selector)
    except SelectorError as error:
        return str(error)
    return ""


BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
"""The annotation in which autoscaling/v1 has an HPA's behavior."""

_DIRECTIONS = ("ScaleUp", "ScaleDown")

Target = tuple[str, str, str, str]
"""Namespace, API group, kind and name: an autoscaler may name another version of the group."""


class Autoscaler(Struct, frozen=True, gc=False):
    """An autoscaler and its target. `stopped`: it never changes the count; `half_stopped`: only to its bounds;
    `taken_over`: it is one of both since `elasticd takeover`."""

    namespace: str
    name: str
    target: Target
    stopped: bool = False
    half_stopped: bool = False
    taken_over: bool = False


def to_autoscaler(wire: WireAutoscaler) -> Autoscaler:
    """The namespace, name and target of an autoscaler, and whether it is stopped; nothing else of it is used."""
    meta, target = wire.metadata, wire.spec.scale_target_ref
    space = sys.intern(meta.namespace)
    place = space, _group(target.api_version), sys.intern(target.kind), target.name
    # The controller looks at bounds before it looks at behavior, and applies them all the same.
    unbounded = wire.spec.max_replicas >= MOST and (wire.spec.min_replicas or 1) <= 1
    disabled = _is_disabled(wire)
    noted = STOPPED in (meta.annotations or {})
    return Autoscaler(space, meta.name, place, disabled and unbounded, disabled and not unbounded, disabled and noted)


def _is_disabled(wire: WireAutoscaler) -> bool:
    """Whether both directions are disabled. In autoscaling/v1 an annotation has the behavior."""
    spec, annotations = wire.spec, wire.metadata.annotations or {}
    if spec.behavior is None and BEHAVIOR not in annotations:
        return False
    behavior = spec.behavior or _annotated_behavior(annotations[BEHAVIOR])
    return all(rules and rules.select_policy == "Disabled" for rules in (behavior.scale_up, behavior.scale_down))


def _annotated_behavior(text: str) -> ScalingBehavior:
    """The behavior of an annotation, which has the names of Go's fields."""
    try:
        directions = msgspec.json.decode(text, type=dict[str, dict[str, Any] | None])
    except UNREADABLE:
        return ScalingBehavior()
    up, down = (ScalingRules(str((directions.get(key) or {}).get("SelectPolicy", ""))) for key in _DIRECTIONS)
    return ScalingBehavior(up, down)


class AutoscalerStore(Store[Autoscaler]):
    """All autoscalers, by what they scale."""

    def __init__(self) -> None:
        super().__init__(attrgetter("namespace", "name"))
        self._by_target: dict[Target, list[str]] = {}
        self._taken_over: dict[Key, Target] = {}

    @property
    def taken_over(self) -> Collection[Target]:
        """The targets of those that a takeover has stopped."""
        return self._taken_over.values()

    def scaling(self, ref: Ref) -> tuple[str, ...]:
        """The names of the autoscalers of a workload that are not stopped. More than one is a mistake, but possible."""
        if not self._by_target:
            return ()
        target = ref.namespace, _group(ref.api_version), ref.kind, ref.name
        return tuple(self._by_target.get(_as_mapped(target), ()))

    def half_stopped(self, ref: Ref) -> bool:
        """Whether all of these are half stopped."""
        return all(self._items[ref.namespace, name].half_stopped for name in self.scaling(ref))

    def _changed(self, old: Autoscaler | None, new: Autoscaler | None) -> None:
        """An autoscaler's status changes with every metrics read, so most events never come to this."""
        if old is not None:
            self._taken_over.pop((old.namespace, old.name), None)
        if new is not None and new.taken_over:
            self._taken_over[new.namespace, new.name] = new.target
        if old is not None and not old.stopped:
            before = _as_mapped(old.target)
            self._by_target[before].remove(old.name)
            if not self._by_target[before]:
                del self._by_target[before]
        if new is not None and not new.stopped:
            insort(self._by_target.setdefault(_as_mapped(new.target), []), new.name)


def _as_mapped(target: Target) -> Target:
    """The target with its kind in lower case, which the HPA controller's REST mapper knows too."""
    space, group, kind, name = target
    return space, group, kind.lower(), name


def _group(api_version: str) -> str:
    return sys.intern(group_of(api_version))
