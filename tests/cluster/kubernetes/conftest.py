"""Fixtures: the scripted API server and a session with it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elasticd.cluster.kubernetes.session import Session
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, connect
from tests.cluster.kubernetes.restoring import Server


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A scripted API server."""
    async with FakeApi() as server:
        yield server


@pytest.fixture
async def session(api: FakeApi, tmp_path: Path) -> AsyncIterator[Session]:
    """A session with it."""
    async with connect(api, tmp_path) as opened:
        yield opened


@pytest.fixture
def clock() -> HurriedClock:
    """Fast time."""
    return HurriedClock()


@pytest.fixture
def server(api: FakeApi) -> Server:
    """A scripted server that keeps one pod and the record of its restoring."""
    return Server(api)
