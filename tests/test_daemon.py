"""The daemon as a real process on a simulated cluster: it starts, stops, is killed, and goes on."""

import asyncio
import gc
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elasticd import daemon as process
from elasticd.base.clock import VirtualClock
from elasticd.base.shapes import moment
from elasticd.hookspecs import hookimpl
from elasticd.journal import Journal
from elasticd.model.actions import Answer
from elasticd.model.history import Past
from elasticd.model.moves import Underway
from elasticd.model.policy import Bounds, Policy, Select, Target
from elasticd.model.reports import PolicyInForce
from elasticd.model.workload import Ref
from elasticd.ports.cluster import View
from elasticd.registry import Registry
from elasticd.runtime.plugin_listener import PluginListener
from elasticd.telemetry.metrics import DaemonMetrics
from elasticd.testing import NOW
from tests.kit import daemons
from tests.kit.daemons import Daemon, called, daemon, policy, run, until, write
from tests.kit.pools import node, pod
from tests.kit.records import decision, outcome
from tests.runtime.pools.test_placer import bench

WEB = Ref("shop", "Deployment", "web")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all tests that only ask it."""
    with daemon(tmp_path_factory.mktemp("running")) as started:
        started.replicas(4)
        yield started


def test_it_scales_shows_its_pages_and_ends_cleanly(tmp_path: Path) -> None:
    with daemon(tmp_path) as running:
        running.replicas(4)
        assert running.get("/healthz") == running.get("/readyz") == "ok\n"
        metrics = running.get("/metrics")
        assert 'elasticd_actions_total{code="200"' in metrics
        assert "elasticd_policies 1.0" in metrics
        shown = running.decision()
        assert (shown["workload"]["name"], shown["policy"], shown["replicas"]) == ("web", "web", 4)
        assert running.stop() == 0
        assert "Traceback" not in running.log


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_daemon_despite_a_connected_client(tmp_path: Path, number: int) -> None:
    with daemon(tmp_path) as running:
        host, port = running.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
            assert running.stop(number) == 0
        assert "Traceback" not in running.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policies", "lines"),
    [
        ({"web": policy(0)}, [r"web\.toml: replicas\.max: must be >= 1, is 0"]),
        ({"web": "mode = 3\nmax = = 4"}, [r"web\.toml: must be TOML: .*line 2.*"]),
        (
            {"a": policy(0), "b": "", "c": policy().replace("hpa", "hpq")},
            [
                r"a\.toml: .*",
                r"b\.toml: workload: must be given.*",
                r'c\.toml: strategy\[0\]\.type: .* "hpa"\?',
            ],
        ),
    ],
    ids=["a bound", "no TOML", "three files"],
)
def test_wrong_policies_are_reported_in_a_line_for_each_mistake(
    tmp_path: Path, policies: dict[str, str], lines: list[str]
) -> None:
    done = run("run", "--config", write(tmp_path, **policies))
    told = done.stderr.splitlines()
    assert (done.returncode, len(told), done.stdout) == (78, len(lines), "")
    for line, pattern in zip(told, lines, strict=True):
        assert re.fullmatch(rf"\S+Z ERROR /.*/policies/{pattern}", line), line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("[http]\nport = 99999", r".*elasticd\.toml: http\.port: must be <= 65535, is 99999"),
        ("[htpp]", r'.*elasticd\.toml: htpp: no such key, did you mean "http"\?'),
        (
            'policies = "nowhere"\n[cluster]\ntype="simulated"\nnodes=[{name="n",cpu=1,memory=1}]',
            r".*elasticd\.toml: policies: must be a readable folder, .*nowhere is not: No such file or directory",
        ),
        (None, r".*elasticd\.toml: must be readable, is not: No such file or directory"),
    ],
    ids=["a number", "a key", "no folder", "no file"],
)
def test_wrong_settings_are_reported_in_one_line(tmp_path: Path, settings: str | None, line: str) -> None:
    path = tmp_path / "elasticd.toml"
    if settings is not None:
        path.write_text(settings)
    done = run("run", "--config", path)
    assert done.returncode == 78
    assert re.fullmatch(rf"\S+Z ERROR {line}", done.stderr.strip()), done.stderr


@pytest.mark.slow
def test_a_file_that_is_not_there_yet_is_no_mistake(tmp_path: Path) -> None:
    """As that of a token, which an agent writes that may be started later: systemd starts the daemon again."""
    path = write(tmp_path, web=policy())
    path.write_text(path.read_text().replace("[http]", '[http]\ntoken_file = "token"'))
    done = run("run", "--config", path)
    assert done.returncode == 69
    told = rf"{path}: http\.token_file: {tmp_path}/token: must be readable, is not: No such file or directory"
    assert re.fullmatch(rf"\S+Z ERROR {told}", done.stderr.strip()), done.stderr


@pytest.mark.slow
def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = write(tmp_path, web=policy())
        settings.write_text(settings.read_text().replace("port = 0", f"port = {port}"))
        done = run("run", "--config", settings)
    assert (done.returncode, len(done.stderr.splitlines())) == (69, 1)
    assert done.stderr.partition(" ERROR ")[2].startswith(f"http: 127.0.0.1:{port} must be free to listen on, is not: ")


@pytest.mark.slow
def test_an_unwritable_state_folder_is_one_error_line(tmp_path: Path) -> None:
    settings = write(tmp_path, web=policy())
    (tmp_path / "state").write_text("a file")
    done = run("run", "--config", settings)
    assert (done.returncode, len(done.stderr.splitlines())) == (69, 1)
    assert "state: the journal's folder must be writable: " in done.stderr


def past(folder: Path) -> Past:
    """What is remembered on disk: read from a copy, since the folder is the running daemon's alone."""
    copy = folder / "copy"
    shutil.copytree(folder / "state", copy)
    journal = Journal(copy)
    journal.close()
    shutil.rmtree(copy)
    return journal.past("web", WEB, time.time(), 4)


