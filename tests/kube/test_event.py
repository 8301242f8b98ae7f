"""Events on a genuine cluster and a genuine Mosquitto: to zero and back, and a person's zero left alone."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from elasticd.decision.workload.zero import ZERO
from tests.kube.broker import OPEN, Broker
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.rights import FOLDER, granted_from, shipped_rights
from tests.kube.running import Running, running
from tests.kube.test_daemon import scaled, workload
from tests.kube.test_plane import running_pods

USER = "elasticd"

SOURCE = """
[[source]]
type = "mqtt"
host = "127.0.0.1"
port = {port}

[[source.topic]]
topic = "queues/{{namespace}}/{{workload}}"
series = "queue"
subject = "workload"
payload = "length"
time = "at"
"""

POLICY = """
mode = "act"
interval = 1
jitter = 0
max_age = 600

workload = {{ namespace = "{namespace}", name = "web" }}
replicas = {{ min = 0, max = 8 }}

[[strategy]]
type = "event"
triggers = [{{ series = "queue", average_value = 10, activation = 2 }}]
cooldown = 1
downscale_stabilization = 0
period_at_zero = 0.5

[[limit]]
type = "rate"
up = [{{ type = "Pods", value = 4, period = 1 }}]
down = [{{ type = "Pods", value = 2, period = 1 }}]
"""


@pytest_asyncio.fixture(loop_scope="session")
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(tmp_path, OPEN) as open_to_all:
        yield open_to_all


@asynccontextmanager
async def governed(kube: Kube, namespace: str, folder: Path, port: int) -> AsyncIterator[Running]:
    """A daemon under the shipped rights, which follows the queue of the workload `web`."""
    policies = {"web": POLICY.format(namespace=namespace)}
    async with shipped_rights(kube.plane, USER, namespace) as rights:
        source = SOURCE.format(port=port)
        async with running(folder, rights.kubeconfig, namespace, policies, source) as daemon:
            await wait_until(daemon.leads, what="the daemon leads")
            yield daemon


async def waits(broker: Broker, namespace: str, length: int) -> None:
    """So many messages wait; the broker keeps it for those who come later."""
    await broker.publish(f"queues/{namespace}/web", {"length": length, "at": time.time()}, retain=True)


async def mark(kube: Kube, namespace: str) -> str | None:
    """Whose decision the workload's zero is."""
    found = await kube.client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    said: str | None = found["metadata"].get("annotations", {}).get(ZERO)
    return said


async def marked(kube: Kube, namespace: str, whose: str | None) -> None:
    async def there() -> bool:
        return await mark(kube, namespace) == whose

    await wait_until(there, what=f"the mark is {whose}")


async def no_pods(kube: Kube, namespace: str) -> bool:
    return not await kube.client.list(f"/api/v1/namespaces/{namespace}/pods")


async def by_hand(kube: Kube, namespace: str, replicas: int) -> None:
    """What `kubectl scale` does."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale"
    await kube.client.patch(path, {"spec": {"replicas": replicas}})


def decided(daemon: Running, namespace: str, reason: str) -> Any:
    """The latest decision, if it has this reason."""
    found = daemon.explained(f"{namespace}/Deployment/web")["decision"]
    return found if found.get("reason") == reason else None


async def test_scaling_to_zero_and_back_survives_restart_and_manual_pause(
    kube: Kube, namespace: str, tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    await kube.client.apply(workload(replicas=1), namespace)
    rights = FOLDER / "components/scale-to-zero/rbac.yaml"
    async with granted_from(kube.plane, rights, USER, namespace):
        await waits(broker, namespace, 55)
        async with governed(kube, namespace, tmp_path / "one", broker.port) as daemon:
            await scaled(kube, namespace, 6)
            await running_pods(kube, namespace, 6)
            assert await mark(kube, namespace) is None
            await waits(broker, namespace, 2)
            await scaled(kube, namespace, 0)
            assert await mark(kube, namespace) == "web"
            await wait_until(lambda: no_pods(kube, namespace), what="the last pod is gone")
            await wait_until(lambda: decided(daemon, namespace, "TriggersIdle"), what="it stays asleep")
            said = daemon.elasticd("explain", f"{namespace}/Deployment/web")
        await waits(broker, namespace, 33)
        async with governed(kube, namespace, tmp_path / "two", broker.port) as daemon:  # its journal knows nothing
            await scaled(kube, namespace, 4)
            await marked(kube, namespace, None)
            await by_hand(kube, namespace, 0)
            await wait_until(lambda: decided(daemon, namespace, "ScaledToZeroByHand"), what="a person's zero is seen")
            await waits(broker, namespace, 70)

            async def waiting() -> bool:
                found = decided(daemon, namespace, "ScaledToZeroByHand")
                return bool(
                    found and any(one.get("samples") and one["samples"][0]["value"] == 70 for one in found["series"])
                )

            await wait_until(waiting, what="it knows that messages wait")
            assert await mark(kube, namespace) is None
            scale = await kube.client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale")
            assert scale["spec"].get("replicas", 0) == 0
            await by_hand(kube, namespace, 1)
            await scaled(kube, namespace, 7)
    with capsys.disabled():
        print(f"\n$ elasticd explain {namespace}/Deployment/web\n{said}")
    for item in ("queue", "2", "10 (avg)", "NotActive: not above 2", "TriggersIdle"):
        assert item in said


async def test_without_the_annotate_right_zero_is_refused_in_one_line(
    kube: Kube, namespace: str, tmp_path: Path, broker: Broker
) -> None:
    await kube.client.apply(workload(replicas=2), namespace)
    await waits(broker, namespace, 0)
    async with governed(kube, namespace, tmp_path / "one", broker.port) as daemon:

        def refused() -> str:
            outcome = daemon.explained(f"{namespace}/Deployment/web")["outcome"]
            return outcome["message"] if outcome and outcome.get("code") == 403 else ""

        line = await wait_until(refused, what="zero is refused")
        assert f"{namespace}/Deployment/web could not be marked (goes to 0 by decision): " in line
        assert "\n" not in line
        await waits(broker, namespace, 45)
        await scaled(kube, namespace, 5)
