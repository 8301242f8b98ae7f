"""Agreement with the genuine kube-scheduler: which node is best for this pod, and may pods be where elasticd puts them?

Scores: one kube-scheduler with a profile for each of its scores, of which that one alone counts; the node that it binds
a pod to must be one of those that elasticd's strategy scores highest. Boards: elasticd plans thirty pods that depend on
each other; kube-scheduler is then offered one after the other for the node where elasticd put it, and must take it.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from elasticd.kit.node_table import NodeTable
from elasticd.model.policy import Strategy
from elasticd.model.workload import Pod
from elasticd_plugins.filters import Filters
from elasticd_plugins.image_locality import ImageLocality
from elasticd_plugins.least_requested import LeastRequested
from elasticd_plugins.node_affinity import NodeAffinity, TaintScore
from elasticd_plugins.pod_affinity import PodAffinity
from elasticd_plugins.topology_spread import SpreadScore
from tests.kit.pools import planned
from tests.kube.client import JSON
from tests.kube.conftest import Kube
from tests.kube.control_plane import SCHEDULER
from tests.kube.islands import Crowd, allow_only, crowds, preferring
from tests.kube.pairs import Board
from tests.kube.processes import Program, free_port
from tests.kube.test_filters_parity import PAIRS, SEED, Ground, Tally, decoded, ground, seen, verdict

STRATEGIES: dict[str, Any] = {
    "PodTopologySpread": SpreadScore(),
    "InterPodAffinity": PodAffinity(),
    "NodeAffinity": NodeAffinity(),
    "TaintToleration": TaintScore(),
    "ImageLocality": ImageLocality(),
}


@asynccontextmanager
async def scoring_by_one_plugin(kube: Kube, folder: Path) -> AsyncIterator[None]:
    """A kube-scheduler of which a profile `only-NAME` scores by this plugin alone."""
    plane = kube.plane
    scheduler = plane.program("kube-scheduler")
    profiles = [
        {
            "schedulerName": f"only-{name}",
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": name, "weight": 1}]}},
        }
        for name in STRATEGIES
    ]
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
        yield
    finally:
        program.check()
        await program.stop()


def best(name: str, view: NodeTable, pod: Pod) -> tuple[set[str], int]:
    """The nodes that are best by one strategy, and how many the pod fits on."""
    refused = [np.zeros(len(view.names), np.bool_), *(each.nodes for each in Filters().filter_nodes(pod, view))]
    fits = ~np.logical_or.reduce(refused)
    strategy = STRATEGIES[name]
    said = strategy.score_nodes(pod, view) if name == "ImageLocality" else strategy.score_nodes(pod, view, fits)
    values = np.zeros(len(view.names)) if said is None else said.values
    most = values[fits].max() if fits.any() else 0.0
    return {view.names[index] for index in np.flatnonzero(fits & (values == most))}, int(np.count_nonzero(fits))


def compare(tally: Tally, name: str, view: NodeTable, found: Sequence[JSON]) -> None:
    """Whether kube-scheduler took one of the best nodes. It fits, in a tally, where not all nodes are best."""
    for wire, pod in zip(found, decoded(found), strict=True):
        nodes, number = best(name, view, pod)
        tally.pairs += 1
        tally.fits += len(nodes) < number
        if wire["spec"].get("nodeName", "") not in (nodes or {""}):
            spec = json.dumps(wire["spec"])
            tally.differs.append(f"kube-scheduler: {verdict(wire)}\nelasticd: {sorted(nodes)}\n{spec}")


@pytest.mark.timeout(900)
async def test_scores_agree_with_the_genuine_kube_scheduler(kube: Kube, namespace: str, tmp_path: Path) -> None:
    every = preferring(SEED, PAIRS, current=kube.plane.version >= (1, 22))
    tallies = {board.filter: Tally() for board in every}
    async with ground(kube, namespace, every) as made, scoring_by_one_plugin(kube, tmp_path):
        view = await seen(made)
        for number, rounds in enumerate(zip_longest(*(board.rounds for board in every), fillvalue=())):
            label = f"s{number}"
            pods = [pod for one in rounds for pod in one]
            await made.each(partial(made.create, label=label), pods)
            found = {pod["metadata"]["name"]: pod for pod in await made.answered(label, len(pods))}
            await made.clear(label)
            for board, one in zip(every, rounds, strict=True):
                compare(tallies[board.filter], board.filter, view, [found[pod["metadata"]["name"]] for pod in one])
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


def placed(
    crowd: Crowd, as_taken: Sequence[JSON], view: NodeTable, strategies: Sequence[Strategy]
) -> list[tuple[JSON, str]]:
    """The pods of a crowd in the order in which elasticd places them, each with its node."""
    by_name = {pod["metadata"]["name"]: pod for pod in crowd.pods}
    decisions = planned(strategies, view, decoded(as_taken))
    return [(by_name[each.pod.name], each.node) for each in decisions if each.verdict == "bind"]


@pytest.mark.timeout(900)
async def test_kube_scheduler_allows_every_place_of_a_plan(kube: Kube, namespace: str) -> None:
    every = crowds(SEED, number=10, pods=30, current=kube.plane.version >= (1, 22))
    boards = [Board("crowd", crowd.nodes) for crowd in every]
    async with ground(kube, namespace, boards) as made:
        view = await seen(made)
        strategies = [Filters(), LeastRequested(), SpreadScore(), PodAffinity()]
        plans = [placed(crowd, await taken(made, crowd.pods), view, strategies) for crowd in every]
        for number, step in enumerate(zip_longest(*plans)):
            pods = [allow_only(pod, node) for pod, node in filter(None, step)]
            await made.each(partial(made.create, label=f"c{number}"), pods)
            answers = await made.answered(f"c{number}", len(pods))
            wrong = [verdict(pod) for pod in answers if not pod["spec"].get("nodeName")]
            assert not wrong, wrong[0]
    number, of = sum(map(len, plans)), sum(len(crowd.pods) for crowd in every)
    print(f"\n{number} of {of} pods placed, all of them allowed")
    assert 0.3 * of < number < of, "some pods have a place, and some have none"
