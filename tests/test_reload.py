"""Reloads of a running daemon: all or nothing, and never a replica touched for it."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticd.base.errors import EXIT_CONFIG
from elasticd.daemon import LOOK
from tests.kit.daemons import Daemon, daemon, policy, until, write


def put(running: Daemon, text: str | bytes, name: str = "web") -> None:
    """Replace a policy file in one step, as an editor does."""
    path = running.folder / "policies" / f"{name}.toml"
    temporary = path.with_suffix(".new")
    temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
    temporary.replace(path)


def hang_up(running: Daemon) -> None:
    running.process.send_signal(signal.SIGHUP)


def refusals(running: Daemon) -> float:
    found = re.search(r'config_reloads_total\{result="refused"\} (.+)', running.get("/metrics"))
    return float(found[1]) if found else 0.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all reloads that need no start or end of their own."""
    with daemon(tmp_path_factory.mktemp("shared"), web=policy(3)) as running:
        running.replicas(3)
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log


@pytest.fixture
def running(shared: Daemon) -> Daemon:
    """It, with three replicas and the policy that wants them, whatever a test before has left. Its `log` is what it
    says from here on."""
    said = len(shared.log)
    for path in (shared.folder / "policies").iterdir():
        path.unlink()
    put(shared, policy(3))
    hang_up(shared)
    until(lambda: "INFO 1 policy in force\n" in shared.log[said:])
    shared.replicas(3)
    return shared.from_now_on()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('mode = "act"\n[[strategy]\n', r"ERROR .*web\.toml: must be TOML: .*line 2.*"),
        (policy()[: len(policy()) // 2], r"ERROR .*web\.toml: .*"),
        ("", r"ERROR .*web\.toml: workload: must be given, .*, the file is empty"),
        (policy().replace("max = 8", 'max = "8"'), r'ERROR .*web\.toml: replicas\.max: must be .*, is "8"'),
        (policy().replace("min = 1", "min = 9"), r"ERROR .*web\.toml: replicas\.min: must be <= max = 8, is 9"),
        (policy().replace("max", "mx"), r'ERROR .*web\.toml: replicas\.mx: no such key, did you mean "max"\?'),
        (b"\xff\xfe", r"ERROR .*web\.toml: must be UTF-8, is not at byte 1"),
        ("a = " + "[" * 5000, r"ERROR .*web\.toml: .*|ERROR .*policies: .*"),
    ],
    ids=[
        "no TOML",
        "half a file",
        "an empty file",
        "a wrong type",
        "min > max",
        "an unknown key",
        "no text",
        "deep nesting",
    ],
)
def test_a_bad_reload_keeps_what_runs_and_says_the_line(running: Daemon, text: str | bytes, line: str) -> None:
    refused = refusals(running)
    put(running, text)
    hang_up(running)
    running.logged(rf"(?m)^\S+ (?:{line})$")
    running.logged("ERROR the policies in force are kept as they were")
    until(lambda: refusals(running) > refused)
    assert "Traceback" not in running.log
    at = running.decision()["at"]
    until(lambda: running.decision()["at"] > at)
    assert running.decision()["replicas"] == 3


def test_after_a_bad_reload_a_good_one_is_adopted(running: Daemon) -> None:
    put(running, "bad")
    hang_up(running)
    running.logged("ERROR the policies in force are kept as they were")
    put(running, policy(4))
    hang_up(running)
    running.replicas(4)
    running.logged(r"INFO all policies are right again\n\S+ INFO 1 policy in force\n")
    hang_up(running)
    running.logged("INFO 1 policy in force\n", times=2)
    assert running.log.count("right again") == 1


def test_a_good_reload_is_adopted(running: Daemon) -> None:
    put(running, policy(4))
    hang_up(running)
    running.replicas(4)
    running.logged("INFO 1 policy in force\n")
    assert "elasticd_policies 1.0" in running.get("/metrics")


