"""Fixtures of the tests that need a genuine control plane: one for all of them, and a namespace for each."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio

from tests.kube import fetch, pki
from tests.kube.client import Client
from tests.kube.control_plane import ControlPlane, HpaTiming, NoControlPlane
from tests.kube.hollow import HollowNodes
from tests.kube.load import Loads
from tests.kube.metrics_api import MetricsApi
from tests.kube.reports import named_nodes

HERE = Path(__file__).parent
# Where files are shared out among workers, the last should not be one that takes minutes. xdist gives the worker of the
# first, which is a single test, another file at once: a short one.
FIRST = (
    "test_parity.py",
    "test_takeover.py",
    "test_moves.py",
    "test_moves_surge.py",
    "test_hollow.py",
    "test_rebalance.py",
    "test_daemon.py",
)
FIRST_PATHS = {HERE / name for name in FIRST}
# So that a test of the genuine HPA controller takes seconds.
QUICK = HpaTiming(sync_period=1, downscale_stabilization=5, cpu_initialization_period=1, initial_readiness_delay=1)


@dataclass(frozen=True)
class Kube:
    """A whole cluster: what the tests share."""

    plane: ControlPlane
    client: Client
    nodes: HollowNodes
    metrics: MetricsApi

    @property
    def loads(self) -> Loads:
        """The load on its workloads."""
        return self.metrics.loads


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests of this folder, and run them on the loop on which the shared cluster lives. Leave out those that
    are about another version of Kubernetes than the one that is asked for."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            if pytest_asyncio.is_async_test(item):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    yield
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path in FIRST_PATHS else len(FIRST))
    if elsewhere := [item for item in items if about_another_version(item)]:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


def about_another_version(item: pytest.Item) -> bool:
    """Whether a test is marked since("1.33", "why") or until("1.20", "why"), and the control plane is not so."""
    markers = [mark for name in ("since", "until") for mark in item.iter_markers(name)]
    if not markers or (version := control_plane_version()) is None:
        return False
    named = [(mark.name, tuple(map(int, mark.args[0].split(".")))) for mark in markers]
    return any(version < mark if name == "since" else version > mark for name, mark in named)


@cache
def control_plane_version() -> tuple[int, ...] | None:
    """Major and minor version of the control plane that the tests run; None where there is none."""
    found = fetch.locate()
    return fetch.version_of(found.apiserver)[:2] if found else None


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def kube(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kube]:
    """A control plane with three hollow nodes of 4 cores and the metrics APIs, and a quick HPA controller."""
    plane = ControlPlane(tmp_path_factory.mktemp("kube"), hpa=QUICK)
    try:
        async with plane, plane.client() as client, HollowNodes(client, named_nodes(3)) as nodes:
            certificate = pki.make_server_certificate(plane.folder, "metrics", plane.authority)
            async with MetricsApi(client, certificate) as metrics:
                yield Kube(plane, client, nodes, metrics)
    except NoControlPlane as missing:
        pytest.skip(str(missing))


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(kube: Kube) -> AsyncIterator[str]:
    """A fresh namespace, deleted after the test; the test fails if a program of the cluster died in it."""
    made = await kube.client.create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
    name: str = made["metadata"]["name"]
    yield name
    kube.plane.check()
    await kube.client.delete(f"/api/v1/namespaces/{name}")
