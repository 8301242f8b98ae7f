"""Random nodes, what is on them, and pods that ask for one of them: manifests, filter by filter.

Knows the wire format of what each filter looks at, and draws so that about half of the pods fit. Knows nothing of who
decides that, and touches no API server. What Kubernetes 1.20 decides otherwise than today's is left out: it refused a
pod for a resource that it does not ask for where that is overcommitted, and knows neither sidecars nor requests of a
whole pod.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from random import Random
from typing import Any

from tests.kube.client import JSON

HERE, ELSEWHERE = "here", "elsewhere"
"""Stand for two namespaces."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

CLASSES = {"small": {"cpu": "50m", "memory": "32Mi"}, "large": {"cpu": "500m", "memory": "256Mi"}}
"""Of the RuntimeClasses that these pods name, what they add to what a pod requests, by the end of their name."""


IMPOSSIBLE = ("no label", "-dash", "x" * 64)
"""Values that no label can have."""


@dataclass
class Board:
    """Nodes of one filter, pods that are bound to them from the start, and rounds of pods that each ask for one node.

    A pod of a filter about room is the only one of its round on its node.
    """

    filter: str
    nodes: list[JSON] = field(default_factory=list)
    bound: list[JSON] = field(default_factory=list)
    rounds: list[list[JSON]] = field(default_factory=list)


@dataclass(frozen=True)
class Draw:
    """How the nodes of a filter are drawn, what is on each, and what a pod asks for."""

    node: Callable[[Random], JSON]
    ask: Callable[[Random, Board], JSON]
    bound: Callable[[Random], list[JSON]] = lambda _: []
    room: bool = False
    """Whether pods of one round would be in each other's way."""


def boards(seed: int, pairs: int, *, impossible: bool) -> list[Board]:
    """A board for each filter, with at least so many pairs of a pod and a node; with node affinity that has values
    that no label can have, or without."""
    found = [_board(name, draw, Random(f"{seed} {name}"), pairs) for name, draw in DRAWS.items()]
    if not impossible:
        for pod in (pod for board in found for one in board.rounds for pod in one):
            _leave_out_impossible(pod)
    return found


def _leave_out_impossible(pod: JSON) -> None:
    """Numbers that rules compare with lose their sign, which no label can have."""
    for term in pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]:
        for rule in term.get("matchExpressions", ()):
            if "values" in rule:
                rule["values"] = [value.lstrip("+-") for value in rule["values"] if value not in IMPOSSIBLE]