def test_a_link_that_would_block_is_refused_and_forgotten(running: Daemon) -> None:
    link = running.folder / "policies" / "l.toml"
    link.symlink_to("/proc/self/status")
    hang_up(running)
    running.logged(r"ERROR .*l\.toml: must be readable, is not: it is a file of the kernel\n")
    until(lambda: "l.toml" in json.loads(running.get("/status"))["kept"])
    link.unlink()
    put(running, policy(4))
    hang_up(running)
    running.replicas(4)
    until(lambda: not json.loads(running.get("/status"))["kept"])


BLOCKING = """
import asyncio, sys, threading
from pathlib import Path
from elasticd import daemon
from elasticd.config import files, timed
from elasticd.telemetry import log

def read(path, most, content_of=files.content_of):
    return threading.Event().wait() if path.name == "stuck.toml" else content_of(path, most)

files.content_of, timed.LONGEST = read, 1.0
log.set_up(sys.stderr)
asyncio.run(daemon.run(Path("elasticd.toml")))
"""


@pytest.mark.slow
def test_a_reload_that_never_ends_is_told_and_left(tmp_path: Path) -> None:
    write(tmp_path, web=policy(3))
    (tmp_path / "blocking.py").write_text(BLOCKING)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "blocking.py"], cwd=tmp_path, stderr=log)
    try:
        running = Daemon(tmp_path, process)
        put(running, policy(4), name="stuck")
        hang_up(running)
        running.logged(r"ERROR .*policies: must be read within 1 s, is not: a file or a plugin blocks")
        until(lambda: "must be read within 1 s" in json.loads(running.get("/status"))["kept"])
        (tmp_path / "policies" / "stuck.toml").unlink()
        put(running, policy(5))
        hang_up(running)
        running.logged("INFO all policies are right again")
        until(lambda: json.loads(running.get("/status"))["kept"] == "")
        assert running.stop() == 0
    finally:
        process.kill()
        process.wait()


def test_one_bad_file_keeps_the_others_from_being_adopted(running: Daemon) -> None:
    put(running, policy(4))
    put(running, "bad", name="other")
    hang_up(running)
    running.logged("ERROR the policies in force are kept as they were")
    at = running.decision()["at"]
    until(lambda: running.decision()["at"] > at)
    assert running.decision()["current"] == 3


def test_removing_a_policy_keeps_the_replicas_and_drops_its_series(running: Daemon) -> None:
    (running.folder / "policies" / "web.toml").unlink()
    hang_up(running)
    running.logged("WARNING 0 policies in force")
    until(lambda: 'name="web"' not in running.get("/metrics"))
    put(running, policy(3).replace('"act"', '"observe"'))
    hang_up(running)
    running.replicas(3)


def test_the_folder_itself_may_vanish_and_come_back(running: Daemon) -> None:
    (running.folder / "policies").rename(running.folder / "away")
    hang_up(running)
    running.logged(r"ERROR .*elasticd\.toml: policies: must be a readable folder, .*policies is not: No such file")
    (running.folder / "away").rename(running.folder / "policies")
    put(running, policy(4))
    hang_up(running)
    running.replicas(4)


@pytest.mark.slow
def test_a_file_that_changes_is_noticed_without_a_signal(tmp_path: Path) -> None:
    with daemon(tmp_path, web=policy(3)) as alone:
        alone.replicas(3)
        put(alone, policy(4))
        alone.replicas(4)
        assert len(alone.logged("INFO 1 policy in force\n")) == 1
        assert alone.stop() == 0


@pytest.mark.slow
def test_files_reloaded_by_a_signal_are_not_reloaded_as_changed(tmp_path: Path) -> None:
    with daemon(tmp_path, web=policy(3)) as alone:
        alone.replicas(3)
        put(alone, policy(4))
        hang_up(alone)
        alone.replicas(4)
        time.sleep(3 * LOOK)  # for as long as a look at the files could have taken it for news
        assert len(alone.logged("INFO 1 policy in force\n")) == 1
        assert alone.stop() == 0


def test_a_changed_elasticd_toml_is_reported_and_not_applied(running: Daemon) -> None:
    path = running.folder / "elasticd.toml"
    before = path.read_text()
    path.write_text("dry_run = true\n" + before)
    hang_up(running)
    running.logged(r"WARNING .*elasticd\.toml has changed: restart to apply it")
    path.write_text(before)


