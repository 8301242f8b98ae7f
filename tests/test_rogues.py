"""Sources and strategies of a plugin that do what none may, beside a cluster that is to be scaled: real daemons."""

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

from elasticd.base.shapes import encode
from elasticd.journal import read
from elasticd.model.records import Decision
from tests.kit import rogues
from tests.kit.daemons import Daemon, daemon, policy, until, write
from tests.kit.rogues import WEB

pytestmark = pytest.mark.slow

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
    "asked-again": "ok",
    "well": "ok",
}


@contextmanager
def begun(folder: Path, *names: str) -> Iterator[Daemon]:
    """A daemon with these sources, each of which has been asked."""
    strategies = {how: rogues.observing(how) for how in names if how in {*rogues.WISHES, *rogues.LEAVES}}
    settings = write(folder, web=policy(), **strategies)
    settings.write_text("max_samples = 10_000\n" + settings.read_text() + rogues.tables(set(names) & set(rogues.NAMES)))
    site, before = rogues.install(folder), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), str(Path.cwd()), before)))
    try:
        with daemon(folder) as running:
            for name in names:
                if name in rogues.NAMES:
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
def test_a_rogue_source_is_named_and_harms_only_itself(running: Daemon, name: str) -> None:
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


def test_a_reload_reopens_stuck_sources_and_signals_end_the_daemon(tmp_path: Path) -> None:
    stuck = ("open-blocks", "read-blocks", "read-hangs-in-a-thread")
    with begun(tmp_path, *stuck) as running:
        begun_with = threads(running)
        for turn in range(4):
            until(lambda: all("rogues.py" in reports(running)[name]["health"] for name in stuck[:2]))
            running.process.send_signal(signal.SIGHUP)
            for name in stuck[:2] if turn < 3 else ():
                running.logged(f"source {name}: is reopened", turn + 1)
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


def test_a_reload_that_blocks_keeps_the_policies_and_the_end(tmp_path: Path) -> None:
    with begun(tmp_path) as running:
        blocking = tmp_path / "policies" / "blocking.toml"
        blocking.write_text(rogues.observing(rogues.OPTIONS_BLOCK))
        running.process.send_signal(signal.SIGHUP)
        until((tmp_path / rogues.OPTIONS_BLOCK).exists)
        running.replicas(4)
        assert running.stop() == 0


X = r"x{400,500}\.\.\."
WISHED = {
    "wish-at-length": ("scale", X, X),
    "wish-without-end": ("scale", "Wanted", "Wanted"),
    "wish-raises-at-length": ("hold", "PluginFailed", f"rogues: recommend_replicas raised ValueError: {X}"),
    "wish-exits": ("hold", "PluginFailed", "rogues: recommend_replicas raised SystemExit: 3"),
    "wish-interrupts": ("hold", "PluginFailed", "rogues: recommend_replicas raised KeyboardInterrupt"),
    "wish-cancels": ("hold", "PluginFailed", "rogues: recommend_replicas raised CancelledError"),
    "wish-generator-exit": ("hold", "PluginFailed", "rogues: recommend_replicas raised GeneratorExit"),
    "wish-is-text": ("hold", "PluginFailed", 'rogues: recommend_replicas returned "x+....*'),
    "wish-is-a-list": ("hold", "PluginFailed", r"rogues: recommend_replicas returned \[0, 0.*"),
    "wish-blocks": ("hold", "PluginBlocked", r"stuck in rogues.py:\d+ <lambda>; it is not called again until reload"),
}


@pytest.fixture(scope="module")
def wishing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """With every such strategy at once; a signal ends it. No test may: on another worker they run in another order."""
    with begun(tmp_path_factory.mktemp("wishes"), *rogues.WISHES) as started:
        yield started
        assert started.stop() == 0


@pytest.mark.parametrize("how", rogues.LEAVES)
def test_what_a_plugin_leaves_behind_holds_up_no_end(tmp_path: Path, how: str) -> None:
    with begun(tmp_path, how) as running:
        until(lambda: decided(running).get(how))
        port = int(running.address.rpartition(":")[2])
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < 10
        assert ("its process not" in running.log) == (how != "leaves-a-child"), running.log
    settings = write(tmp_path, web=policy(5))
    settings.write_text(settings.read_text().replace("port = 0", f"port = {port}"))
    (tmp_path / "policies" / f"{how}.toml").unlink()
    try:
        with daemon(tmp_path) as next_one:
            next_one.replicas(4)
    finally:
        if (child := tmp_path / "child").exists():
            os.kill(int(child.read_text()), signal.SIGKILL)


def decided(running: Daemon) -> dict[str, dict[str, Any]]:
    return {one["policy"]: one for one in json.loads(running.get("/status"))["decisions"]}


@pytest.mark.parametrize("how", rogues.WISHES)
def test_a_rogue_strategy_is_named_and_holds_only_its_policy(wishing: Daemon, how: str) -> None:
    verdict, reason, message = WISHED[how]
    # In the journal: after a second of failures the plugin is switched off, and the latest decision says that.
    found = until(
        lambda: next((one for one in journaled(wishing, how) if re.fullmatch(reason, one.reason)), None),
        f"a decision of {how}",
    )
    assert re.fullmatch(message, found.message)
    assert found.verdict == verdict
    assert len(encode(found)) < 40_000


def journaled(running: Daemon, name: str) -> Iterator[Decision]:
    """All decisions of a policy, the oldest first."""
    for record in read(running.folder / "state"):
        if isinstance(record, Decision) and record.policy == name:
            yield record


def test_beside_rogues_the_cluster_scales_and_output_is_bounded(wishing: Daemon) -> None:
    wishing.replicas(4)
    for how in rogues.WISHES:
        until(lambda how=how: decided(wishing).get(how))  # type: ignore[misc]
    at = decided(wishing)["web"]["at"]
    until(lambda: decided(wishing)["web"]["at"] > at)
    assert len(wishing.get("/status")) < 200_000
    assert max(map(len, wishing.log.splitlines())) < 800
    assert "work again" not in wishing.log
    assert "Traceback" not in wishing.log
    journal = (wishing.folder / "state").glob("*.jsonl")
    lines = [len(line) for path in journal for line in path.read_bytes().splitlines()]
    assert 0 < max(lines) < 60_000