@pytest.mark.slow
def test_a_killed_daemon_is_explained_and_its_successor_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with daemon(tmp_path) as running:
        running.replicas(4)
        until(lambda: past(tmp_path).changes)
        assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    code, out, err = called(capsys, "explain", "shop/Deployment/web", "--config", tmp_path / "elasticd.toml")
    assert (code, err) == (0, "")
    assert "keep 4 replicas" in out
    before = past(tmp_path)
    with daemon(tmp_path) as again:
        until(lambda: again.decision()["at"] > moment(before.until))
        assert again.stop() == 0
    after = past(tmp_path)
    assert after.since == before.since
    assert after.changes[: len(before.changes)] == before.changes
    assert after.until > before.until


@pytest.mark.slow
def test_one_whose_journal_is_damaged_starts_and_tells_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with daemon(tmp_path) as running:
        running.replicas(4)
        running.stop()
    newest = tmp_path / "state" / "journal-00000001.jsonl"
    lines = newest.read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b"web", b"we\xf7", 1)
    newest.write_bytes(b"".join([*lines, b"[" * 100_000 + b"\n", b"\x00" * 5000, b'{"type":"decision","id":"we']))
    with daemon(tmp_path) as running:
        running.replicas(4)
        told = "3 lines are damaged and passed over: the first is line 1, at byte 0: its checksum is wrong"
        assert running.logged(re.escape(f"{newest}: {told}"))
        for command in (["status"], ["explain", "shop/Deployment/web"]):
            code, out, _ = called(capsys, *command, "--state", tmp_path / "state")
            assert (code, "shop/Deployment/web" in out) == (0, True)
        assert running.stop() == 0


@pytest.mark.slow
def test_who_stops_reading_its_decisions_does_not_end_it(tmp_path: Path) -> None:
    settings = write(tmp_path, web=policy())
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            daemons.command("run", "--decisions", "--config", settings), stderr=log, stdout=subprocess.PIPE
        )
    try:
        assert process.stdout is not None
        assert b"replicas" in process.stdout.readline()
        process.stdout.close()
        running = Daemon(tmp_path, process)
        (tmp_path / "policies" / "web.toml").write_text(policy(6).replace("value = 10", "value = 5"))
        running.replicas(6)
        assert running.logged("--decisions: nobody reads them any more") == ["--decisions: nobody reads them any more"]
        assert running.stop() == 0
    finally:
        process.kill()
        process.wait()