def _board(name: str, draw: Draw, random: Random, pairs: int) -> Board:
    board, numbers = Board(name), count()
    prefix = "fits-" + name.replace(" ", "-")
    for _ in range(60 if draw.room else 30):
        node = draw.node(random)
        node["metadata"]["name"] = f"{prefix}-{next(numbers)}"
        node["metadata"]["labels"].setdefault("kubernetes.io/hostname", node["metadata"]["name"])
        board.nodes.append(node)
        for pod in draw.bound(random):
            pod["metadata"]["name"] = f"{prefix}-on-{next(numbers)}"
            pod["spec"]["nodeName"] = node["metadata"]["name"]
            board.bound.append(pod)
    names = [node["metadata"]["name"] for node in board.nodes]
    # Of two rounds one after the other none has a node of the other's, so that who left is forgotten before it is asked
    # for again.
    turns = [names[0::2], names[1::2]] if draw.room else [names]
    for turn in islice(cycle(turns), -(-pairs * len(turns) // len(names))):
        pods = [pinned(draw.ask(random, board), node) for node in turn]
        for pod in pods:
            pod["metadata"]["name"] = f"{prefix}-{next(numbers)}"
        board.rounds.append(pods)
    return board


def pinned(pod: JSON, node: str) -> JSON:
    """The pod, asking for one node beside all else that it asks for: of the terms of its affinity one must hold, so
    each gets the name."""
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms = affinity.setdefault(REQUIRED, {"nodeSelectorTerms": [{}]})["nodeSelectorTerms"]
    for term in terms:
        term.setdefault("matchFields", []).append({"key": "metadata.name", "operator": "In", "values": [node]})
    pod["metadata"].setdefault("annotations", {})["fits/node"] = node
    return pod


def a_node(random: Random, labels: dict[str, str] | None = None, **more: Any) -> JSON:
    """A node that is ready, with much room."""
    has = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "5000", **more.pop("has", {})}
    ready = {"type": "Ready", "status": more.pop("ready", "True")}
    status = {"capacity": has, "allocatable": has, "conditions": [ready]}
    return {"metadata": {"labels": dict(labels or {})}, "spec": {"taints": [], **more}, "status": status}


def a_pod(*containers: JSON, namespace: str = HERE, labels: dict[str, str] | None = None, **spec: Any) -> JSON:
    """A pod that requests nothing but what its containers say."""
    named = [{"name": f"c{index}", "image": "none", **one} for index, one in enumerate(containers or ({},))]
    metadata = {"namespace": namespace, "labels": dict(labels or {})}
    return {"metadata": metadata, "spec": {"containers": named, **spec}}


def some(random: Random, values: Sequence[Any], least: int, most: int) -> list[Any]:
    """A few of them, each at most once."""
    return random.sample(list(values), random.randint(least, min(most, len(values))))


# Labels, by nodeSelector and node affinity.

LABELS = {"zone": ("a", "b", "c"), "disk": ("ssd", "hdd"), "cores": ("1", "2", "10", "many", "010", "")}


def labelled(random: Random) -> JSON:
    """A node with some labels."""
    return a_node(random, {key: random.choice(LABELS[key]) for key in some(random, list(LABELS), 2, 3)})


def by_selector(random: Random, _: Board) -> JSON:
    """A pod with a selector of one label, at times two."""
    keys = some(random, ("zone", "disk"), 1, 2 if random.random() < 0.3 else 1)
    return a_pod(nodeSelector={key: random.choice(LABELS[key]) for key in keys})


def by_affinity(random: Random, _: Board) -> JSON:
    """A pod with one to three terms of node affinity."""
    terms = [
        {"matchExpressions": [_rule(random) for _ in range(random.randint(1, 2))]} for _ in range(random.randint(1, 3))
    ]
    pod = a_pod(affinity=_required(terms))
    if random.random() < 0.2:
        pod["spec"]["nodeSelector"] = {"zone": random.choice("ab")}
    return pod


def _required(terms: list[JSON]) -> JSON:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def _rule(random: Random) -> JSON:
    operator = random.choice(("In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        values = [random.choice(("0", "1", "2", "5", "-1", "+1", "many", "9223372036854775808"))]
        return {"key": "cores", "operator": operator, "values": values}
    key = random.choice(("zone", "disk", "cores", "absent"))
    rule: JSON = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        rule["values"] = some(random, (*LABELS.get(key, ("x",)), "other"), 1, 3)
        if random.random() < 0.1:
            rule["values"].append(random.choice(IMPOSSIBLE))
    return rule


def hosts(random: Random) -> JSON:
    """A node whose label may be another's name, as some installers set it."""
    return a_node(random, {} if random.random() < 0.7 else {"kubernetes.io/hostname": f"host-{random.randrange(3)}"})


def by_host(random: Random, board: Board) -> JSON:
    """A pod that asks for host names, by label and by name, of which some are those of its node."""
    names = [node["metadata"]["name"] for node in board.nodes]
    labels = [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in board.nodes]
    kind = random.choice(("label", "label in", "name not in"))
    if kind == "label":
        return a_pod(nodeSelector={"kubernetes.io/hostname": random.choice(some(random, labels, 1, 1))})
    if kind == "label in":
        rule = {"key": "kubernetes.io/hostname", "operator": "In", "values": some(random, sorted({*labels}), 5, 12)}
        return a_pod(affinity=_required([{"matchExpressions": [rule]}]))
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]}]}
        for name in some(random, names, 1, 1)
    ]
    return a_pod(affinity=_required(terms))


# Taints, and what they stand for.

KEYS, EFFECTS = ("dedicated", "gpu", "old"), ("NoSchedule", "NoExecute", "PreferNoSchedule")


def tainted(random: Random) -> JSON:
    """A node with up to two taints."""
    kinds = [(key, effect) for key in KEYS for effect in EFFECTS]
    taints = [
        {"key": key, "effect": effect, "value": random.choice(("", "a", "b"))}
        for key, effect in some(random, kinds, 0, 2)
    ]
    return a_node(random, taints=[_without_empty(one) for one in taints])


def _without_empty(values: JSON) -> JSON:
    return {key: value for key, value in values.items() if value}


def tolerating(random: Random, _: Board) -> JSON:
    """A pod with up to three tolerations."""
    return a_pod(tolerations=[_toleration(random, KEYS) for _ in range(random.randint(0, 3))])


def _toleration(random: Random, keys: Sequence[str]) -> JSON:
    effect = random.choice(("", "", *EFFECTS))
    if random.random() < 0.1:
        return _without_empty({"operator": "Exists", "effect": effect})
    found = {"key": random.choice(keys), "operator": random.choice(("Equal", "Exists", "")), "effect": effect}
    if found["operator"] != "Exists":
        found["value"] = random.choice(("", "a", "b"))
    return _without_empty(found)


