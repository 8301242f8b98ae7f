"""Agreement with the genuine kube-scheduler: does this pod fit that node?

For each filter the same random pods are offered to both, each asking for one random node by name: to kube-scheduler,
which binds it there or says Unschedulable; and to elasticd's decoder and its strategy `filters`, with the nodes and
pods as they are read back from the API server. Both must give the same answer; why, each says in its own words.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from random import Random
from typing import Any

import numpy as np
import pytest

from elasticd.cluster.kubernetes.watch.storage import (
    StorageStore,
    StorageStores,
    WireCapacity,
    WireClaim,
    WireCsiDriver,
    WireCsiNode,
    WirePersistentVolume,
    WireStorageClass,
    to_attachable,
    to_capacity,
    to_claim,
    to_csi_driver,
    to_storage_class,
    to_volume,
)
from elasticd.cluster.kubernetes.watch.store import Places
from elasticd.cluster.kubernetes.wire.convert import to_node, to_pod
from elasticd.cluster.kubernetes.wire.objects import Codec, WireNode, WirePod
from elasticd.kit import counting_nodes, domains
from elasticd.kit.node_table import NodeTable, NodeTableBuilder
from elasticd.kit.volume_view import VolumeView
from elasticd.model.volumes import Storage
from elasticd.model.workload import Node, Pod
from elasticd_plugins.filters import Filters
from tests.kube.client import JSON, ApiError, Client, wait_until
from tests.kube.conftest import Kube
from tests.kube.islands import SPACES, islands
from tests.kube.mounts import PROVISIONER, TRACKED, MountBoard, mount_boards
from tests.kube.pairs import CLASSES, ELSEWHERE, HERE, REQUIRED, Board, a_node, a_pod, boards
from tests.kube.provisioner import CLAIMS, VOLUMES, provisioning

SEED = 20
PAIRS = int(os.environ.get("PAIRS", "100"))  # of a pod and a node, for each filter
AT_ONCE = 24
NODES, RUNTIME_CLASSES = "/api/v1/nodes", "/apis/node.k8s.io/v1/runtimeclasses"
STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, CAPACITIES = (
    f"/apis/storage.k8s.io/v1/{plural}"
    for plural in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")
)


@dataclass
class Tally:
    """What came of the pairs of one filter."""

    pairs: int = 0
    fits: int = 0
    differs: list[str] = field(default_factory=list)


@dataclass
class Ground:
    """Two namespaces on the API server, and what is created in them."""

    client: Client
    namespaces: dict[str, str]

    def pods(self, namespace: str) -> str:
        """Where pods of a namespace are, that one of a board or a real one."""
        return f"/api/v1/namespaces/{self.namespaces.get(namespace, namespace)}/pods"

    async def each(self, write: Callable[[JSON], Awaitable[object]], items: Sequence[JSON]) -> None:
        """Do something for all, a few at a time."""
        places = asyncio.Semaphore(AT_ONCE)

        async def one(item: JSON) -> None:
            async with places:
                await write(item)

        await asyncio.gather(*map(one, items))

    async def create(self, pod: JSON, label: str, *, dry_run: bool = False) -> JSON:
        """Create a pod of a board, or ask what would come of that; namespaces in it become the real ones."""
        text = json.dumps(pod)
        for name, real in self.namespaces.items():
            text = text.replace(f'"{name}"', f'"{real}"')
        body = json.loads(text)
        body["metadata"]["labels"]["fits/round"] = label
        body["spec"] |= {"terminationGracePeriodSeconds": 3600, "automountServiceAccountToken": False}
        path = self.pods(body["metadata"]["namespace"])
        return await self.client.create(f"{path}?dryRun=All" if dry_run else path, body)

    async def add_node(self, node: JSON) -> JSON:
        """Create a node. Admission gives it the taint of one that is not ready, so its own come after."""
        await self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", **node})
        path = f"{NODES}/{node['metadata']['name']}"
        return await self.client.patch(path, {"spec": {"taints": node["spec"]["taints"] or None}})

    async def furnish(self, board: MountBoard) -> None:
        """Create what the pods of a board mount, and wait until the server's controllers have looked at it."""
        client, claims = self.client, self.claims
        await self.each(partial(client.create, STORAGE_CLASSES), board.classes)
        await self.each(partial(client.create, CSI_NODES), board.csi_nodes)
        if board.capacities:
            await client.create(CSI_DRIVERS, {"metadata": {"name": TRACKED}, "spec": {"storageCapacity": True}})
        await self.each(partial(client.create, self.capacities), board.capacities)
        await self.each(partial(client.create, claims), board.claims)
        uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in await client.list(claims)}

        async def add(volume: JSON) -> None:
            noted = volume["metadata"]["annotations"]
            if name := noted.get("fits/claim") or noted.get("fits/kept"):
                uid = {"uid": uids[name]} if "fits/claim" in noted else {}
                volume["spec"]["claimRef"] = {"namespace": self.namespaces[HERE], "name": name, **uid}
            await client.create(VOLUMES, volume)

        await self.each(add, board.volumes)
        await wait_until(self.looked_at, within=120, what="controllers have looked at all volumes", every=0.5)
        for claim in board.claims:
            if "fits/deleted" in claim["metadata"]["annotations"]:
                await client.delete(f"{claims}/{claim['metadata']['name']}")

    async def looked_at(self) -> bool:
        """Whether the server's controllers have said of each bound claim and volume that it is so."""
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in await self.client.list(VOLUMES)}
        for claim in await self.client.list(self.claims):
            if "pv.kubernetes.io/bind-completed" in claim["metadata"].get("annotations", {}):
                there = claim["spec"]["volumeName"] in phases
                if claim["status"]["phase"] != ("Bound" if there else "Lost"):
                    return False
        return "Pending" not in phases.values()

    @property
    def capacities(self) -> str:
        """Where it is said what storage is left."""
        return f"/apis/storage.k8s.io/v1/namespaces/{self.namespaces[HERE]}/csistoragecapacities"

    @property
    def claims(self) -> str:
        """Where the claims of boards are."""
        return f"/api/v1/namespaces/{self.namespaces[HERE]}/persistentvolumeclaims"

    async def clear_mounts(self) -> None:
        """Delete claims, volumes, classes and CSINodes, whatever holds them."""
        for path in (self.claims, VOLUMES, STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS):
            there = [one["metadata"] for one in await self.client.list(path)]
            held = [f"{path}/{meta['name']}" for meta in there if meta.get("finalizers")]
            await self.each(self.release, held)
            await self.client.request("DELETE", path)
            await self.each(self.release, held)

    async def release(self, path: str) -> None:
        """Take the finalizers of an object away, if it is still there."""
        try:
            await self.client.patch(path, {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.status != 404:
                raise

    async def occupy(self, pod: JSON) -> None:
        """Create a pod that is on its node already, and perhaps on its way out."""
        made = await self.create(pod, "none")
        path = f"{self.pods(made['metadata']['namespace'])}/{made['metadata']['name']}"
        state = pod["metadata"].get("annotations", {}).get("fits/state", "")
        if state == "deleted":
            await self.client.delete(path, grace=3600)
        elif state:
            await self.client.patch(f"{path}/status", {"status": {"phase": state}})

    async def settle(self) -> None:
        """Wait until kube-scheduler knows all nodes: it gets them in the order of their changes, so until it has put a
        pod on one that came after all others."""
        last = a_node(Random(0), {"fits/last": "yes"})
        last["metadata"]["name"] = "fits-last"
        await self.add_node(last)
        pod = a_pod(nodeSelector={"fits/last": "yes"})
        pod["metadata"]["name"] = "fits-last"
        await self.create(pod, "last")

        async def bound() -> bool:
            return all(each["spec"].get("nodeName") for each in await self.listed("last"))

        await wait_until(bound, within=90, what="kube-scheduler knows all nodes", every=0.3)
        await self.clear("last")
        await self.remove(f"{NODES}/fits-last")

    async def remove(self, path: str) -> None:
        """Delete an object that may not have come to be."""
        try:
            await self.client.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise

    async def listed(self, label: str) -> list[JSON]:
        """The pods of a round."""
        pages = [
            await self.client.list(self.pods(name), labelSelector=f"fits/round={label}") for name in self.namespaces
        ]
        return [pod for page in pages for pod in page]

    async def answered(self, label: str, number: int) -> list[JSON]:
        """The pods of a round, when kube-scheduler has said something about each."""

        async def all_of_them() -> list[JSON]:
            found = await self.listed(label)
            return found if len(found) == number and all(map(verdict, found)) else []

        return await wait_until(all_of_them, within=90, what=f"kube-scheduler has looked at round {label}", every=0.3)

    async def clear(self, label: str = "") -> None:
        """Delete the pods of a round, or all, at once."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        chosen = {"labelSelector": f"fits/round={label}"} if label else {}
        for name in self.namespaces:
            await self.client.request("DELETE", self.pods(name), body=options, params=chosen)


def verdict(pod: JSON) -> str:
    """The node it was bound to, else what kube-scheduler said; empty: nothing yet."""
    if node := pod["spec"].get("nodeName"):
        return str(node)
    told = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
    return "".join(f"{one['reason']}: {one['message']}" for one in told)


@asynccontextmanager
async def ground(kube: Kube, namespace: str, every: Sequence[Board]) -> AsyncIterator[Ground]:
    """The boards' nodes with what is on them; all are gone at the end."""
    client = kube.client
    other = (await client.create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}}))["metadata"]["name"]
    made = Ground(client, {HERE: namespace, ELSEWHERE: other})
    for name, labels in SPACES.items():
        await client.patch(f"/api/v1/namespaces/{made.namespaces[name]}", {"metadata": {"labels": labels}})
    nodes = [node for board in every for node in board.nodes]
    try:
        for name, amounts in CLASSES.items():
            body = {"metadata": {"name": f"fits-{name}"}, "handler": "none", "overhead": {"podFixed": amounts}}
            await client.create(RUNTIME_CLASSES, body)
        await made.each(made.add_node, nodes)
        for board in every:
            if isinstance(board, MountBoard):
                await made.furnish(board)
        await made.each(made.occupy, [pod for board in every for pod in board.bound])
        await made.settle()
        yield made
    finally:
        await made.clear()
        if any(isinstance(board, MountBoard) for board in every):
            await made.clear_mounts()
        await made.remove(f"{NODES}/fits-last")
        for name in CLASSES:
            await made.remove(f"{RUNTIME_CLASSES}/fits-{name}")
        await made.each(lambda node: made.remove(f"{NODES}/{node['metadata']['name']}"), nodes)
        await made.remove(f"/api/v1/namespaces/{other}")


