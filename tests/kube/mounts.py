"""Random claims, volumes, classes and CSINodes, and pods that use them, each asking for one node: manifests, by filter.

Each pair has claims of its own, so that what kube-scheduler does for one changes nothing for another. Knows the wire
format; knows not who decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from random import Random
from typing import Any

from tests.kube.client import JSON
from tests.kube.islands import PIN, Crowd
from tests.kube.pairs import Board, a_node, a_pod, ended, pinned, some

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA = {ZONE: "failure-domain.beta.kubernetes.io/zone", REGION: "failure-domain.beta.kubernetes.io/region"}
PLACES = {ZONE: ("a", "b", "c"), REGION: ("r", "s")}
PROVISIONER = "fits.example.com"
"""The provisioner for which somebody makes volumes, and a CSI driver."""

TRACKED = "tracked.example.com"
"""Another, whose driver says what storage it has left."""

OTHER = "other.example.com"


@dataclass
class MountBoard(Board):
    """A board with what its pods mount. A volume whose annotation `fits/claim` names a claim is bound to it, and one
    with `fits/kept` is kept for it. A claim with `fits/deleted` is being deleted."""

    classes: list[JSON] = field(default_factory=list)
    claims: list[JSON] = field(default_factory=list)
    volumes: list[JSON] = field(default_factory=list)
    csi_nodes: list[JSON] = field(default_factory=list)
    capacities: list[JSON] = field(default_factory=list)

    def bind(self, claim: JSON, volume: JSON | None = None) -> None:
        """Add a claim that is bound, to this volume."""
        name = claim["metadata"]["name"]
        made = volume or a_volume(name)
        claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
        claim["spec"]["volumeName"] = made["metadata"]["name"]
        made["metadata"].setdefault("annotations", {})["fits/claim"] = name
        made["spec"]["storageClassName"] = claim["spec"].get("storageClassName", "")
        self.claims.append(claim)
        self.volumes.append(made)


def a_claim(name: str, class_name: str = "", size: int = 1, **spec: Any) -> JSON:
    """A claim of so many GiB."""
    asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{size}Gi"}}}
    return {"metadata": {"name": name, "annotations": {}}, "spec": {"storageClassName": class_name, **asks, **spec}}


def a_volume(name: str, size: int = 1, driver: str = OTHER, **spec: Any) -> JSON:
    """A volume of so many GiB."""
    has = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": f"{size}Gi"}}
    source = {"csi": {"driver": driver, "volumeHandle": name}, "persistentVolumeReclaimPolicy": "Retain"}
    return {"metadata": {"name": name, "annotations": {}, "labels": {}}, "spec": {**has, **source, **spec}}


def a_class(name: str, provisioner: str = PROVISIONER, *, waits: bool = True, **more: Any) -> JSON:
    """A storage class."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def mounting(*claims: str, **spec: Any) -> JSON:
    """A pod that uses these claims."""
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(claims)]
    return a_pod(volumes=volumes, **spec)


Ask = Callable[[Random, MountBoard, str, JSON], JSON]
"""Draws a pod that asks for a node, and adds what it mounts, with names that begin so."""


def mount_boards(seed: int, pairs: int, *, current: bool) -> list[MountBoard]:
    """A board for each filter about volumes, with at least so many pairs of a pod and a node; for a `current` version,
    or for 1.20, which knew no ReadWriteOncePod and compared labels of zones by their very names."""
    asks = {name: draw for name, draw in DRAWS.items() if current or name not in ("one pod", "storage left")}
    boards = [_board(name, draw, Random(f"{seed} {name}"), pairs) for name, draw in asks.items()]
    if not current:
        for node in (node for board in boards for node in board.nodes):
            labels = node["metadata"]["labels"]
            labels |= {beta: labels[label] for label, beta in BETA.items() if label in labels}
    return boards


def _board(name: str, ask: Ask, random: Random, pairs: int) -> MountBoard:
    board, numbers = MountBoard(name), count()
    prefix = "fits-" + name.replace(" ", "-")
    nodes = []
    for _ in range(pairs if ask is limited else 30):
        node = _placed(random)
        node["metadata"]["name"] = f"{prefix}-{next(numbers)}"
        node["metadata"]["labels"]["kubernetes.io/hostname"] = node["metadata"]["name"]
        nodes.append(node)
    board.nodes = nodes
    pods = []
    for node in islice(cycle(nodes), pairs):
        own = f"{prefix}-{next(numbers)}"
        pod = pinned(ask(random, board, own, node), node["metadata"]["name"])
        pod["metadata"]["name"] = own
        pods.append(pod)
    board.rounds = [pods[start : start + 60] for start in range(0, pairs, 60)]
    return board


