"""Random islands: a few nodes whose zones and racks are labels of their own, with pods on them, and pods that ask where
they may be by the pods that are there. Manifests, filter by filter.

Each island is a cluster of its own to kube-scheduler: what counts by a label that other nodes have not counts here
alone. So one pod of each island is asked about at a time, and many islands at once. Knows the wire format; knows not
who decides.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from tests.kube.client import JSON
from tests.kube.pairs import ELSEWHERE, HERE, PREFERRED, REQUIRED, Board, a_node, a_pod, ended, some

NODES, ROUNDS = 5, 8
PIN, DEDICATED = "fits/only", "fits/dedicated"
APPS, VERSIONS = ("web", "api"), ("v1", "v2")
SPACES = {HERE: {"team": "shop"}, ELSEWHERE: {"team": "ops"}}
"""The labels of the namespaces."""

Ask = Callable[[Random, str], JSON]
"""Draws a pod that asks for something about an island (the end of its labels' names)."""


def islands(seed: int, pairs: int, *, current: bool) -> list[Board]:
    """A board for each filter about other pods, with at least so many pods in all; for a `current` version, or without
    what 1.20 decides otherwise."""
    number = -(-2 * pairs // ROUNDS)
    boards = [_board(name, ask, Random(f"{seed} {name}"), number) for name, ask in ASKS.items()]
    return boards if current else _as_in_1_20(boards)


def _as_in_1_20(boards: list[Board]) -> list[Board]:
    for pod in (pod for board in boards for one in board.rounds for pod in one):
        _simplify(pod)
    return boards


def _simplify(pod: JSON) -> None:
    """Leave out what 1.20 decides otherwise about spread: it took an empty selector for all pods, and counted pods on
    nodes that have not the labels of all constraints, or that the pod's nodeSelector excludes."""
    spec = pod["spec"]
    if constraints := spec.get("topologySpreadConstraints"):
        del constraints[1:]
        if constraints[0].get("labelSelector") == {}:
            constraints[0]["labelSelector"] = {"matchLabels": {"app": APPS[0]}}
        if "disk" in spec.get("nodeSelector", {}):
            del spec["nodeSelector"]


def _board(name: str, ask: Ask, random: Random, number: int) -> Board:
    board = Board(name)
    names = [f"{name.replace(' ', '-')}-{index}" for index in range(number)]
    for island in names:
        nodes = [_node(random, island, index) for index in range(NODES)]
        board.nodes += nodes
        for index in range(random.randint(3, 9)):
            pod = _resident(random, island)
            pod["metadata"]["name"] = f"fits-{island}-on-{index}"
            pod["spec"]["nodeName"] = random.choice(nodes)["metadata"]["name"]
            board.bound.append(pod)
    for turn in range(ROUNDS):
        pods = []
        for island in names[turn % 2 :: 2]:
            pod = ask(random, island)
            pod["metadata"]["name"] = f"fits-{island}-asks-{len(board.rounds)}"
            _pin(random, pod, f"fits-{island}-{random.randrange(NODES)}")
            pods.append(pod)
        board.rounds.append(pods)
    return board


def _node(random: Random, island: str, index: int) -> JSON:
    name = f"fits-{island}-{index}"
    labels = {"kubernetes.io/hostname": name, "fits/island": island, "disk": random.choice(("ssd", "hdd"))}
    if random.random() < 0.9:
        labels[f"fits/zone-{island}"] = random.choice("ab" if random.random() < 0.6 else "abc")
    if random.random() < 0.8:
        labels[f"fits/rack-{island}"] = random.choice("rst")
    taints = [{"key": PIN, "value": name, "effect": "NoSchedule"}]
    if random.random() < 0.3:
        taints.append({"key": DEDICATED, "effect": "NoSchedule"})
    node = a_node(random, labels, taints=taints)
    node["metadata"]["name"] = name
    return node


def _pin(random: Random, pod: JSON, node: str) -> None:
    """Let a pod go to one node alone: by a taint, which does not keep other nodes from counting; or by its name, where
    the constraints that look at taints count."""
    spec, constraints = pod["spec"], pod["spec"].get("topologySpreadConstraints", [])
    pod["metadata"].setdefault("annotations", {})["fits/node"] = node
    tolerations = spec.setdefault("tolerations", [])
    if random.random() < 0.5:
        tolerations.append({"key": DEDICATED, "operator": "Exists"})
    if not any("nodeTaintsPolicy" in each for each in constraints):
        tolerations.append({"key": PIN, "value": node, "effect": "NoSchedule"})
        return
    tolerations.append({"key": PIN, "operator": "Exists"})
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    spec.setdefault("affinity", {})["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    for each in constraints:
        each["nodeAffinityPolicy"] = "Ignore"


def _labels(random: Random) -> dict[str, str]:
    return {"app": random.choice(APPS), "version": random.choice(VERSIONS)}


def _space(random: Random) -> str:
    return random.choices((HERE, ELSEWHERE), (7, 3))[0]


def _resident(random: Random, island: str) -> JSON:
    """A pod that is there, at times with terms of its own, which may be on its way out or have ended."""
    pod = a_pod(namespace=_space(random), labels=_labels(random))
    kind = random.choices(("", "podAntiAffinity", "podAffinity"), (75, 20, 5))[0]
    if kind:
        pod["spec"]["affinity"] = {kind: {REQUIRED: [_term(random, island)]}}
    return ended(random, pod)


def _selector(random: Random) -> JSON:
    """A selector of labels."""
    kinds: tuple[JSON, ...] = (
        {"matchLabels": {"app": random.choice(APPS)}},
        {"matchLabels": {"app": random.choice(APPS)}},
        {"matchExpressions": [{"key": "app", "operator": random.choice(("In", "NotIn")), "values": ["web", "other"]}]},
        {"matchExpressions": [{"key": random.choice(("app", "none")), "operator": "Exists"}]},
        {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]},
        {},
    )
    return random.choice(kinds)


def _topology(random: Random, island: str) -> str:
    return f"fits/{random.choice(('zone', 'zone', 'rack'))}-{island}"


def _term(random: Random, island: str) -> JSON:
    term: JSON = {"topologyKey": _topology(random, island), "labelSelector": _selector(random)}
    if random.random() < 0.05:
        del term["labelSelector"]
    if random.random() < 0.3:
        term["namespaces"] = some(random, (HERE, ELSEWHERE), 1, 2)
    if random.random() < 0.3:
        rules = [{"key": "team", "operator": "In", "values": some(random, ("shop", "ops", "other"), 1, 2)}]
        term["namespaceSelector"] = random.choice(({}, {"matchLabels": {"team": "ops"}}, {"matchExpressions": rules}))
    if "labelSelector" in term and random.random() < 0.2:
        term[random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    return term


def spread(random: Random, island: str) -> JSON:
    """A pod with one or two hard spread constraints, at times with a soft one beside."""
    pod = a_pod(namespace=_space(random), labels=_labels(random))
    keys = some(random, (f"fits/zone-{island}", f"fits/rack-{island}"), 1, 2)
    taints = random.random() < 0.3
    pod["spec"]["topologySpreadConstraints"] = [constraint(random, key, taints=taints) for key in keys]
    if random.random() < 0.3:
        soft = {"topologyKey": keys[0], "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        pod["spec"]["topologySpreadConstraints"].append({**soft, "labelSelector": {}})
    if random.random() < 0.3:
        pod["spec"]["nodeSelector"] = {"disk": random.choice(("ssd", "hdd"))}
    return pod


def constraint(random: Random, key: str, *, taints: bool) -> JSON:
    """A hard constraint; with `taints` it has an opinion about those."""
    made: JSON = {"topologyKey": key, "maxSkew": random.choice((1, 1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
    made["labelSelector"] = _selector(random)
    if random.random() < 0.3:
        made["minDomains"] = random.randint(1, 4)
    if random.random() < 0.3:
        made["matchLabelKeys"] = random.choice((["version"], ["none"], ["version", "none"]))
    if random.random() < 0.3:
        made["nodeAffinityPolicy"] = random.choice(("Honor", "Ignore"))
    if taints:
        made["nodeTaintsPolicy"] = random.choice(("Honor", "Ignore"))
    if random.random() < 0.05:
        made.pop("matchLabelKeys", None)
        del made["labelSelector"]
    return made


def _with_terms(kind: str) -> Ask:
    def ask(random: Random, island: str) -> JSON:
        terms = [_term(random, island) for _ in range(random.choice((1, 1, 2)))]
        affinity: dict[str, Any] = {kind: {REQUIRED: terms}}
        selector = {"fits/island": island}
        return a_pod(namespace=_space(random), labels=_labels(random), affinity=affinity, nodeSelector=selector)

    return ask


ASKS: dict[str, Ask] = {
    "spread": spread,
    "pod affinity": _with_terms("podAffinity"),
    "pod anti-affinity": _with_terms("podAntiAffinity"),
}


# What pods prefer: each may go to all nodes of its island.


def preferring(seed: int, pairs: int, *, current: bool) -> list[Board]:
    """A board for each score of kube-scheduler, by its name; for a `current` version, or without what 1.20 decides
    otherwise. That counted the nodes with an image when a node came, so its answer depends on their order."""
    number = -(-2 * pairs // ROUNDS)
    draws: dict[str, Ask] = {
        "PodTopologySpread": partial(_soft_spread, several=current),
        "InterPodAffinity": _with_preferred_pods,
        "NodeAffinity": _with_preferred_nodes,
        "TaintToleration": _with_soft_tolerations,
        "ImageLocality": _with_images,
    }
    if not current:
        del draws["ImageLocality"]
    boards = [_scored(name, ask, Random(f"{seed} {name}"), number) for name, ask in draws.items()]
    return boards if current else _as_in_1_20(boards)


def _scored(name: str, ask: Ask, random: Random, number: int) -> Board:
    board = Board(name)
    names = [f"{name.lower()}-{index}" for index in range(number)]
    for island in names:
        nodes = [_node(random, island, index) for index in range(NODES)]
        for node in nodes:
            _soften(random, node)
        board.nodes += nodes
        for index in range(random.randint(3, 9)):
            pod = _resident(random, island)
            if random.random() < 0.3:
                kind = random.choice(("podAffinity", "podAntiAffinity"))
                pod["spec"]["affinity"] = {kind: {PREFERRED: [_weighted(random, island)]}}
            pod["metadata"]["name"] = f"fits-{island}-on-{index}"
            pod["spec"]["nodeName"] = random.choice(nodes)["metadata"]["name"]
            board.bound.append(pod)
    for turn in range(ROUNDS):
        pods = []
        for island in names[turn % 2 :: 2]:
            pod = ask(random, island)
            pod["metadata"]["name"] = f"fits-{island}-asks-{len(board.rounds)}"
            pod["spec"]["schedulerName"] = f"only-{name}"
            pod["spec"]["nodeSelector"] = {"fits/island": island}
            pods.append(pod)
        board.rounds.append(pods)
    return board


IMAGES = {f"registry.example/team/app-{index}:{tag}": 150 * 2**20 * (index + 1) for index in range(4) for tag in "12"}


def _soften(random: Random, node: JSON) -> None:
    """Taints that only prefer others, and images."""
    keys = some(random, ("old", "slow", "far"), 0, 3)
    node["spec"]["taints"] = [{"key": key, "effect": "PreferNoSchedule"} for key in keys]
    images = some(random, list(IMAGES), 0, 6)
    node["status"]["images"] = [{"names": [name], "sizeBytes": IMAGES[name]} for name in images]


def _soft_spread(random: Random, island: str, *, several: bool) -> JSON:
    pod = a_pod(namespace=_space(random), labels=_labels(random))
    keys = (f"fits/zone-{island}", f"fits/rack-{island}", "kubernetes.io/hostname")
    soft = [constraint(random, key, taints=False) for key in some(random, keys, 1, 2 if several else 1)]
    for each in soft:
        each["whenUnsatisfiable"] = "ScheduleAnyway"
        each.pop("minDomains", None)
    pod["spec"]["topologySpreadConstraints"] = soft
    return pod


def _weighted(random: Random, island: str) -> JSON:
    return {"weight": random.randint(1, 9), "podAffinityTerm": _term(random, island)}


def _with_preferred_pods(random: Random, island: str) -> JSON:
    affinity: JSON = {}
    for kind in some(random, ("podAffinity", "podAntiAffinity"), 0, 2):
        affinity[kind] = {PREFERRED: [_weighted(random, island) for _ in range(random.randint(1, 2))]}
    return a_pod(namespace=_space(random), labels=_labels(random), affinity=affinity)


def _with_preferred_nodes(random: Random, island: str) -> JSON:
    rules: list[JSON] = [
        {"key": "disk", "operator": random.choice(("In", "NotIn")), "values": ["ssd"]},
        {"key": f"fits/zone-{island}", "operator": random.choice(("In", "NotIn")), "values": some(random, "abc", 1, 2)},
        {"key": f"fits/rack-{island}", "operator": random.choice(("Exists", "DoesNotExist"))},
    ]
    terms = [
        {"weight": random.randint(1, 20), "preference": {"matchExpressions": some(random, rules, 1, 2)}}
        for _ in range(random.randint(1, 3))
    ]
    return a_pod(affinity={"nodeAffinity": {PREFERRED: terms}})


def _with_soft_tolerations(random: Random, _: str) -> JSON:
    effects: tuple[JSON, ...] = ({}, {"effect": "PreferNoSchedule"}, {"effect": "NoExecute"})
    keys = some(random, ("old", "slow", "far"), 0, 2)
    return a_pod(tolerations=[{"key": key, "operator": "Exists", **random.choice(effects)} for key in keys])


def _with_images(random: Random, _: str) -> JSON:
    names = some(random, (*IMAGES, "registry.example/none:1"), 1, 3)
    return a_pod(*({"image": name} for name in names))


# Whole boards, which elasticd plans.


@dataclass
class Crowd:
    """The nodes of an island, and pods that all wait."""

    nodes: list[JSON]
    pods: list[JSON]


def crowds(seed: int, number: int, pods: int, *, current: bool) -> list[Crowd]:
    """Islands on which pods of a few Deployments wait that depend on each other."""
    found = [_crowd(Random(f"{seed} crowd {index}"), f"crowd-{index}", pods) for index in range(number)]
    for pod in (pod for crowd in found for pod in crowd.pods if not current):
        _simplify(pod)
    return found


def _crowd(random: Random, island: str, number: int) -> Crowd:
    nodes = [_node(random, island, index) for index in range(2 * NODES)]
    for node in nodes:
        node["spec"]["taints"] = node["spec"]["taints"][:1]
    templates = [_template(random, island) for _ in range(4)]
    pods = []
    for index in range(number):
        pod: JSON = json.loads(json.dumps(random.choice(templates)))
        pod["metadata"]["name"] = f"fits-{island}-{index:02d}"
        pod["spec"]["nodeSelector"] = {"fits/island": island}
        pod["spec"]["tolerations"] = [{"key": PIN, "operator": "Exists"}]
        pods.append(pod)
    return Crowd(nodes, pods)


def _template(random: Random, island: str) -> JSON:
    """A pod with none, one or some of the kinds of terms; those that only the server completes left out."""
    pod = a_pod(namespace=HERE, labels=_labels(random), affinity={})
    if random.random() < 0.5:
        pod["spec"]["topologySpreadConstraints"] = [constraint(random, f"fits/zone-{island}", taints=False)]
    for kind, chance in (("podAffinity", 0.2), ("podAntiAffinity", 0.4)):
        if random.random() < chance:
            term = _term(random, island)
            for key in ("matchLabelKeys", "mismatchLabelKeys"):
                term.pop(key, None)
            pod["spec"]["affinity"][kind] = {REQUIRED: [term]}
    return pod


def allow_only(pod: JSON, node: str) -> JSON:
    """The same pod, which tolerates being on one node alone."""
    return {**pod, "spec": {**pod["spec"], "tolerations": [{"key": PIN, "value": node, "effect": "NoSchedule"}]}}
