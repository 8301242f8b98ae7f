"""The walk of docs/from-an-hpa.md, followed by the letter, on a cluster whose genuine HPA controller scales `web`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kit.tutorial import at_free_ports, follow, steps
from tests.kube.client import wait_until
from tests.kube.conftest import Kube
from tests.kube.processes import Program
from tests.kube.test_parity import autoscaler, twin

ELASTICD = Path(sys.executable).with_name("elasticd")
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"


async def scaled_by_an_hpa(kube: Kube) -> None:
    """`web` in `shop`, with as many replicas as its HPA wants."""
    kube.loads.set_load("shop", "web", cpu=0.19)
    await kube.client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    await kube.client.apply([twin("web"), autoscaler("web", None)], "shop")

    async def reached() -> bool:
        found = await kube.client.get(WEB)
        return (found["spec"]["replicas"], found["status"].get("readyReplicas")) == (4, 4)

    await wait_until(reached, within=60, what="the HPA has scaled to 4")


@asynccontextmanager
async def daemon(kubeconfig: str, folder: Path) -> AsyncIterator[None]:
    """`elasticd run` in another terminal."""
    at_free_ports(folder / "elasticd.toml")
    command: list[str | Path] = [
        "env",
        "-C",
        folder,
        f"KUBECONFIG={kubeconfig}",
        ELASTICD,
        "run",
        "--config",
        "elasticd.toml",
    ]
    program = Program("elasticd", command, folder / "elasticd.log")
    program.start()
    try:
        yield
        program.check()
    finally:
        await program.stop()


@pytest.mark.timeout(300)
async def test_the_walk_from_an_hpa_and_back_can_be_followed(kube: Kube, tmp_path: Path) -> None:
    await scaled_by_an_hpa(kube)
    told, kubeconfig = list(steps("from-an-hpa.md")), str(kube.plane.kubeconfig())
    alone = next(number for number, step in enumerate(told) if step.command.startswith("elasticd explain"))
    try:
        await asyncio.to_thread(follow, told[:alone], ELASTICD, tmp_path, KUBECONFIG=kubeconfig)
        async with daemon(kubeconfig, tmp_path):
            await asyncio.to_thread(follow, told[alone:], ELASTICD, tmp_path, KUBECONFIG=kubeconfig)
        assert (await kube.client.get(WEB))["spec"]["replicas"] == 4
    finally:
        await kube.client.delete("/api/v1/namespaces/shop")
