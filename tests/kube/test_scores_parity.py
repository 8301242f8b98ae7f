"""Agreement with the genuine kube-scheduler: which node is best for this pod, and may pods be where elasticd puts them?

Scores: one kube-scheduler with a profile for each of its scores, of which that one alone counts; the node that it binds
a pod to must be one of those that elasticd's strategy scores highest. One more profile has all scores, with weights of
its own, and elasticd the policy that `elasticd import` makes of it. Boards: elasticd plans thirty pods that depend on
each other; kube-scheduler is then offered one after the other for the node where elasticd put it, and must take it.
"""

import copy
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli
import yaml

from elasticd.config.policies import decode_policy
from elasticd.kit.node_table import NodeTable
from elasticd.migration.kube_scheduler import scheduler_policies
from elasticd.model.actions import BindClaim
from elasticd.model.placement import Column, Mask
from elasticd.model.workload import Pod
from elasticd.registry import discover
from elasticd_plugins.filters import Filters
from elasticd_plugins.image_locality import ImageLocality
from elasticd_plugins.least_requested import LeastRequested
from elasticd_plugins.node_affinity import NodeAffinity, TaintScore
from elasticd_plugins.pod_affinity import PodAffinity
from elasticd_plugins.preemption import Preemption
from elasticd_plugins.topology_spread import SpreadScore
from tests.kit.pools import planned
from tests.kube.client import JSON
from tests.kube.conftest import Kube
from tests.kube.control_plane import SCHEDULER
from tests.kube.islands import Crowd, allow_only, crowds, preferring
from tests.kube.mounts import PROVISIONER, mount_crowds
from tests.kube.pairs import Board
from tests.kube.processes import Program, free_port
from tests.kube.provisioner import provisioning
from tests.kube.test_filters_parity import PAIRS, SEED, Ground, Tally, decoded, ground, seen, verdict

BOARDS = int(os.environ.get("BOARDS", "4"))  # of thirty pods each, which elasticd plans
STRATEGIES: dict[str, Any] = {
    "PodTopologySpread": SpreadScore(),
    "InterPodAffinity": PodAffinity(),
    "NodeAffinity": NodeAffinity(),
    "TaintToleration": TaintScore(),
    "ImageLocality": ImageLocality(),
}


MIXED = "mixed"
WEIGHTS = {"TaintToleration": 2, "NodeAffinity": 5, "InterPodAffinity": 3, "NodeResourcesBalancedAllocation": 4}
"""Those of the profile with all scores, where they are not the default ones."""


def mixed_profile() -> JSON:
    """The profile with all scores, as a current version has them."""
    resources = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    arguments = {
        "InterPodAffinity": {"hardPodAffinityWeight": 20},
        "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}},
    }
    score = {
        "disabled": [{"name": name} for name in WEIGHTS],
        "enabled": [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()],
    }
    config = [{"name": name, "args": args} for name, args in arguments.items()]
    return {"schedulerName": MIXED, "plugins": {"score": score}, "pluginConfig": config}


