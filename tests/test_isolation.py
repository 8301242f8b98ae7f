"""A policy's decisions beside a plugin that misbehaves in its own policy, strategy or source: a real daemon (I8)."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import oracle
from tests.faults.oracle import Window
from tests.kit import disturbing
from tests.kit.daemons import Daemon, daemon, policy, write
from tests.kit.lateness import Lateness, watched

pytestmark = pytest.mark.slow

NEIGHBOUR = """
interval = 0.2
jitter = 0
workload = {{ namespace = "shop", name = "web" }}
replicas = {{ min = 1, max = 8 }}
strategy = [{{ type = "disturbing", folder = "{folder}" }}]
"""
SOURCES = """
[[source]]
type = "resource-metrics"
[[source]]
type = "disturber"
folder = "{folder}"
"""
PAIRS, LASTS = 4, 1.2
"""How often it misbehaves, and for how many seconds; as long between."""


def installed(folder: Path) -> Path:
    """Where a process finds the plugin."""
    info = folder / "site" / "disturbing-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: disturbing\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[elasticd]\ndisturbing = tests.kit.disturbing\n")
    return info.parent


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A daemon with a policy that has its count, and such a neighbour."""
    settings = write(tmp_path, web=policy(), neighbour=NEIGHBOUR.format(folder=tmp_path))
    settings.write_text(settings.read_text() + SOURCES.format(folder=tmp_path))
    paths = (installed(tmp_path), Path.cwd(), os.environ.get("PYTHONPATH"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(path) for path in paths if path))
    with daemon(tmp_path) as started:
        started.replicas(4)
        yield started


def windows(path: Path, way: str) -> Iterator[Window]:
    """Misbehave so, again and again."""
    for number in range(2 * PAIRS):
        begin, disturbed = time.time(), number % 2 == 1
        if disturbed:
            path.write_text(way)
        time.sleep(LASTS)  # a window of that length: there is nothing to wait for
        path.unlink(missing_ok=True)
        yield Window(begin, time.time(), disturbed)


@pytest.mark.parametrize("who", ["strategy", "source"])
@pytest.mark.parametrize("way", disturbing.WAYS)
def test_a_plugin_that_misbehaves_delays_no_other_policy(running: Daemon, who: str, way: str) -> None:
    folder = running.folder
    with watched(Lateness(folder / "state", running.process.pid, "web", 0.2)) as lateness:
        spans = list(windows(folder / who, way))
    assert oracle.delayed(lateness.decisions, spans) == []
