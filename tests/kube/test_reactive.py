"""The reactive strategies on a genuine cluster: a Deployment follows its load up and down."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import scaled, workload

POLICY = """
mode = "act"
interval = 1
jitter = 0

workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 1, max = 8 }}
strategy = [{{ {strategy} }}]
"""


@asynccontextmanager
async def governed(kube: Kube, namespace: str, folder: Path, strategy: str) -> AsyncIterator[Running]:
    """A daemon with this strategy alone, for a workload of two pods that each use half of their 100m."""
    kube.loads.set_load(namespace, "web", cpu=0.1)
    await kube.client.apply(workload(), namespace)
    async with shipped_rights(kube.plane, "elasticd", namespace) as rights:
        policies = {"web": POLICY.format(namespace=namespace, strategy=strategy)}
        async with running(folder, rights.kubeconfig, namespace, policies) as daemon:
            await wait_until(daemon.leads, what="the daemon leads")
            yield daemon


async def decided(daemon: Running, namespace: str, reason: str) -> None:
    """Wait until the last recommendation has this reason."""

    def there() -> bool:
        said = daemon.explained(f"{namespace}/Deployment/web")["decision"].get("recommendations", ())
        return [one["reason"] for one in said] == [reason]

    await wait_until(there, what=f"the recommendation is {reason}")


async def test_step_tolerance_grows_one_step_more_and_shrinks_by_steps(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    strategy = 'type = "step-tolerance", after_up = 2, after_down = 1'
    async with governed(kube, namespace, tmp_path / "one", strategy) as daemon:
        await decided(daemon, namespace, "AtLeast")
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 7)  # 300 / 60 + 2
        await scaled(kube, namespace, 5)  # 60 % each
        await decided(daemon, namespace, "WithinTolerance")
        kube.loads.set_load(namespace, "web", cpu=0.05)
        await scaled(kube, namespace, 3)
        await scaled(kube, namespace, 2)
        await decided(daemon, namespace, "AtLeast")


async def test_double_threshold_follows_what_lasts_at_its_own_pace(kube: Kube, namespace: str, tmp_path: Path) -> None:
    strategy = 'type = "double-threshold", slow = 3, medium = 2'
    async with governed(kube, namespace, tmp_path / "one", strategy) as daemon:
        await decided(daemon, namespace, "BetweenMarks")
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 4)  # 300 / 80
        await decided(daemon, namespace, "BetweenMarks")
        kube.loads.set_load(namespace, "web", cpu=0.05)
        await scaled(kube, namespace, 1)  # 50 / 40
        await decided(daemon, namespace, "BetweenMarks")
        decision = daemon.explained(f"{namespace}/Deployment/web")["decision"]
        assert (decision["interval"], decision["interval_by"]) == (2, "double-threshold")


async def test_burst_grows_at_once_and_shrinks_after_a_stable_window(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    windows = "stable_window = 8, panic_window = 2, period = 1"
    strategy = f'type = "burst", series = "cpu", target = 0.1, utilization = 0.5, {windows}'
    async with governed(kube, namespace, tmp_path / "one", strategy) as daemon:
        await decided(daemon, namespace, "StableWindow")
        kube.loads.set_load(namespace, "web", cpu=0.3)
        await scaled(kube, namespace, 6)
        kube.loads.set_load(namespace, "web", cpu=0.05)
        await scaled(kube, namespace, 1)
        await decided(daemon, namespace, "StableWindow")