CORDONED = "node.kubernetes.io/unschedulable"
FAILED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def cordoned(random: Random) -> JSON:
    """A node that is unschedulable, or not; the taint comes a moment later than the mark, and goes later."""
    taint = [{"key": CORDONED, "effect": "NoSchedule"}] if random.random() < 0.4 else []
    return a_node(random, unschedulable=random.random() < 0.5, taints=taint)


def of_cordoned(random: Random, _: Board) -> JSON:
    """A pod that may tolerate it."""
    return a_pod(tolerations=[_toleration(random, (CORDONED, "old")) for _ in range(random.randint(0, 2))])


def failing(random: Random) -> JSON:
    """A node that is ready, not ready or not heard of, with the taint that the node lifecycle controller gives it."""
    kind = random.choice(("True", "True", "False", "Unknown"))
    key = FAILED[kind == "Unknown"]
    effects = () if kind == "True" else ("NoSchedule", "NoExecute")[: random.randint(1, 2)]
    return a_node(random, ready=kind, taints=[{"key": key, "effect": effect} for effect in effects])


def of_failing(random: Random, _: Board) -> JSON:
    """A pod that may tolerate it. Admission adds that all tolerate NoExecute for five minutes."""
    return a_pod(tolerations=[_toleration(random, FAILED) for _ in range(random.randint(0, 2))])


# Room.


def with_ports(random: Random) -> list[JSON]:
    """Up to two pods with ports of the node, one of which may be leaving."""
    return [ended(random, _ported(random)) for _ in range(random.randint(0, 2))]


def by_ports(random: Random, _: Board) -> JSON:
    """A pod with one to three ports."""
    return _ported(random)


def _ported(random: Random) -> JSON:
    if random.random() < 0.15:
        port = {"containerPort": random.choice((8080, 8081)), "protocol": random.choice(("TCP", "UDP"))}
        return a_pod({"ports": [port]}, hostNetwork=True)
    kinds = [
        (number, kind, ip)
        for number in (8080, 8081)
        for kind in ("TCP", "UDP", "SCTP")
        for ip in ("", "0.0.0.0", "10.0.0.1", "10.0.0.2")
    ]
    ports = [
        _without_empty({"containerPort": 80, "hostPort": number, "protocol": kind, "hostIP": ip})
        for number, kind, ip in some(random, kinds, 1, 2)
    ]
    return a_pod(*({"ports": [port]} for port in ports))


def ended(random: Random, pod: JSON) -> JSON:
    """Some pods are being deleted, which still take room, and some have ended, which do not."""
    state = random.choices(("", "deleted", "Succeeded", "Failed"), (70, 15, 10, 5))[0]
    pod["metadata"]["annotations"] = {"fits/state": state}
    return pod


def small(random: Random) -> JSON:
    """A node with little room."""
    has = {"cpu": random.choice(("750m", "1", "2")), "memory": random.choice(("384Mi", "500M", "1Gi"))}
    return a_node(random, has={**has, "ephemeral-storage": random.choice(("6Gi", "10Gi"))})


LIGHT = {
    "cpu": ("0", "1m", "100m", "0.25"),
    "memory": ("0", "1", "64Mi", "100M"),
    "ephemeral-storage": ("0", "1Gi", "2G"),
}
HEAVY = {
    "cpu": ("0", "1m", "333m", "500m", "1"),
    "memory": ("0", "1", "256Mi", "0.5Gi", "1Gi"),
    "ephemeral-storage": ("0", "5Gi", "9G"),
}


def _requests(random: Random, amounts: Mapping[str, Sequence[str]]) -> JSON:
    found = {key: random.choice(amounts[key]) for key in some(random, list(amounts), 0, 3)}
    return {"resources": {"requests": found}}


def with_requests(random: Random) -> list[JSON]:
    """Up to three pods that the smallest node has room for together."""
    return [ended(random, a_pod(_requests(random, LIGHT))) for _ in range(random.randint(0, 3))]


def by_requests(random: Random, _: Board) -> JSON:
    """A pod with up to two containers, up to two that start before them, and perhaps an overhead."""
    pod = a_pod(*(_requests(random, HEAVY) for _ in range(random.randint(1, 2))))
    starting = [_requests(random, HEAVY) for _ in range(random.randint(0, 2))]
    pod["spec"]["initContainers"] = [
        {"name": f"i{index}", "image": "none", **one} for index, one in enumerate(starting)
    ]
    if random.random() < 0.4:
        pod["spec"]["runtimeClassName"] = f"fits-{random.choice(list(CLASSES))}"
    return pod


GPU, LICENCE = "example.com/gpu", "example.com/licence"


def rich(random: Random) -> JSON:
    """A node that has some of a device, none, or has never heard of it."""
    return a_node(random, has={key: random.choice(("0", "2", "4", "8")) for key in some(random, (GPU, LICENCE), 0, 2)})