def fill(pipe: int) -> None:
    """Write into a pipe until it takes no more."""
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x")
    os.set_blocking(pipe, True)


@pytest.mark.slow
def test_who_reads_no_decisions_holds_nothing_up(tmp_path: Path) -> None:
    settings = write(tmp_path, web=policy())
    reading, writing = os.pipe()
    fill(writing)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            daemons.command("run", "--decisions", "--config", settings), stderr=log, stdout=writing
        )
    try:
        running = Daemon(tmp_path, process)
        running.replicas(4)
        (tmp_path / "policies" / "web.toml").write_text(policy(6).replace("value = 10", "value = 5"))
        running.replicas(6)
        assert running.stop() == 0
        assert "Fatal" not in running.log
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


@pytest.mark.slow
def test_who_reads_no_log_holds_nothing_up(tmp_path: Path) -> None:
    settings = write(tmp_path, web=policy())
    reading, writing = os.pipe()
    process = subprocess.Popen(
        daemons.command("run", "--log-level", "debug", "--config", settings), stderr=writing, stdout=subprocess.DEVNULL
    )
    try:
        with os.fdopen(reading) as log:
            begin = next(line for line in log if "pages at" in line)
            (tmp_path / "log").write_text(begin)
            running = Daemon(tmp_path, process)
            running.replicas(4)
            fill(writing)
            (tmp_path / "policies" / "web.toml").write_text(policy(6).replace("value = 10", "value = 5"))
            running.replicas(6)
            assert running.stop() == 0
    finally:
        process.kill()
        process.wait()
        os.close(writing)


def test_a_process_resumed_after_sigstop_is_healthy_and_decides(running: Daemon) -> None:
    running.process.send_signal(signal.SIGSTOP)
    running.process.send_signal(signal.SIGCONT)
    at = running.decision()["at"]
    until(lambda: running.decision()["at"] > at)
    assert running.get("/healthz") == "ok\n"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def _plugin(decided: Any, backlog: int = 100) -> tuple[list[object], PluginListener]:
    seen: list[object] = []

    class Plugin:
        @hookimpl
        def decided(self, decision: object) -> None:
            decided(decision)

        @hookimpl
        def acted(self, outcome: object) -> None:
            seen.append(outcome)

    registry = Registry()
    registry.modules.register(Plugin(), "chatty")
    return seen, PluginListener(registry, backlog)


