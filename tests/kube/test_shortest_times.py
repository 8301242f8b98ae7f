"""The shortest times that the settings allow, on a genuine API server."""

from pathlib import Path

from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import shipped_rights
from tests.kube.running import running
from tests.kube.test_daemon import policy, scaled, workload

SOURCE = """
[[source]]
type = "resource-metrics"
every = 0
resolution = 0.1
"""
CLUSTER = "request_timeout = 1\nwatch_silence = 2"
"""Of which a watch lasts for a second."""


async def test_with_the_shortest_times_a_load_is_followed(kube: Kube, namespace: str, tmp_path: Path) -> None:
    kube.loads.set_load(namespace, "web", cpu=0.1)
    await kube.client.apply(workload(), namespace)
    shortest = {name: text.replace("interval = 1\n", "interval = 0.1\n") for name, text in policy(namespace).items()}
    async with (
        shipped_rights(kube.plane, "elasticd", namespace) as rights,
        running(tmp_path / "one", rights.kubeconfig, namespace, shortest, SOURCE, cluster=CLUSTER) as daemon,
    ):
        await wait_until(daemon.leads, what="it leads")
        for cpu, replicas in ((0.3, 6), (0.05, 1), (0.2, 4)):
            kube.loads.set_load(namespace, "web", cpu=cpu)
            await scaled(kube, namespace, replicas)
            assert (await daemon.page("/healthz"))[0] == (await daemon.page("/readyz"))[0] == 200