@pytest.mark.slow
def test_a_swapped_config_map_link_is_noticed_without_a_signal(tmp_path: Path) -> None:
    settings, policies = write(tmp_path, web=policy(3)), tmp_path / "policies"
    (policies / "web.toml").unlink()

    def swap(generation: str, text: str) -> None:
        (policies / f"..{generation}").mkdir()
        (policies / f"..{generation}" / "web.toml").write_text(text)
        (policies / "..data_tmp").symlink_to(f"..{generation}")
        (policies / "..data_tmp").replace(policies / "..data")

    swap("2026_1", policy(3))
    (policies / "web.toml").symlink_to("..data/web.toml")
    assert settings.exists()
    with daemon(tmp_path) as running:
        running.replicas(3)
        swap("2026_2", policy(4))
        running.replicas(4)
        assert (policies / "..data").readlink() == Path("..2026_2")


@pytest.mark.slow
def test_a_burst_of_signals_is_survived(tmp_path: Path) -> None:
    with daemon(tmp_path, web=policy(3)) as running:
        for _ in range(50):
            hang_up(running)
        running.logged("INFO 1 policy in force\n")
        running.replicas(3)
        assert running.stop() == 0
        assert "Traceback" not in running.log


@pytest.mark.slow
def test_probes_are_answered_while_10000_policies_are_reloaded(tmp_path: Path) -> None:
    with daemon(tmp_path, web=policy(3)) as running:
        running.replicas(3)
        others = policy(3).replace("interval = 0.2", "interval = 10")
        for number in range(10_000):
            put(running, others.replace('name = "web"', f'name = "w{number}"'), name=f"w{number}")
        hang_up(running)
        slowest, loaded = 0.0, False
        while not loaded:
            begun = time.monotonic()
            assert running.get("/healthz") == "ok\n"
            slowest = max(slowest, time.monotonic() - begun)
            loaded = "INFO 10001 policies in force" in running.log
            time.sleep(0.02)
        assert slowest < 1.5, "3 s for a fifth of them, before"
        running.replicas(3)
        assert running.stop() == 0


STARTING = """
import os, signal, sys

signal.signal(signal.SIGHUP, signal.SIG_DFL)


class HangUp:
    def find_spec(self, name, path=None, target=None):
        if name == "elasticd.cli":
            os.kill(os.getpid(), signal.SIGHUP)


sys.meta_path.insert(0, HangUp())
from elasticd.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("command", "code"), [("run", EXIT_CONFIG), ("status", -signal.SIGHUP)], ids=["the daemon", "another command"]
)
def test_a_reload_asked_for_at_the_start_ends_no_daemon(command: str, code: int, tmp_path: Path) -> None:
    """Not even while its modules are imported, which takes longest."""
    arguments = [sys.executable, "-c", STARTING, command, "--config", str(tmp_path / "none.toml")]
    assert subprocess.run(arguments, capture_output=True, check=False).returncode == code


def test_a_dangerous_reload_of_a_running_daemon_is_held_back(running: Daemon) -> None:
    huge = policy(900).replace("min = 1", "min = 900")
    put(running, huge)
    hang_up(running)
    until(lambda: (running.decision()["verdict"], running.decision()["reason"]) == ("hold", "BoundsPaced"))
    # Ten more than a minute ago: two at the start, three by the fixture, or four that a test before has left.
    assert running.decision()["replicas"] in (12, 13, 14)
    assert "until confirmed = 900 stands under [replicas]" in running.decision()["message"]
    put(running, huge.replace("min = 900", "min = 90\nconfirmed = 9"))
    hang_up(running)
    running.logged(r"ERROR .*web\.toml: replicas\.confirmed: must be min = 90 or max = 900, is 9")
    put(running, huge.replace("min = 900", "min = 30\nconfirmed = 30").replace("max = 900", "max = 40"))
    hang_up(running)
    running.replicas(30)