def test_plugins_are_told_what_was_decided_and_done() -> None:
    told: list[object] = []
    seen, listener = _plugin(told.append)
    listener.on(decision(1.0))
    listener.on(outcome(2.0))
    listener.close()
    assert (told, seen) == ([decision(1.0)], [outcome(2.0)])


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_plugin_that_fails_five_times_is_told_no_more(
    caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    def fail(_: object) -> None:
        raise error("no\nno")

    seen, listener = _plugin(fail)
    for number in range(9):
        listener.on(decision(float(number)))
    listener.on(outcome(9.0))
    listener.close()
    line = f"plugin chatty: decided raised {error.__name__}: no no"
    assert caplog.messages == [line] * 4 + [f"{line}, and is switched off until restart"]
    assert len(seen) == 1


def test_a_plugin_that_blocks_keeps_nobody_waiting(gate: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    _, listener = _plugin(lambda _: gate.wait(), backlog=3)
    for number in range(50):
        listener.on(decision(float(number)))
    listener.close()
    # Once, or once more where the thread took the first record only after the queue had been full.
    assert set(caplog.messages) == {"plugins do not keep up with decisions and outcomes: some are left out"}
    assert len(caplog.messages) <= 2


def test_without_such_plugins_there_is_no_thread() -> None:
    before = threading.enumerate()
    listener = PluginListener(Registry())
    listener.on(decision(1.0))
    assert set(threading.enumerate()) <= set(before)
    listener.close()


@pytest.mark.parametrize(
    ("confirmed", "problems", "told"),
    [
        pytest.param(None, {}, "not yet: waits for the first list of the cluster's pods", id="nothing was observed"),
        pytest.param(0.0, {}, "not yet: waits for the first list of the cluster's pods", id="no list has come"),
        pytest.param(
            0.0,
            {("v1", "Pod"): "403 Forbidden: pods is forbidden"},
            "not yet: waits for the first list of the cluster's pods; Pod: 403 Forbidden: pods is forbidden",
            id="it is known why",
        ),
        pytest.param(NOW - 100.0, {}, "the cluster was last heard of 100 s ago", id="it is long ago"),
        pytest.param(NOW - 1.0, {}, "", id="it is ready"),
    ],
)
def test_readiness_tells_what_is_waited_for(
    confirmed: float | None, problems: dict[tuple[str, str], str], told: str
) -> None:
    snapshot = None if confirmed is None else SimpleNamespace(confirmed=confirmed)
    loop: Any = SimpleNamespace(snapshot=snapshot)
    cluster: Any = SimpleNamespace(leading=True, problems=lambda: problems)
    unused: Any = None
    assert process.Daemon(loop, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW)).readiness() == told


@pytest.mark.parametrize("fault", ["", "its disk does not answer"])
def test_the_metrics_tell_whether_the_journal_can_be_written(fault: str) -> None:
    journal = Journal()
    journal.writable, journal.fault = not fault, fault
    loop: Any = SimpleNamespace(snapshot=None, router=SimpleNamespace(report=lambda _: []))
    mover: Any = SimpleNamespace(in_flight=lambda _: [])
    cluster: Any = SimpleNamespace(leading=True, problems=dict, views=tuple)
    found = process.Daemon(loop, UNPLACED, mover, cluster, journal, DaemonMetrics(), VirtualClock(NOW))
    assert f"elasticd_journal_writable {float(not fault)}\n" in found.pages().metrics()().decode()


UNPLACED: Any = SimpleNamespace(hanging=list)
"""Nothing is placed."""

UNMOVED: Any = SimpleNamespace(surging=SimpleNamespace(faults=list))
"""Nothing is moved."""
RESTING: Any = SimpleNamespace(actions={})
"""Nothing is under way."""


@pytest.mark.parametrize(
    ("leading", "leader", "faults"),
    [
        pytest.param(False, "", ("Lease: no answer in time",), id="nobody leads"),
        pytest.param(False, "other", (), id="another leads"),
        pytest.param(True, "me", (), id="it leads"),
    ],
)
def test_while_nobody_leads_the_status_says_why(leading: bool, leader: str, faults: tuple[str, ...]) -> None:
    cluster: Any = SimpleNamespace(
        leading=leading,
        views=tuple,
        problems=lambda: {("coordination.k8s.io/v1", "Lease"): "no answer in time"},
        describe=lambda: SimpleNamespace(leader=leader),
        restoring=list,
    )
    loop: Any = SimpleNamespace(snapshot=SimpleNamespace(confirmed=NOW), actions={})
    unused: Any = None
    found = process.Daemon(loop, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW))
    assert (found.status().leader, found.status().faults) == (leader, faults)