async def takes_impossible_values(client: Client, namespace: str) -> bool:
    """Whether the server takes node affinity with a value that no label can have, as it did until 1.33."""
    rule = {"key": "disk", "operator": "NotIn", "values": ["no label"]}
    terms = [{"matchExpressions": [rule]}]
    pod = a_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    pod["metadata"] |= {"name": "asks", "namespace": namespace}
    try:
        await client.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except ApiError as error:
        if error.status != 422:
            raise
        return False
    return True


async def left(client: Client) -> list[str]:
    """Nodes and pods of boards that are still there."""
    there = [*await client.list(NODES), *await client.list("/api/v1/pods")]
    return [one["metadata"]["name"] for one in there if one["metadata"]["name"].startswith("fits-")]


def decoded(pods: Sequence[JSON]) -> list[Pod]:
    return [Codec(WirePod, to_pod).one(json.dumps(pod).encode())[1] for pod in pods]


async def seen(made: Ground) -> NodeTable:
    """All nodes of the cluster, with the pods that are bound to them and have not ended."""
    codec = Codec(WireNode, to_node)
    nodes: list[Node] = [codec.one(json.dumps(one).encode())[1] for one in await made.client.list(NODES)]
    there = await made.client.list("/api/v1/pods", fieldSelector="spec.nodeName!=")
    spaces = await made.client.list("/api/v1/namespaces")
    view = NodeTableBuilder().columns(
        tuple(sorted(nodes, key=lambda one: one.name)),
        Places(decoded(there)).on_nodes(),
        namespaces={one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in spaces},
    )
    view.volumes = VolumeView(await stored(made.client))
    return view