def _placed(random: Random) -> JSON:
    """A node in a zone and region, or with only some of these labels."""
    return a_node(random, {label: random.choice(PLACES[label]) for label in some(random, list(PLACES), 0, 2)})


def _affinity(random: Random, node: JSON) -> JSON:
    """The node affinity of a volume, at times that of its node alone."""
    if random.random() < 0.2:
        return _terms([[{"key": "kubernetes.io/hostname", "operator": "In", "values": [node["metadata"]["name"]]}]])
    return _terms([[_rule(random) for _ in range(random.randint(1, 2))] for _ in range(random.randint(1, 2))])


def _terms(terms: Sequence[Sequence[JSON]]) -> JSON:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": rules} for rules in terms]}}


def _rule(random: Random) -> JSON:
    label = random.choice(list(PLACES))
    operator = random.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": some(random, PLACES[label], 1, 2)} if operator in ("In", "NotIn") else {}
    return {"key": label, "operator": operator, **values}


def bound(random: Random, board: MountBoard, own: str, node: JSON) -> JSON:
    """A pod with one or two bound claims, whose volumes have node affinity, or labels, or neither."""
    names = [f"{own}-{index}" for index in range(random.choice((1, 1, 2)))]
    for name in names:
        made = a_volume(name)
        if random.random() < 0.6:
            made["spec"]["nodeAffinity"] = _affinity(random, node)
        if random.random() < 0.5:
            for label in some(random, list(PLACES), 1, 2):
                key = BETA[label] if random.random() < 0.3 else label
                made["metadata"]["labels"][key] = "__".join(some(random, PLACES[label], 1, 2))
        board.bind(a_claim(name), made)
    return mounting(*names)


def usable(random: Random, board: MountBoard, own: str, _: JSON) -> JSON:
    """A pod whose claim is bound, or is of no use in one of many ways."""
    kind = random.choice(
        ("bound", "bound", "bound", "missing", "deleted", "lost", "immediate", "none", "gone", "named")
    )
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    match kind:
        case "bound":
            board.bind(a_claim(own))
        case "deleted":
            claim = a_claim(own)
            claim["metadata"] |= {"finalizers": ["example.com/fits"], "annotations": {"fits/deleted": "yes"}}
            board.bind(claim)
        case "lost":
            claim = a_claim(own, volumeName=f"{own}-gone")
            claim["metadata"]["annotations"] = done
            board.claims.append(claim)
        case "immediate":
            board.classes.append(a_class(own, "nobody.example.com", waits=False))
            board.claims.append(a_claim(own, own))
        case "none":
            board.claims.append(a_claim(own))
        case "gone":
            board.claims.append(a_claim(own, f"{own}-gone"))
        case "named":
            board.classes.append(a_class(own, "nobody.example.com"))
            board.claims.append(a_claim(own, own, volumeName=f"{own}-gone"))
        case _:
            pass
    return mounting(own)


def limited(random: Random, board: MountBoard, own: str, node: JSON) -> JSON:
    """A pod with volumes of a driver, on a node that takes few and has some."""
    name, limit = node["metadata"]["name"], random.choice((0, 1, 2, 3, None))
    driver = {"name": PROVISIONER, "nodeID": name, "allocatable": {"count": limit} if limit is not None else None}
    other = {"name": OTHER, "nodeID": name, "allocatable": {"count": 1}}
    drivers = [{key: value for key, value in driver.items() if value is not None}, other]
    board.csi_nodes.append({"metadata": {"name": name}, "spec": {"drivers": drivers}})
    there: list[str] = []
    for index in range(random.randint(0, 2)):
        claims = [f"{own}-on-{index}-{at}" for at in range(random.choice((1, 1, 2)))]
        for claim in claims:
            board.bind(a_claim(claim), a_volume(claim, driver=random.choice((PROVISIONER, PROVISIONER, OTHER))))
        shared = some(random, there, 1, 1) if there and random.random() < 0.3 else []
        pod = ended(random, mounting(*claims, *shared))
        pod["metadata"]["name"], pod["spec"]["nodeName"] = f"{own}-on-{index}", name
        board.bound.append(pod)
        there += claims
    return mounting(*_asked_for(random, board, own, there))


