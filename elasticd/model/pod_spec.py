"""What a pod asks of the node it is put on, and what a node keeps pods away with.

Frozen records, read as Kubernetes reads them. Knows labels, taints, ports and disks; knows no nodes in number and no
policy.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, Struct

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Restart = Literal["Always", "OnFailure", "Never"]


_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


class Expression(Struct, frozen=True, gc=False):
    """A rule about one label, or about a node's name. Several are ANDed by who holds them."""

    key: Annotated[str, Meta(description="of the label, or metadata.name")]
    operator: Annotated[Operator, Meta(description="how its value and these are compared")]
    values: Annotated[tuple[str, ...], Meta(description="none for Exists and DoesNotExist")] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels obey the rule. A label that is not there obeys NotIn and DoesNotExist alone; Gt and Lt compare
        whole numbers, and what is none obeys neither. A rule with a value that no label can have is obeyed by none."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values and possible(self.values)
            case "NotIn":
                return value not in self.values and possible(self.values)
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compare(value)

    def names(self, name: str) -> bool:
        """Whether a node's name obeys the rule: only In and NotIn are rules about names, of key metadata.name, with one
        value."""
        if self.key != "metadata.name" or len(self.values) != 1 or self.operator not in ("In", "NotIn"):
            return False
        return (name == self.values[0]) == (self.operator == "In")

    def _compare(self, value: str | None) -> bool:
        mark = whole_number(self.values[0]) if len(self.values) == 1 else None
        number = None if value is None else whole_number(value)
        if mark is None or number is None:
            return False
        return number > mark if self.operator == "Gt" else number < mark


@lru_cache(maxsize=1024)
def possible(values: tuple[str, ...]) -> bool:
    """Whether labels may have these values."""
    return all(map(_LABEL.fullmatch, values))


def possible_key(key: str) -> bool:
    """Whether a label or an annotation may have this name: NAME, or DOMAIN/NAME."""
    domain, slash, name = key.rpartition("/")
    if slash and not (len(domain) <= 253 and _DOMAIN.fullmatch(domain)):
        return False
    return bool(name) and possible((name,))


def possible_namespace(name: str) -> bool:
    """Whether a namespace may be called so."""
    return _NAMESPACE.fullmatch(name) is not None


def possible_name(name: str) -> bool:
    """Whether an object that may have dots in its name, as workloads may, can be called so."""
    return len(name) <= 253 and _DOMAIN.fullmatch(name) is not None


def whole_number(text: str) -> int | None:
    """A label's value as Go's ParseInt reads it: decimal, 64 bits. A sign is in no label."""
    if not text.isascii() or not text.isdecimal() or len(text) > 63:
        return None
    number = int(text)
    return number if number < 2**63 else None


class Term(Struct, frozen=True, gc=False):
    """Rules about a node's labels, and about its name (`fields`, key metadata.name), all of which must hold. One
    without any is obeyed by no node."""

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False
        return all(rule.matches(labels) for rule in self.labels) and all(rule.names(name) for rule in self.fields)


class Taint(Struct, frozen=True, gc=False, order=True):
    """What keeps pods off a node that do not tolerate it."""

    key: str
    effect: Effect
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}: {self.value}"