async def stored(client: Client) -> Storage:
    """All claims, volumes, storage classes and CSINodes."""
    stores = StorageStores()
    parts: list[tuple[str, Codec[Any, Any], StorageStore[Any]]] = [
        (CLAIMS, Codec(WireClaim, to_claim), stores.claims),
        (VOLUMES, Codec(WirePersistentVolume, to_volume), stores.volumes),
        (STORAGE_CLASSES, Codec(WireStorageClass, to_storage_class), stores.classes),
        (CSI_NODES, Codec(WireCsiNode, to_attachable), stores.nodes),
        (CSI_DRIVERS, Codec(WireCsiDriver, to_csi_driver), stores.drivers),
    ]
    kinds = await client.get("/apis/storage.k8s.io/v1")
    if CAPACITIES.rpartition("/")[2] in [each["name"] for each in kinds["resources"]]:
        parts.append((CAPACITIES, Codec(WireCapacity, to_capacity), stores.capacities))
    for path, codec, store in parts:
        for one in await client.list(path):
            store.put(codec.one(json.dumps(one).encode())[1], listed=True)
    return stores.storage()


def fits(view: NodeTable, pod: Pod) -> str:
    """The nodes that `filters` leaves: of these pods one at most, as each names one; empty: none."""
    refusals = Filters().filter_nodes(pod, view)
    refused = np.logical_or.reduce([one.nodes for one in refusals])
    return " ".join(view.names[index] for index in np.flatnonzero(~refused))


