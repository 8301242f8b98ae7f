"""What is told of views that are too old to act on."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from elasticd.ports.cluster import View
from elasticd.runtime.views import StaleViews, stale
from tests.kit.daemons import Daemon, policy, write

NODE, POD = ("v1", "Node"), ("v1", "Pod")
AT = 1_700_000_000.0
LINE = "Node: not current since 2023-11-14 22:13:20 UTC: 500 InternalError: down"


@pytest.mark.parametrize(
    ("age", "problem", "told"),
    [
        pytest.param(120.0, "500 InternalError: down", {}, id="not too old"),
        pytest.param(121.0, "500 InternalError: down", {NODE: LINE}, id="too old"),
        pytest.param(121.0, "", {NODE: LINE.removesuffix(": 500 InternalError: down")}, id="nobody knows why"),
        pytest.param(121.0, "500\nInternalError:  down", {NODE: LINE}, id="in one line"),
    ],
)
def test_a_line_tells_since_when_a_view_is_old(age: float, problem: str, told: dict[tuple[str, str], str]) -> None:
    assert stale([View(NODE, AT, problem), View(POD, AT + age)], AT + age) == told


def test_views_that_become_old_and_current_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    views = StaleViews()
    failing = View(NODE, AT, "500 InternalError: down")
    for seconds in (0.0, 100.0, 200.0, 300.0):
        views.note([failing, View(POD, AT + seconds)], AT + seconds)
    views.note([View(NODE, AT + 400.0), View(POD, AT + 400.0)], AT + 401.0)
    views.note([View(NODE, AT + 400.0), View(POD, AT + 400.0)], AT + 402.0)
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("WARNING", LINE),
        ("INFO", "Node: current again"),
    ]


def test_nothing_more_is_logged_of_what_is_unwatched(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    views = StaleViews()
    views.note([View(NODE, AT, "500 InternalError: down")], AT + 200.0)
    views.note([], AT + 205.0)
    assert caplog.messages == [LINE]


UNTIL_MENDED = """
import asyncio, sys, time
from pathlib import Path
from elasticd import daemon
from elasticd.cluster.simulated import cluster
from elasticd.ports.cluster import View
from elasticd.telemetry import log

old = View(("v1", "Node"), time.time() - 900, "500 InternalError: down")
cluster.SimulatedCluster.views = lambda _: [View(("v1", "Node"), time.time()) if Path("mended").exists() else old]
daemon.VIEWS_LOOK = 0.2
log.set_up(sys.stderr)
asyncio.run(daemon.run(Path("elasticd.toml")))
"""


@pytest.mark.slow
def test_a_daemon_logs_an_old_view_until_it_is_current(tmp_path: Path) -> None:
    write(tmp_path, web=policy())
    (tmp_path / "until_mended.py").write_text(UNTIL_MENDED)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "until_mended.py"], cwd=tmp_path, stderr=log)
    try:
        running = Daemon(tmp_path, process)
        (line,) = running.logged(r"WARNING (Node: not current since .* UTC: 500 InternalError: down)")
        assert line in running.get("/status")
        (tmp_path / "mended").touch()
        running.logged(r"INFO Node: current (again)")
        assert line not in running.get("/status")
        assert running.stop() == 0
        assert running.log.count("Node: not current") == running.log.count("Node: current again") == 1
    finally:
        process.kill()
        process.wait()