class Toleration(Struct, frozen=True, gc=False):
    """A taint that a pod puts up with. An empty `key` with Exists is any key, an empty `effect` any effect. After
    `seconds` of a taint with effect NoExecute Kubernetes deletes the pod; None: it never does."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: str = ""
    seconds: float | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class Port(Struct, frozen=True, gc=False):
    """A port of the node that a container takes. An empty address, or 0.0.0.0, is all addresses of the node."""

    number: int
    protocol: str = "TCP"
    address: str = ""

    def clashes(self, other: "Port") -> bool:
        """Whether one node cannot give both."""
        if (self.number, self.protocol) != (other.number, other.protocol):
            return False
        everywhere = ("", "0.0.0.0")  # noqa: S104  # an address as a pod states it; nothing is bound to it here
        return self.address in everywhere or other.address in everywhere or self.address == other.address


class Disk(Struct, frozen=True, gc=False):
    """A disk named in a pod itself. One node cannot have it in two pods, unless both only read it and `shareable`
    says that its kind allows that."""

    kind: str
    name: str
    read_only: bool = False
    shareable: bool = False

    def clashes(self, other: "Disk") -> bool:
        """Whether one node cannot give both."""
        if (self.kind, self.name) != (other.kind, other.name):
            return False
        return not (self.shareable and self.read_only and other.read_only)


class PodClaim(Struct, frozen=True, gc=False):
    """A persistent volume claim that a pod uses, of its own namespace. `own`: it is made for this pod alone."""

    name: str
    own: bool = False


class PodTerm(Struct, frozen=True, gc=False):
    """Pods, and a label of nodes (`topology`). A pod is near these pods on a node that has the same value of that label
    as the node of one of them.

    `labels` None: it selects no pods. Their namespaces are `namespaces`, and those whose labels obey `among`; None for
    `namespaces` is all, and without either it is the namespace of the pod that has the term, `home`.
    """

    topology: str
    labels: tuple[Expression, ...] | None
    namespaces: tuple[str, ...] | None = ()
    among: tuple[Expression, ...] | None = None

    def selects(
        self, home: str, namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str] | None = None
    ) -> bool:
        """Whether it selects a pod of this namespace and these labels. `of_namespace` are the labels of that namespace;
        while they are not known (None), it counts as one that `among` selects."""
        if self.labels is None or not self._covers(home, namespace, of_namespace):
            return False
        return all(rule.matches(labels) for rule in self.labels)

    def _covers(self, home: str, namespace: str, of_namespace: Mapping[str, str] | None) -> bool:
        if self.namespaces is None or namespace in self.namespaces:
            return True
        if self.among is None:
            return not self.namespaces and namespace == home
        return of_namespace is None or all(rule.matches(of_namespace) for rule in self.among)

    def keeps_off(self, home: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """The same, while no labels of namespaces are known: its name until version 2 of the plugin API."""
        return self.selects(home, namespace, labels)


Repel = PodTerm
"""Its name until version 2 of the plugin API."""


class PodPreference(Struct, frozen=True, gc=False):
    """Pods that a pod would rather be near, or with a weight below 0 rather away from."""

    term: PodTerm
    weight: int


class NodePreference(Struct, frozen=True, gc=False):
    """Nodes that a pod would rather be on."""

    term: Term
    weight: int


class TopologySpread(Struct, frozen=True, gc=False):
    """How evenly pods are spread over the values of a label of nodes (`topology`): no value may have more than
    `max_skew` pods above the value with the fewest. `hard`: a node where that does not hold is refused; else it is
    only worse.

    `labels` select the pods that count, of the pod's own namespace; None: none; empty: the pod itself alone. With
    `match_keys` only those count that have the pod's own values of these labels. With fewer than `min_domains`
    values the fewest counts as 0. Nodes that the pod's selector and affinity exclude do not count if it
    `honours_affinity`, and those whose taints it does not tolerate if it `honours_taints`.
    """

    topology: str
    max_skew: int
    labels: tuple[Expression, ...] | None
    hard: bool = True
    min_domains: int = 1
    match_keys: tuple[str, ...] = ()
    honours_affinity: bool = True
    honours_taints: bool = False
    of_controller: bool = False
    """The pods of the pod's controller count instead of those that `labels` select."""
    needs_all: bool = True
    """Nodes without the labels of all constraints that are hard, or soft, like this one do not count."""

    def selector(self, labels: Mapping[str, str]) -> tuple[Expression, ...] | None:
        """The rules about labels of the pods that count for a pod with these labels; None: no pod does."""
        if self.labels is None:
            return None
        own = [Expression(key, "In", (labels[key],)) for key in self.match_keys if key in labels]
        return (*self.labels, *own)