@pytest.mark.parametrize("kind", ["resourceVersions", "policies of the leader", "scales of example.com/v1/Gadget"])
def test_the_status_tells_what_is_no_reason_to_be_unready(kind: str) -> None:
    cluster: Any = SimpleNamespace(
        leading=False,
        views=tuple,
        problems=lambda: {("", kind): "they went back"},
        describe=lambda: SimpleNamespace(leader="other"),
        restoring=list,
    )
    loop: Any = SimpleNamespace(snapshot=SimpleNamespace(confirmed=NOW), actions={})
    unused: Any = None
    found = process.Daemon(loop, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW))
    assert (found.status().faults, found.readiness()) == (("they went back",), "")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param(["a"], "no policy of this daemon acts for a, whose HPA was stopped by takeover", id="one"),
        pytest.param(
            ["a", "b", "c", "d", "e"],
            "no policy of this daemon acts for a, b, c and 2 more, whose HPAs were stopped by takeover",
            id="several",
        ),
    ],
)
def test_what_nobody_scales_since_a_takeover_is_told_once(
    caplog: pytest.LogCaptureFixture, names: list[str], text: str
) -> None:
    cluster: Any = SimpleNamespace(leading=True, problems=dict, views=tuple, describe=lambda: None, restoring=list)
    unscaled = list[str]()
    loop: Any = SimpleNamespace(actions={}, unscaled=lambda: unscaled)
    unused: Any = None
    found = process.Daemon(loop, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW))
    told = []
    for present in ([], names, names, []):
        unscaled[:] = present
        found.look_for_unscaled()
        told.append(found.status().faults)
    line = f"{text} (elasticd takeover --back)"
    assert (told, caplog.messages) == ([(), (line,), (line,), ()], [line])


async def test_it_tells_which_views_are_old_and_since_when(caplog: pytest.LogCaptureFixture) -> None:
    down = "500 InternalError: down"
    watched = [View(("v1", "Node"), NOW - 900.0, down), View(("v1", "Pod"), NOW - 1.0), View(("a", "Pod"), NOW - 2.0)]
    cluster: Any = SimpleNamespace(
        leading=True,
        problems=lambda: {("v1", "Node"): down, ("apps/v1", "Deployment"): down},
        views=lambda: watched,
        describe=lambda: None,
        restoring=list,
    )
    router = SimpleNamespace(report=lambda _: [])
    loop: Any = SimpleNamespace(snapshot=SimpleNamespace(confirmed=NOW - 1.0), actions={}, router=router)

    async def underway() -> list[Underway]:
        return []

    mover: Any = SimpleNamespace(surging=UNMOVED.surging, in_flight=lambda _: [], underway=underway)
    found = process.Daemon(loop, UNPLACED, mover, cluster, Journal(), DaemonMetrics(), VirtualClock(NOW))
    line = f"Node: not current since {datetime.fromtimestamp(NOW - 900.0, UTC):%Y-%m-%d %H:%M:%S} UTC: {down}"
    assert found.status().faults == (line,)
    assert found.summary().problems == (line, f"Deployment: {down}")
    pages: Any = found.pages()
    assert (await pages.moves())["stale"] == [line]
    assert 'elasticd_view_age_seconds{kind="Node"} 900.0\n' in pages.metrics()().decode()
    assert 'elasticd_view_age_seconds{kind="Pod"} 2.0\n' in pages.metrics()().decode()
    found.look_for_stale_views()
    found.look_for_stale_views()
    assert caplog.messages == [line]


def test_a_dry_run_tells_nothing_of_a_takeover(caplog: pytest.LogCaptureFixture) -> None:
    loop: Any = SimpleNamespace(unscaled=lambda: ["a"])
    cluster: Any = SimpleNamespace()
    unused: Any = None
    found = process.Daemon(loop, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW), dry_run=True)
    found.look_for_unscaled()
    assert (found.unscaled, caplog.messages) == ("", [])


def test_the_status_names_evicted_pods_that_have_not_run() -> None:
    faults = {"a": "namespace gone", "b": "", "c": "no PriorityClass"}
    moves = [
        Underway(Ref("shop", "Pod", name), "u", "anew", "gone", NOW, fault=fault) for name, fault in faults.items()
    ]
    problems = {
        ("v1", "ConfigMap"): "403",
        ("", "restore records"): "do not count",
        ("", "evicted pods"): "namespace gone; no PriorityClass",
    }
    cluster: Any = SimpleNamespace(
        leading=True, problems=lambda: problems, views=tuple, describe=lambda: None, restoring=lambda: moves
    )
    unused: Any = None
    shown = process.Daemon(RESTING, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW)).status()
    assert shown.faults == ("namespace gone", "no PriorityClass", "403", "do not count")