def _devices(random: Random, least: int, most: int) -> JSON:
    found = {key: str(random.randint(least, most)) for key in some(random, (GPU, LICENCE), 1, 2)}
    return {"resources": {"requests": {**found, "cpu": "1m"}, "limits": found}}


def with_devices(random: Random) -> list[JSON]:
    """Up to two pods that have one of a device, or more than the node has."""
    return [ended(random, a_pod(_devices(random, 0, 1))) for _ in range(random.randint(0, 2))]


def by_devices(random: Random, _: Board) -> JSON:
    """A pod that asks for devices, in two containers or before them."""
    pod = a_pod(*(_devices(random, 1, 1) for _ in range(random.randint(1, 2))))
    if random.random() < 0.3:
        pod["spec"]["initContainers"] = [{"name": "i", "image": "none", **_devices(random, 1, 3)}]
    return pod


def crowded(random: Random) -> JSON:
    """A node for few pods."""
    return a_node(random, has={"pods": str(random.randint(0, 3))})


def with_pods(random: Random) -> list[JSON]:
    """Up to two pods, of which some leave or have ended."""
    return [ended(random, a_pod()) for _ in range(random.randint(0, 2))]


def by_number(random: Random, _: Board) -> JSON:
    """A pod that asks for nothing, or for little."""
    return a_pod(*([{}] if random.random() < 0.5 else [_requests(random, LIGHT)]))


def with_disks(random: Random) -> list[JSON]:
    """Up to two pods with disks."""
    return [ended(random, a_pod(volumes=_volumes(random, 3))) for _ in range(random.randint(0, 3))]


def by_disks(random: Random, _: Board) -> JSON:
    """A pod with up to three disks."""
    return a_pod(volumes=_volumes(random, 3))


def _volumes(random: Random, most: int) -> list[JSON]:
    return [{"name": f"v{index}", **_volume(random)} for index in range(random.randint(1, most))]


def _volume(random: Random) -> JSON:
    name, read_only = random.choice("dde"), random.random() < 0.5
    kind = random.choice(("gce", "aws", "iscsi", "rbd", "empty"))
    if kind == "gce":
        return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}
    if kind == "aws":
        return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}
    if kind == "iscsi":
        return {
            "iscsi": {
                "targetPortal": f"10.0.0.{random.randrange(3)}",
                "iqn": f"iqn.2001-04.com.example:{name}",
                "lun": 0,
                "readOnly": read_only,
            }
        }
    if kind == "rbd":
        monitors = some(random, ("m1", "m2", "m3"), 1, 2)
        pool = {"pool": "other"} if random.random() < 0.3 else {}
        return {"rbd": {"monitors": monitors, "image": name, "readOnly": read_only, **pool}}
    return {"emptyDir": {}}


# What pods that are there keep off.


def zoned(random: Random) -> JSON:
    """A node in a zone and a rack, or in none."""
    places = {"fits/zone": [f"z{number}" for number in range(5)], "fits/rack": [f"r{number}" for number in range(8)]}
    return a_node(random, {key: random.choice(places[key]) for key in some(random, list(places), 0, 2)})


def that_repel(random: Random) -> list[JSON]:
    """At times a pod that keeps others off."""
    if random.random() < 0.2:
        return []
    labels = random.choice(
        (
            {"matchLabels": {"app": "web"}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web", "api"]}]},
            {},
        )
    )
    topology = random.choice(("fits/zone", "fits/rack", "kubernetes.io/hostname"))
    term: JSON = {"topologyKey": topology, "labelSelector": labels}
    if random.random() < 0.4:
        term["namespaces"] = some(random, (HERE, ELSEWHERE), 1, 2)
    pod = a_pod(namespace=random.choice((HERE, ELSEWHERE)), affinity={"podAntiAffinity": {REQUIRED: [term]}})
    return [ended(random, pod)]


def repelled(random: Random, _: Board) -> JSON:
    """A pod with a label."""
    return a_pod(namespace=random.choice((HERE, ELSEWHERE)), labels={"app": random.choice(("web", "api", "job"))})


DRAWS = {
    "selector": Draw(labelled, by_selector),
    "affinity": Draw(labelled, by_affinity),
    "host name": Draw(hosts, by_host),
    "taints": Draw(tainted, tolerating),
    "unschedulable": Draw(cordoned, of_cordoned),
    "not ready": Draw(failing, of_failing),
    "host ports": Draw(a_node, by_ports, with_ports, room=True),
    "resources": Draw(small, by_requests, with_requests, room=True),
    "extended": Draw(rich, by_devices, with_devices, room=True),
    "number of pods": Draw(crowded, by_number, with_pods, room=True),
    "disks": Draw(a_node, by_disks, with_disks, room=True),
    "anti-affinity": Draw(zoned, repelled, that_repel),
}