class Needs(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a pod asks for before it runs. Equal ones are one record.

    `requests` are what a scheduler counts: the greater of what all containers and sidecars take together and what
    starting takes, and the overhead. `affinity` are terms of which one must hold; None: there are none. `unsupported`
    names what it asks for that elasticd does not know, in words: such a pod is left alone.
    """

    scheduler: str = "default-scheduler"
    restart: Restart = "Always"
    priority: int = 0
    priority_class: str = ""
    preempts: bool = True
    """False: preemptionPolicy is Never."""
    requests: dict[str, float] = {}
    selector: dict[str, str] = {}
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[Port, ...] = ()
    disks: tuple[Disk, ...] = ()
    unsupported: tuple[str, ...] = ()
    gated: bool = False
    """A scheduling gate holds it back."""
    grace: float = 30.0
    """Seconds from its deletion to its end."""
    local: bool = False
    """It has storage that is lost when it leaves its node."""
    claims: bool = False
    """It uses persistent volume claims."""
    repels: tuple[PodTerm, ...] = ()
    """Pods that it must be away from, and that it keeps away."""
    attracts: tuple[PodTerm, ...] = ()
    """Pods that it must be near: some that all of these select."""
    prefers: tuple[PodPreference, ...] = ()
    prefers_nodes: tuple[NodePreference, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    images: tuple[str, ...] = ()
    """Of its containers, those that start before the others included."""

    @property
    def has_pod_terms(self) -> bool:
        """Whether it makes a difference to other pods where it is, or to it where they are."""
        return bool(self.repels or self.attracts or self.prefers)

    @property
    def selects_namespaces(self) -> bool:
        """Whether it selects other pods by the labels of their namespaces."""
        if not self.has_pod_terms:
            return False
        terms = (*self.repels, *self.attracts, *(each.term for each in self.prefers))
        return any(term.among is not None for term in terms)

    def tolerates(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the pod off a node; None: it tolerates all."""
        strict = (taint for taint in taints if taint.effect != "PreferNoSchedule")
        return next((taint for taint in strict if not any(each.tolerates(taint) for each in self.tolerations)), None)

    def time_limit(self, taints: Iterable[Taint]) -> tuple[Taint, float] | None:
        """Of taints that it tolerates, the one for which Kubernetes deletes it first, and after how many seconds; None:
        it may stay. As Kubernetes does, of several tolerations of a taint the first counts."""
        limits = [
            (taint, tolerated[0].seconds)
            for taint in taints
            if taint.effect == "NoExecute"
            and (tolerated := [each for each in self.tolerations if each.tolerates(taint)])
        ]
        finite = [(taint, seconds) for taint, seconds in limits if seconds is not None]
        return min(finite, key=lambda limit: limit[1], default=None)

    def excludes(self, labels: Mapping[str, str]) -> bool:
        """Whether nodeSelector and affinity rule out every node with these labels, whatever others it has."""
        if any(labels.get(key, value) != value for key, value in self.selector.items()):
            return True
        terms = self.affinity
        return terms is not None and not any(
            all(rule.matches(labels) for rule in term.labels if rule.key in labels) for term in terms
        )

    def wants(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node obeys nodeSelector and required affinity."""
        if not self.selector.items() <= labels.items():
            return False
        return self.affinity is None or any(term.matches(name, labels) for term in self.affinity)


def effective(
    containers: Iterable[Mapping[str, float]],
    starting: Iterable[tuple[Mapping[str, float], bool]],
    whole: Mapping[str, float],
    overhead: Mapping[str, float],
) -> dict[str, float]:
    """What a scheduler counts for a pod, as Kubernetes does.

    `starting` are the init containers in their order, each with whether it is a sidecar: one that is adds to what all
    after it need beside them, one that is not needs what it asks for beside the sidecars before it. What the pod as a
    whole asks for (`whole`) replaces what its containers come to. `overhead` is added.
    """
    total = dict[str, float]()
    for requests in containers:
        _add(total, requests)
    sidecars, peak = dict[str, float](), dict[str, float]()
    for amounts, sidecar in starting:
        if sidecar:
            _add(sidecars, amounts)
            _raise_to(peak, sidecars)
        else:
            beside = dict(sidecars)
            _add(beside, amounts)
            _raise_to(peak, beside)
    _add(total, sidecars)
    _raise_to(total, peak)
    total.update(whole)
    _add(total, overhead)
    return total


def greatest(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The greatest amount of each resource."""
    total = dict[str, float]()
    for amounts in each:
        _raise_to(total, amounts)
    return total


def _add(total: dict[str, float], amounts: Mapping[str, float]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0.0) + amount


def _raise_to(total: dict[str, float], amounts: Mapping[str, float]) -> None:
    for resource, amount in amounts.items():
        total[resource] = max(total.get(resource, 0.0), amount)