def pools_of(made: Ground, view: NodeTable, random: Random) -> list[NodeTable]:
    """Two pools, each with about half of the nodes, and the other half outside."""
    chosen = {name for name in view.names if random.random() < 0.5}
    pods = {name: view.pods(index) for index, name in enumerate(view.names)}
    spaces = {name: labels for name in made.namespaces.values() if (labels := view.namespace(name)) is not None}
    halves = [tuple(node for node in view.nodes if (node.name in chosen) is inside) for inside in (True, False)]
    pools = [NodeTableBuilder().columns(half, pods, namespaces=spaces) for half in halves]
    for pool, others in zip(pools, reversed(halves), strict=True):
        pool.outside = NodeTableBuilder().columns(others, pods, namespaces=spaces)
    return pools


def counts_alike(pod: Pod, pool: NodeTable) -> bool:
    """Whether no spread constraint of a pod leaves out values that only nodes outside the pool have, as they would only
    be left out by kube-scheduler if the pool's selector were a node affinity."""
    pairs = zip(pod.needs.spread, counting_nodes(pod.needs, pool), strict=True)
    return all(
        np.array_equal(counted.values, domains(spread.topology, pool).present(counted.here, counted.outside))
        for spread, counted in pairs
    )


def judge_in_pools(tally: Tally, pools: Sequence[NodeTable], found: Sequence[JSON]) -> None:
    """Compare the answers where only half of the nodes are a pool's, among them the one that a pod asks for."""
    for wire, pod in zip(found, decoded(found), strict=True):
        asked = wire["metadata"]["annotations"]["fits/node"]
        (pool,) = [each for each in pools if each.index(asked) is not None]
        if counts_alike(pod, pool):
            judge(tally, pool, [wire])


def judge(tally: Tally, view: NodeTable, found: Sequence[JSON]) -> None:
    """Compare the answers about the pods of one round and one filter."""
    for wire, pod in zip(found, decoded(found), strict=True):
        theirs, mine = wire["spec"].get("nodeName", ""), fits(view, pod)
        tally.pairs += 1
        tally.fits += bool(theirs)
        if theirs != mine or pod.needs.unsupported:
            spec = {key: value for key, value in wire["spec"].items() if value}
            tally.differs.append(f"kube-scheduler: {verdict(wire)}\nelasticd:       {mine}\n{json.dumps(spec)}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("about", ["nodes", "neighbours", "volumes"])
async def test_filters_agree_with_the_genuine_kube_scheduler(kube: Kube, namespace: str, about: str) -> None:
    current, every = kube.plane.version >= (1, 22), list[Board]()
    if about == "nodes":
        every += boards(SEED, PAIRS, impossible=await takes_impossible_values(kube.client, namespace))
    elif about == "neighbours":
        every += islands(SEED, PAIRS, current=current)
    else:
        every += mount_boards(SEED, PAIRS, current=current)
    tallies, in_pools = ({board.filter: Tally() for board in every} for _ in range(2))
    async with ground(kube, namespace, every) as made, provisioning(kube.client, PROVISIONER):
        view = await seen(made)
        pools = pools_of(made, view, Random(SEED)) if about == "neighbours" else []
        for number, rounds in enumerate(zip_longest(*(board.rounds for board in every), fillvalue=())):
            label = str(number)
            pods = [pod for one in rounds for pod in one]
            await made.each(partial(made.create, label=label), pods)
            found = {pod["metadata"]["name"]: pod for pod in await made.answered(label, len(pods))}
            await made.clear(label)
            for board, one in zip(every, rounds, strict=True):
                answers = [found[pod["metadata"]["name"]] for pod in one]
                judge(tallies[board.filter], view, answers)
                if pools:
                    judge_in_pools(in_pools[board.filter], pools, answers)
    tallies |= {f"{name}, pools": tally for name, tally in in_pools.items() if pools}
    print(f"\n{'filter':24}{'pairs':>7}{'fits':>7}{'differs':>9}")
    for name, tally in tallies.items():
        print(f"{name:24}{tally.pairs:7}{tally.fits:7}{len(tally.differs):9}")
        print(*tally.differs[:3], sep="\n")
    assert await left(kube.client) == []
    assert {name: tally.differs[:1] for name, tally in tallies.items() if tally.differs} == {}
    assert all(tally.pairs >= (PAIRS / 4 if name.endswith("pools") else PAIRS) for name, tally in tallies.items())
    assert all(0.1 * tally.pairs < tally.fits < 0.9 * tally.pairs for tally in tallies.values()), (
        "both answers are tried"
    )