@asynccontextmanager
async def scoring(kube: Kube, folder: Path) -> AsyncIterator[JSON]:
    """A kube-scheduler of which a profile `only-NAME` scores by this plugin alone, and one by all. Gives its file."""
    plane = kube.plane
    scheduler = plane.program("kube-scheduler")
    profiles = [
        {
            "schedulerName": f"only-{name}",
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": name, "weight": 1}]}},
        }
        for name in STRATEGIES
    ]
    if plane.version >= (1, 22):
        profiles.append(mixed_profile())
    config = {
        "apiVersion": f"kubescheduler.config.k8s.io/{'v1beta1' if plane.version < (1, 22) else 'v1'}",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig(SCHEDULER)), "qps": 500, "burst": 1000},
        "percentageOfNodesToScore": 100,
        "profiles": profiles,
    }
    if plane.version < (1, 24):  # until then also over plain HTTP
        address = f"127.0.0.1:{free_port()}"
        config |= {"healthzBindAddress": address, "metricsBindAddress": address}
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    flags = [f"--config={path}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    program = Program("scores", [scheduler.command[0], *flags], folder / "scores.log")
    program.start()
    try:
        yield config
    finally:
        program.check()
        await program.stop()


def fitting(filters: Filters, view: NodeTable, pod: Pod) -> Mask:
    """The nodes that a pod fits on."""
    refused = [np.zeros(len(view.names), np.bool_), *(each.nodes for each in filters.filter_nodes(pod, view))]
    fits: Mask = ~np.logical_or.reduce(refused)
    return fits


def scored(strategy: Any, view: NodeTable, pod: Pod, fits: Mask) -> Column:
    """A strategy's score of each node, times its weight."""
    needs_fits = "fits" in signature(strategy.score_nodes).parameters
    said = strategy.score_nodes(pod, view, fits) if needs_fits else strategy.score_nodes(pod, view)
    return np.zeros(len(view.names)) if said is None else said.values * said.weight


def best(values: Column, view: NodeTable, fits: Mask, slack: float = 0.0) -> tuple[set[str], int]:
    """The nodes that are best, or not worse than the best by more than a slack, and how many the pod fits on."""
    most = values[fits].max() if fits.any() else 0.0
    return {view.names[index] for index in np.flatnonzero(fits & (values >= most - slack))}, int(np.count_nonzero(fits))


def count(tally: Tally, wire: JSON, nodes: set[str], number: int) -> None:
    """Note whether kube-scheduler took one of the best nodes. It fits, in a tally, where not all nodes are best."""
    tally.pairs += 1
    tally.fits += len(nodes) < number
    if wire["spec"].get("nodeName", "") not in (nodes or {""}):
        spec = json.dumps(wire["spec"])
        tally.differs.append(f"kube-scheduler: {verdict(wire)}\nelasticd: {sorted(nodes)}\n{spec}")


def compare(tally: Tally, name: str, view: NodeTable, found: Sequence[JSON]) -> None:
    """Whether kube-scheduler took one of the nodes that are best by one score."""
    for wire, pod in zip(found, decoded(found), strict=True):
        fits = fitting(Filters(), view, pod)
        count(tally, wire, *best(scored(STRATEGIES[name], view, pod, fits), view, fits))


def imported(config: JSON) -> list[Any]:
    """The strategies of the policy that is made of the profile with all scores, filters first, without preemption."""
    (policy,) = [each for each in scheduler_policies(config, "scheduler.yaml") if each.name == MIXED]
    policy_made = decode_policy(Path(f"{MIXED}.toml"), tomli.loads(policy.text), discover())
    return [strategy for strategy in policy_made.strategies if not isinstance(strategy, Preemption)]


async def compare_mixed(made: Ground, view: NodeTable, every: Sequence[Board], config: JSON) -> Tally:
    """Offer the pods of two rounds of each board to the profile with all scores. kube-scheduler cuts each score to a
    whole number of 100, that of requests twice, so its best node may be worse by all its weights together."""
    filters, *strategies = imported(config)
    assert isinstance(filters, Filters)
    halved = WEIGHTS["NodeResourcesBalancedAllocation"] / 2
    slack, tally = 0.1 * (sum(each.weight for each in strategies) + halved + 1) + 1e-9, Tally()
    for turn in range(2):  # those of every other island, and of the rest
        label = f"m{turn}"
        asked = [copy.deepcopy(pod) for board in every for pod in board.rounds[turn]]
        for pod in asked:
            pod["spec"]["schedulerName"] = MIXED
        await made.each(partial(made.create, label=label), asked)
        found = await made.answered(label, len(asked))
        for wire, pod in zip(found, decoded(found), strict=True):
            fits = fitting(filters, view, pod)
            values = np.add.reduce([scored(each, view, pod, fits) for each in strategies])
            count(tally, wire, *best(values, view, fits, slack))
        await made.clear(label)
    return tally


@pytest.mark.timeout(900)
async def test_scores_agree_with_the_genuine_kube_scheduler(kube: Kube, namespace: str, tmp_path: Path) -> None:
    every = preferring(SEED, PAIRS, current=kube.plane.version >= (1, 22))
    tallies = {board.filter: Tally() for board in every}
    async with ground(kube, namespace, every) as made, scoring(kube, tmp_path) as config:
        view = await seen(made)
        for number, rounds in enumerate(zip_longest(*(board.rounds for board in every), fillvalue=())):
            label = f"s{number}"
            pods = [pod for one in rounds for pod in one]
            await made.each(partial(made.create, label=label), pods)
            found = {pod["metadata"]["name"]: pod for pod in await made.answered(label, len(pods))}
            await made.clear(label)
            for board, one in zip(every, rounds, strict=True):
                compare(tallies[board.filter], board.filter, view, [found[pod["metadata"]["name"]] for pod in one])
        if kube.plane.version >= (1, 22):
            tallies[MIXED] = await compare_mixed(made, view, every, config)
    print(f"\n{'score':20}{'pods':>7}{'decided':>9}{'differs':>9}")
    for name, tally in tallies.items():
        print(f"{name:20}{tally.pairs:7}{tally.fits:9}{len(tally.differs):9}")
        print(*tally.differs[:3], sep="\n")
    assert {name: tally.differs[:1] for name, tally in tallies.items() if tally.differs} == {}
    assert all(tally.pairs >= PAIRS and tally.fits > 0.3 * tally.pairs for tally in tallies.values())


async def taken(made: Ground, pods: Sequence[JSON]) -> list[JSON]:
    """The pods as the server would take them: it drops what its version does not know."""
    found = list[JSON]()

    async def ask(pod: JSON) -> None:
        found.append(await made.create(pod, "asked", dry_run=True))

    await made.each(ask, pods)
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("about", ["neighbours", "volumes"])
async def test_kube_scheduler_allows_every_place_of_a_plan(kube: Kube, namespace: str, about: str) -> None:
    current, every = kube.plane.version >= (1, 22), list[Crowd]()
    boards: list[Board] = []
    if about == "neighbours":
        every = crowds(SEED, number=BOARDS, pods=30, current=current)
        boards += [Board("crowd", crowd.nodes) for crowd in every]
    else:
        for board, crowd in mount_crowds(SEED, number=BOARDS, pods=30, current=current):
            boards.append(board)
            every.append(crowd)
    async with ground(kube, namespace, boards) as made, provisioning(kube.client, PROVISIONER):
        view = await seen(made)
        strategies = [Filters(), LeastRequested(), SpreadScore(), PodAffinity()]
        plans = [planned(strategies, view, decoded(await taken(made, crowd.pods))) for crowd in every]
        manifests = {pod["metadata"]["name"]: pod for crowd in every for pod in crowd.pods}
        found = [[each for each in plan if each.node] for plan in plans]
        for number, step in enumerate(zip_longest(*found)):
            pods = [allow_only(manifests[each.pod.name], each.node) for each in filter(None, step)]
            await made.each(partial(made.create, label=f"c{number}"), pods)
            answers = await made.answered(f"c{number}", len(pods))
            wrong = [verdict(pod) for pod in answers if not pod["spec"].get("nodeName")]
            assert not wrong, wrong[0]
        claims = await made.client.list(made.claims)
    volumes = {each["metadata"]["name"]: each["spec"].get("volumeName") for each in claims}
    actions = [action for plan in plans for each in plan for action in each.actions if isinstance(action, BindClaim)]
    assert [each for each in actions if each.volume and volumes[each.workload.name] != each.volume] == []
    number, of = sum(map(len, found)), sum(map(len, plans))
    print(f"\nseed {SEED}: {number} of {of} pods placed, all of them allowed; {len(actions)} claims that waited")
    assert 0.3 * of < number < of, "some pods have a place, and some have none"
    assert bool(actions) == (about == "volumes")