def test_the_status_tells_whom_policies_concern() -> None:
    """As also an action of a policy that has been removed since."""
    cluster: Any = SimpleNamespace(leading=True, problems=dict, views=tuple, describe=lambda: None, restoring=list)
    loop: Any = SimpleNamespace(actions={("removed", WEB): ...})
    unused: Any = None
    named, selecting = Target("shop", "web"), Select(("shop",))
    policies = (
        Policy(name="named", replicas=Bounds(9), strategies=(), mode="act", workload=named),
        Policy(name="selecting", replicas=Bounds(9), strategies=(), select=selecting),
    )
    shown = process.Daemon(loop, UNPLACED, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW), policies=policies)
    assert shown.status().policies == (
        PolicyInForce("named", "act", workload=named),
        PolicyInForce("selecting", "observe", select=selecting),
    )
    assert shown.status().under_way == (WEB,)


FORBIDDEN = Answer("failed", 422, "422 Invalid: refused by policy x", "Invalid")


@pytest.mark.parametrize(
    ("cpu", "refuse", "why"),
    [
        pytest.param(
            1,
            lambda _: FORBIDDEN,
            "could not bind to n1: failed: Invalid, 422 Invalid: refused by policy x",
            id="a binding",
        ),
        pytest.param(0.5, None, "Unschedulable, 0/1 nodes are available: 1 Insufficient cpu", id="a filter"),
    ],
)
async def test_why_a_recreated_pod_has_no_node_is_told(cpu: float, refuse: Any, why: str) -> None:
    move = Underway(Ref("shop", "Pod", "p"), "u", "anew", "waiting for a node", NOW, fault="for 61 s", copy="uid-p")
    cluster: Any = SimpleNamespace(
        leading=True, problems=dict, views=tuple, describe=lambda: None, restoring=lambda: [move]
    )
    unused: Any = None
    async with bench([node("n1", cpu=cpu)], [pod("p", cpu=0.6)]) as it:
        it.board.refuse = refuse or it.board.refuse
        shown = process.Daemon(RESTING, it.placer, UNMOVED, cluster, Journal(), unused, VirtualClock(NOW))
        assert shown.status().faults == ("for 61 s",)
        await it.until(5)
        (fault,) = shown.status().faults
        assert fault.startswith(f"for 61 s: {why}")


@pytest.mark.parametrize(("dry_run", "leader"), [(False, 1), (True, 0)], ids=["acts", "dry run"])
def test_a_dry_run_is_no_leader_to_prometheus(dry_run: bool, leader: int) -> None:
    unused: Any = None
    cluster: Any = SimpleNamespace(leading=True, problems=dict, views=tuple)
    loop: Any = SimpleNamespace(router=SimpleNamespace(report=lambda now: []), snapshot=None)
    mover: Any = SimpleNamespace(in_flight=lambda snapshot: [])
    clock = VirtualClock(NOW)
    made = process.Daemon(loop, unused, mover, cluster, Journal(), DaemonMetrics(), clock, dry_run=dry_run)
    assert f"elasticd_leader {leader}.0\n" in made.pages().metrics()().decode()


