"""Sources of a plugin that do what no source may, beside a cluster that is to be scaled: a real daemon, one for all."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import rogues
from tests.daemons import Daemon, daemon, policy, until, write
from tests.rogues import WEB

HERE = r"rogues.py:\d+ <lambda>"
MANY = re.escape("too many samples: a read must have at most 10000 (max_samples in elasticd.toml), has more")
A_NAME = "must be a name of 1 to 1000 characters that can be printed"
TOLD = {
    "open-raises": "cannot be opened: ValueError: no way",
    "open-raises-at-length": r"cannot be opened: ValueError: x{400,500}\.\.\.",
    "open-exits": "cannot be opened: SystemExit: 3",
    "open-interrupts": "cannot be opened: KeyboardInterrupt",
    "open-cancels": "cannot be opened: CancelledError",
    "open-generator-exit": "cannot be opened: GeneratorExit",
    "open-blocks": rf"is not open: (no answer within 2 s, at|stuck in) {HERE}",
    "open-hangs": "is not open: no answer within (2|30) s",
    "read-raises": "ConnectionError: refused",
    "read-raises-at-length": r"ValueError: x{400,500}\.\.\.",
    "read-exits": "SystemExit: 3",
    "read-interrupts": "KeyboardInterrupt",
    "read-cancels": "CancelledError",
    "read-generator-exit": "GeneratorExit",
    "read-blocks": f"stuck in {HERE}",
    "read-hangs": "late|no answer within 30 s",
    "read-hangs-in-a-thread": "late|no answer within 30 s",
    "task-exits": "has ended: SystemExit: 3",
    "loop-stops": "has ended: RuntimeError: Event loop stopped before Future completed.",
    "nothing": "must answer with Readings, did with null",
    "text": r'must answer with Readings, did with "x+\.\.\.',
    "a-list": r"must answer with Readings, did with \[0, 0, 0, 0, 0, 0, \.\.\.\]",
    "no-table": r"workloads: must be a table by name, is \[1\]",
    "no-name": f"workloads: {A_NAME}, is 7",
    "a-name-at-length": f'workloads: {A_NAME}, is "x+\\.\\.\\.',
    "half-a-character": rf'workloads: {A_NAME}, is "\\ud800"',
    "no-samples": "rogue: workloads, shop/Deployment/web: must be a tuple of Samples, has 7",
    "text-for-a-number": 'rogue: workloads, shop/Deployment/web: must be a number, is "many"',
    "more-than-a-double": "rogue: workloads, shop/Deployment/web: must be a number that a double can hold, is .*",
    "millions": MANY,
    "millions-of-pods": MANY,
    "without-end": MANY,
    "hostile": "its answer cannot be read: SystemExit: looked at",
    "an-error-at-length": r"x{400,500}\.\.\.",
    "no-error": "error: must be text, is 7",
    "a-fault-at-length": r"rogue: x{400,500}\.\.\.",
    "no-time": 'received: must be a number, is "now"',
    "no-newest": 'newest: must be a number, is "now"',
    "no-forecast": "rogue: forecasts: must be Forecasts, one is 7",
    "describe-exits": "ok",
    "describe-at-length": "ok",
    "describe-no-json": "ok",
    "wakes-nobody": "ValueError: must wake a pod or workload or node by its key, which is text",
    "wakes-at-length": "ValueError: must wake a pod or workload or node by its key, which is text",
    "wakes-without-end": "ok|late",
    "well": "ok",
}


@contextmanager
def begun(folder: Path, *names: str) -> Iterator[Daemon]:
    """A daemon with these sources, each of which has been asked."""
    settings = write(folder, web=policy())
    settings.write_text("max_samples = 10_000\n" + settings.read_text() + rogues.tables(names))
    site, before = rogues.install(folder), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), str(Path.cwd()), before)))
    try:
        with daemon(folder) as running:
            for name in names:
                ask(running, name)
            yield running
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def ask(running: Daemon, name: str) -> None:
    """Have a source read; right after a reload no policy is about anything yet."""
    until(lambda: json.loads(running.get(f"/query?series=of-{name}&workload={WEB}"))["found"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """With every rogue at once; all have been asked."""
    with begun(tmp_path_factory.mktemp("rogues"), *rogues.NAMES) as started:
        yield started


def reports(running: Daemon) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(running.get("/sources"))}


def test_every_way_has_its_row() -> None:
    assert set(TOLD) == set(rogues.NAMES)


@pytest.mark.parametrize("name", rogues.NAMES)
def test_a_source_that_does_what_none_may_is_named_and_harms_itself_alone(running: Daemon, name: str) -> None:
    pattern = TOLD[name]
    health = until(
        lambda: found if re.fullmatch(pattern, found := reports(running)[name]["health"]) else None,
        f"{name} is never told as {pattern}: {reports(running)[name]['health']}",
    )
    assert len(health) <= 520
    if not pattern.startswith("ok"):
        running.logged(rf"source {name}: ({pattern})".replace("late|", ""))


def test_beside_them_the_cluster_is_scaled_and_every_page_answers(running: Daemon) -> None:
    running.replicas(4)
    at = running.decision()["at"]
    until(lambda: running.decision()["at"] > at, "nothing is decided any more")
    assert running.get("/healthz") == running.get("/readyz") == "ok\n"
    for page in ("/metrics", "/status", "/sources", "/nodes", "/moves"):
        assert len(running.get(page)) < 100_000
    assert "Traceback" not in running.log
    assert max(map(len, running.log.splitlines())) < 600


def test_a_reload_opens_what_is_stuck_a_few_times_and_a_signal_ends_the_daemon(tmp_path: Path) -> None:
    stuck = ("open-blocks", "read-blocks", "read-hangs-in-a-thread")
    with begun(tmp_path, *stuck) as running:
        begun_with = threads(running)
        for turn in range(4):
            until(lambda: all("rogues.py" in reports(running)[name]["health"] for name in stuck[:2]))
            running.process.send_signal(signal.SIGHUP)
            for name in stuck[:2] if turn < 3 else ():
                running.logged(f"source {name}: is opened anew", turn + 1)
                ask(running, name)
        for name in stuck[:2]:
            running.logged(f"source {name}: 4 threads of it are stuck, so that only a restart opens it again")
        assert threads(running) <= begun_with + 2 * 3 + 4  # the daemon has some of its own
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < 10
        assert "Traceback" not in running.log


def threads(running: Daemon) -> int:
    return len(list(Path(f"/proc/{running.process.pid}/task").iterdir()))