def _asked_for(random: Random, board: MountBoard, own: str, there: Sequence[str]) -> list[str]:
    """One or two claims: of a new volume, of one that is there, or of one that is yet to be made."""
    claims: list[str] = []
    for index in range(random.choice((1, 1, 2))):
        kind, name = random.choice(("new", "new", "there", "made")), f"{own}-{index}"
        if kind == "there" and there:
            claims += [name for name in some(random, there, 1, 1) if name not in claims]
        elif kind == "made":
            board.classes.append(a_class(name))
            board.claims.append(a_claim(name, name))
            claims.append(name)
        else:
            board.bind(a_claim(name), a_volume(name, driver=PROVISIONER))
            claims.append(name)
    return claims


def alone(random: Random, board: MountBoard, own: str, node: JSON) -> JSON:
    """A pod with a claim that only one pod may use, which another one may use already."""
    modes = ["ReadWriteOncePod"] if random.random() < 0.8 else ["ReadWriteOnce"]
    board.bind(a_claim(own, accessModes=modes), a_volume(own, accessModes=modes))
    if random.random() < 0.6:
        places = [node["metadata"]["name"], random.choice(board.nodes)["metadata"]["name"]]
        pod = ended(random, mounting(own))
        pod["metadata"]["name"], pod["spec"]["nodeName"] = f"{own}-on", random.choice(places)
        board.bound.append(pod)
    return mounting(own)


def waiting(random: Random, board: MountBoard, own: str, node: JSON) -> JSON:
    """A pod with one or two claims that wait for it, of a class of their own, which has volumes or makes them."""
    made = random.random() < 0.4
    more: JSON = {}
    if made and random.random() < 0.6:
        terms = [{label: some(random, PLACES[label], 1, 2)} for label in some(random, list(PLACES), 1, 2)]
        more["allowedTopologies"] = [
            {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]}
            for term in terms
        ]
    board.classes.append(a_class(own, PROVISIONER if made else "kubernetes.io/no-provisioner", **more))
    names = [f"{own}-{index}" for index in range(random.choice((1, 1, 2)))]
    for index, name in enumerate(names):
        board.claims.append(_wanting(random, name, own, 1 + 2 * index + random.randrange(2)))
    for index, size in enumerate(some(random, range(1, 9), 0, 3)):
        board.volumes.append(_offered(random, f"{own}-{index}", own, size, node))
    return mounting(*names)


def _wanting(random: Random, name: str, of_class: str, size: int) -> JSON:
    claim = a_claim(name, of_class, size)
    if random.random() < 0.2:
        claim["spec"]["selector"] = {"matchLabels": {"disk": "ssd"}}
    if random.random() < 0.15:
        claim["spec"]["accessModes"] = ["ReadOnlyMany"]
    if random.random() < 0.1:
        claim["spec"]["volumeMode"] = "Block"
    return claim


def _offered(random: Random, name: str, of_class: str, size: int, node: JSON) -> JSON:
    volume = a_volume(name, size, storageClassName=of_class)
    volume["metadata"]["labels"]["disk"] = random.choice(("ssd", "ssd", "hdd"))
    if random.random() < 0.6:
        volume["spec"]["nodeAffinity"] = _affinity(random, node)
    if random.random() < 0.3:
        volume["spec"]["accessModes"] = ["ReadWriteOnce", "ReadOnlyMany"]
    if random.random() < 0.1:
        volume["spec"]["volumeMode"] = "Block"
    if random.random() < 0.1:
        volume["metadata"]["annotations"]["fits/kept"] = f"{name}-other"  # one for its own claim is soon bound to that
    return volume


def left(random: Random, board: MountBoard, own: str, _: JSON) -> JSON:
    """A pod with a claim for which a volume is made where there is enough storage."""
    board.classes.append(a_class(own, TRACKED))
    board.claims.append(a_claim(own, own, random.randint(1, 4)))
    for index in range(random.randint(1, 3)):
        made: JSON = {"metadata": {"name": f"{own}-{index}"}, "storageClassName": own}
        made["capacity"] = f"{random.randint(1, 6)}Gi"
        if random.random() < 0.3:
            made["maximumVolumeSize"] = f"{random.randint(1, 6)}Gi"
        if random.random() < 0.9:
            keys = some(random, list(PLACES), 0, 1)
            made["nodeTopology"] = {"matchLabels": {key: random.choice(PLACES[key]) for key in keys}}
        board.capacities.append(made)
    return mounting(own)