@pytest.mark.slow
def test_systemd_is_told_when_it_is_ready_reloads_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(daemons.PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        with daemon(tmp_path) as running:
            assert manager.recv(4096).decode().startswith("READY=1\nSTATUS=1 policy in force, pages at http://")
            assert manager.recv(4096) == b"WATCHDOG=1"
            running.process.send_signal(signal.SIGHUP)
            until(lambda: manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC="))
            until(lambda: manager.recv(4096) == b"READY=1\nSTATUS=1 policy in force")
            assert running.stop() == 0
            until(lambda: manager.recv(4096) == b"STOPPING=1")


def test_the_status_page_is_the_journal_s_records(running: Daemon) -> None:
    status = json.loads(running.get("/status"))
    assert status["leading"] is True
    assert [one["type"] for one in status["decisions"]] == ["decision"]


def pointing(folder: Path, port: str) -> Path:
    """Settings by which a command finds the daemon."""
    settings = write(folder, web=policy())
    settings.write_text(settings.read_text().replace("port = 0", f"port = {port}"))
    return settings


@pytest.mark.slow
def test_status_and_explain_report_an_unwritable_journal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with daemon(tmp_path / "daemon") as running:
        running.replicas(4)
        settings = pointing(tmp_path, running.address.rpartition(":")[2])
        (tmp_path / "state").symlink_to(running.folder / "state")
        status, explain = ["status", "--config", settings], ["explain", "shop/Deployment/web", "--config", settings]
        assert [called(capsys, *command)[2] for command in (status, explain)] == ["", ""]
        begun = time.time()
        files_may_have(running, 1)
        until(lambda: called(capsys, *status)[2])
        for command in (status, explain):
            code, _, err = called(capsys, *command)
            found = re.fullmatch(r"elasticd is not ready: the journal has not been written since (.*) UTC: (.*)\n", err)
            assert found, err
            since = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
            assert (code, found[2]) == (0, "File too large")
            assert begun - 2 <= since <= time.time()
        files_may_have(running, resource.RLIM_INFINITY)
        until(lambda: not called(capsys, *status)[2])


def files_may_have(running: Daemon, size: int) -> None:
    """Bytes at most, as on a disk that is full."""
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_sources_and_query_ask_the_running_daemon(
    capsys: pytest.CaptureFixture[str], running: Daemon, tmp_path: Path
) -> None:
    settings = pointing(tmp_path, running.address.rpartition(":")[2])
    (report,) = json.loads(called(capsys, "sources", "--config", settings, "--json")[1])
    assert (report["name"], report["health"], report["failures"]) == ("resource-metrics", "ok", 0)
    assert report["age"] < 60
    assert "resource-metrics" in called(capsys, "sources", "--config", settings)[1]
    query = ["query", "queue", "--config", settings]
    code, out, _ = called(capsys, *query, "shop/Deployment/web")
    assert (code, out.splitlines()[0]) == (0, "queue for policy web: fresh from resource-metrics")
    (seen,) = json.loads(called(capsys, *query, "shop/Deployment/web", "--json")[1])["found"]
    assert (seen["policy"], [sample["value"] for sample in seen["series"]["samples"]]) == ("web", [40.0])
    assert called(capsys, *query, "deploy/web")[1].splitlines()[0] == out.splitlines()[0]
    assert called(capsys, *query, "deploy", "web", "-n", "shop")[1].splitlines()[0] == out.splitlines()[0]
    code, out, _ = called(capsys, "query", "queu", "shop/sts/web", "--config", settings)
    assert code == 69
    code, out, _ = called(capsys, "query", "queu", "shop/deploy/web", "--config", settings)
    assert (code, out.splitlines()[-1]) == (0, 'no source has samples of queu, did you mean "queue"?')
    told = 'no policy is about shop/Deployment/wbe, did you mean "shop/Deployment/web"?\n'
    assert called(capsys, *query, "shop/Deployment/wbe") == (69, "", told)


def test_where_no_daemon_runs_that_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        told = f"http://127.0.0.1:{port}: must be a running elasticd, is not: Connection refused\n"
        assert called(capsys, "sources", "--config", pointing(tmp_path, str(port))) == (69, "", told)


@pytest.fixture
def _untuned() -> Iterator[None]:
    """What the interpreter is set to stays as it was."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_untuned")
def test_a_deciding_thread_soon_gives_way_to_the_event_loop() -> None:
    sys.setswitchinterval(0.005)
    process.tune_interpreter()
    assert sys.getswitchinterval() == pytest.approx(process.SWITCH)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [OSError("no journal"), asyncio.CancelledError()], ids=["it fails", "it is cancelled"]
)
async def test_all_loops_end_when_one_does(error: BaseException) -> None:
    ended = list[str]()

    async def go_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    async def end() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(type(error)):
        await process.run_together(go_on(), end())
    assert ended == ["other"]
