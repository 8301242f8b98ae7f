"""The source pull-rate over a genuine API server, with nodes that tell of their pulls as kubelets do."""

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.model.workload import Readings
from elasticd.sources.pull_rate import RATE, SECONDS, PullRate
from elasticd.testing import site
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.hollow import HollowNodes
from tests.kube.reports import NodeSpec, Pull
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.test_cluster import ALONE, opened
from tests.kube.test_hollow import pod

PULLS = {"big:1": Pull(4.0, 200_000_000), "small:1": Pull(1.0, 50_000_000), "old:1": Pull(3.0)}


async def test_rates_of_nodes_follow_what_their_kubelets_tell(kube: Kube, namespace: str) -> None:
    clock = WallClock()
    async with (
        opened(kube, namespace) as cluster,
        PullRate().open(site(cluster, clock)) as reader,
        HollowNodes(kube.client, [NodeSpec("fast"), NodeSpec("old")], pull=PULLS.get) as nodes,
    ):
        pods = [
            pod("a", "fast", "big:1"),
            pod("b", "fast", "small:1"),
            pod("c", "old", "old:1"),
            pod("d", "old", "there:1"),
        ]
        await kube.client.apply(pods, namespace)

        async def all_told() -> Readings | None:
            found = await reader.read(clock.now())
            means = {node: sample.value for node, (sample,) in found.nodes.get(SECONDS, {}).items()}
            return found if means == {"fast": 2.5, "old": 3.0} else None

        found = await wait_until(all_told, what="all pulls of both nodes are told")
        assert found is not None
        assert "old" not in found.nodes[RATE]
        (rate,) = found.nodes[RATE]["fast"]
        assert rate.value == 50_000_000
        assert abs(rate.measured - clock.now()) < 30
        await nodes.remove("fast", "old")


async def test_pulls_are_counted_once_across_an_api_server_restart(kube: Kube, namespace: str) -> None:
    clock = WallClock()
    async with (
        opened(kube, namespace) as cluster,
        PullRate().open(site(cluster, clock)) as reader,
        HollowNodes(kube.client, [NodeSpec("puller")], pull=PULLS.get) as nodes,
    ):

        async def mean() -> float:
            (one,) = (await reader.read(clock.now())).nodes.get(SECONDS, {}).get("puller", ()) or (None,)
            return one.value if one else 0.0

        async def means(seconds: float) -> bool:
            return await mean() == seconds

        await kube.client.apply(pod("a", "puller", "big:1"), namespace)
        await wait_until(lambda: means(4.0))
        await kube.plane.restart_apiserver()
        await kube.client.apply(pod("b", "puller", "small:1"), namespace)
        await wait_until(lambda: means(2.5))
        await nodes.remove("puller")


async def test_the_shipped_rights_file_grants_what_the_source_needs(kube: Kube, namespace: str) -> None:
    clock = WallClock()
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        table = Kubernetes(kubeconfig=str(rights.kubeconfig), lease=ALONE)

        async def error() -> str:
            return (await reader.read(clock.now())).error

        async with table.open(clock) as cluster:
            async with PullRate().open(site(cluster, clock)) as reader:
                assert "cannot list resource" in await wait_until(error)
            async with (
                granted_from(kube.plane, FOLDER / "components/sources/rbac.yaml", "elasticd", namespace),
                PullRate().open(site(cluster, clock)) as reader,
            ):

                async def followed() -> bool:
                    return not await error()

                await wait_until(followed, what="the rights are in force")