DRAWS: dict[str, Ask] = {
    "bound claims": bound,
    "usable claims": usable,
    "volume limits": limited,
    "one pod": alone,
    "waiting claims": waiting,
    "storage left": left,
}


# Whole boards, which elasticd plans.


def mount_crowds(seed: int, number: int, pods: int, *, current: bool) -> list[tuple[MountBoard, Crowd]]:
    """Ten nodes each, and pods that all wait and compete for volumes; for a `current` version, or for 1.20."""
    return [
        _crowd(Random(f"{seed} mounts {index}"), f"mounts-{index}", pods, current=current) for index in range(number)
    ]


def _crowd(random: Random, name: str, number: int, *, current: bool) -> tuple[MountBoard, Crowd]:
    board, prefix = MountBoard(name), f"fits-{name}"
    for index in range(10):
        node = _placed(random)
        own = node["metadata"]["name"] = f"{prefix}-{index}"
        node["metadata"]["labels"] |= {"kubernetes.io/hostname": own, "fits/island": name}
        node["spec"]["taints"] = [{"key": PIN, "value": own, "effect": "NoSchedule"}]
        board.nodes.append(node)
        if random.random() < 0.7:
            driver = {"name": PROVISIONER, "nodeID": own, "allocatable": {"count": random.randint(1, 3)}}
            board.csi_nodes.append({"metadata": {"name": own}, "spec": {"drivers": [driver]}})
    shared = _to_share(random, board, prefix, current=current)
    pods = []
    for index in range(number):
        pod = mounting(*_wanted(random, board, f"{prefix}-{index:02d}", shared))
        pod["metadata"]["name"] = f"{prefix}-{index:02d}"
        pod["spec"] |= {"nodeSelector": {"fits/island": name}, "tolerations": [{"key": PIN, "operator": "Exists"}]}
        pods.append(pod)
    return board, Crowd(board.nodes, pods)


def _to_share(random: Random, board: MountBoard, prefix: str, *, current: bool) -> list[str]:
    """Add what several pods use: a class that makes volumes, a class of local ones, no two of them of one size, so that
    it is clear which is the smallest; and claims, whose names it gives."""
    board.classes += [a_class(f"{prefix}-made"), a_class(f"{prefix}-local", "kubernetes.io/no-provisioner")]
    if random.random() < 0.5:
        zones = {"key": ZONE, "values": some(random, PLACES[ZONE], 1, 2)}
        board.classes[0]["allowedTopologies"] = [{"matchLabelExpressions": [zones]}]
    for size in range(1, 13):
        reach = _affinity(random, random.choice(board.nodes))
        spec = {"storageClassName": f"{prefix}-local", "nodeAffinity": reach}
        board.volumes.append(a_volume(f"{prefix}-local-{size}", size, **spec))
    kinds = ("ReadWriteOnce", "ReadWriteMany", *(("ReadWriteOncePod", "ReadWriteOncePod") if current else ()))
    names = [f"{prefix}-shared-{index}" for index in range(len(kinds))]
    for name, mode in zip(names, kinds, strict=True):
        made = a_volume(name, driver=PROVISIONER, accessModes=[mode])
        if random.random() < 0.5:
            made["spec"]["nodeAffinity"] = _affinity(random, random.choice(board.nodes))
        board.bind(a_claim(name, accessModes=[mode]), made)
    for kind in ("made", "local"):
        names.append(f"{prefix}-shared-{kind}")
        board.claims.append(a_claim(names[-1], f"{prefix}-{kind}"))
    return names


def _wanted(random: Random, board: MountBoard, own: str, shared: Sequence[str]) -> list[str]:
    """None, one or two claims: of the shared ones, or of its own, which are bound or wait for their first consumer."""
    claims = some(random, shared, 1, 1) if random.random() < 0.3 else []
    for index in range(random.choice((0, 1, 1, 1, 2))):
        name, kind = f"{own}-{index}", random.choice(("bound", "made", "local", "local"))
        if kind == "bound":
            made = a_volume(name, driver=random.choice((PROVISIONER, OTHER)))
            if random.random() < 0.6:
                made["spec"]["nodeAffinity"] = _affinity(random, random.choice(board.nodes))
            if random.random() < 0.3:
                made["metadata"]["labels"][ZONE] = random.choice(PLACES[ZONE])
            board.bind(a_claim(name), made)
        else:
            board.claims.append(a_claim(name, f"{own.rpartition('-')[0]}-{kind}", random.randint(1, 8)))
        claims.append(name)
    return claims
