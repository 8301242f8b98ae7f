"""That systemd takes the unit, how much it protects, and that the daemon says to systemd what it expects."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elasticd.base.errors import EXIT_CONFIG
from elasticd.config import DEFAULT_CONFIG, load_settings
from elasticd.registry import discover
from elasticd.telemetry.connections import MOST

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "systemd" / "elasticd.service"
ELASTICD = Path(sys.executable).parent / "elasticd"
NOTIFY_RELOAD = 253
"""The version of systemd that brought Type=notify-reload."""

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(
    ANALYZE is None and not os.environ.get("CI"), reason="systemd-analyze is not on this machine"
)


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None, "systemd-analyze must be on a machine that runs CI"
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False, timeout=30)


def options(text: str) -> dict[str, list[str]]:
    """Every option of a unit with its values, in order."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


@needs_systemd
def test_exposure_is_at_most_1_and_a_half_of_10() -> None:
    done = analyze("security", "--offline=true", "--threshold=15", "--no-pager", UNIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Overall exposure level" in done.stdout


@needs_systemd
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    version = int(analyze("--version").stdout.split()[1])
    patched = tmp_path / UNIT.name
    patched.write_text(UNIT.read_text().replace("/opt/elasticd/bin/elasticd", str(ELASTICD)))
    done = analyze("verify", patched)
    said = [line for line in done.stderr.splitlines() if str(patched) in line or UNIT.name in line]
    if version < NOTIFY_RELOAD:
        said = [line for line in said if not line.endswith("ignoring: notify-reload")]
    assert said == []
    assert done.returncode == 0, done.stderr


def test_unit_fits_the_daemon() -> None:
    unit = options(UNIT.read_text())
    settings = load_settings(ROOT / "config" / "elasticd.toml", discover())
    assert unit["ExecStart"] == [f"/opt/elasticd/bin/elasticd run --config {DEFAULT_CONFIG}"]
    assert unit["RestartPreventExitStatus"] == [str(EXIT_CONFIG)]
    assert (unit["Restart"], unit["RestartSec"], unit["LimitCORE"]) == (["always"], ["5"], ["0"])
    assert [f"/var/lib/{name}" for name in unit["StateDirectory"]] == [str(settings.state)]
    # Older systems keep the first, and warn of the second.
    assert unit["Type"] == ["notify", "notify-reload"]


def test_the_unit_lets_as_many_read_as_it_says() -> None:
    text = UNIT.read_text()
    (files,) = options(text)["LimitNOFILE"]
    assert int(files) // 4 >= MOST
    assert f"# A quarter of these are for those who read its pages, at most {MOST}.\nLimitNOFILE=" in text
    assert f"at most {MOST}, and a quarter of the files it may open" in (ROOT / "docs" / "faults.md").read_text()


def test_every_path_in_the_install_commands_exists() -> None:
    text = (UNIT.parent / "README.md").read_text()
    named = set(re.findall(r"(?<!/)\b((?:config|systemd)/[\w./-]+|requirements\.lock)", text))
    assert named >= {"systemd/elasticd.service", "config/elasticd.toml", "requirements.lock"}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


SETTINGS = """
state = "state"
[http]
port = 0
[cluster]
type = "simulated"
nodes = [{ name = "node", cpu = 4, memory = "8Gi" }]
workloads = [{ name = "web", replicas = 2, demand = { formula = "0.1" } }]
"""
POLICY = """
interval = 0.2
replicas = { max = 5 }
workload = { namespace = "default", name = "web" }
strategy = [{ type = "hpa" }]
"""


class ServiceManager:
    """What systemd would hear of a daemon: the datagrams it sends, in order."""

    def __init__(self, listener: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._listener = listener
        self.process = process

    def hears(self, wanted: str, within: float = 20.0) -> dict[str, str]:
        """The next message that says this, as variables; those before it are passed over."""
        end = time.monotonic() + within
        heard: list[str] = []
        while (left := end - time.monotonic()) > 0:
            self._listener.settimeout(left)
            try:
                message = self._listener.recv(4096).decode()
            except TimeoutError:
                break
            if wanted in message.splitlines():
                return dict(line.split("=", 1) for line in message.splitlines())
            heard.append(message)
        raise AssertionError(f"{wanted} did not come within {within:g} s, but {heard}")

    def stops(self) -> int:
        """The exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        self.hears("STOPPING=1")
        return self.process.wait(20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with a small simulated cluster and one policy."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "elasticd.toml").write_text(SETTINGS)
    (tmp_path / "policies" / "web.toml").write_text(POLICY)
    return tmp_path


@contextmanager
def started(folder: Path, watchdog: float = 0.3) -> Iterator[ServiceManager]:
    """The daemon as systemd starts it; `watchdog` in seconds."""
    address = folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, (folder / "log").open("wb") as log:
        listener.bind(str(address))
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": f"{watchdog * 1e6:.0f}"}
        command = [str(ELASTICD), "run", "--config", str(folder / "elasticd.toml")]
        with subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log) as process:
            try:
                yield ServiceManager(listener, process)
            finally:
                process.kill()


@pytest.mark.slow
def test_the_daemon_notifies_systemd_when_ready_alive_and_stopping(folder: Path) -> None:
    with started(folder) as systemd:
        assert "1 polic" in systemd.hears("READY=1")["STATUS"]
        for _ in range(5):
            systemd.hears("WATCHDOG=1")
        assert systemd.stops() == 0
    assert "Traceback" not in (folder / "log").read_text()


def test_sighup_reloads_as_type_notify_reload_wants_it(folder: Path) -> None:
    with started(folder) as systemd:
        systemd.hears("READY=1")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        systemd.process.send_signal(signal.SIGHUP)
        reloading = systemd.hears("RELOADING=1")
        # systemd takes only a message that was written after it sent the signal.
        assert before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        systemd.hears("READY=1")
        systemd.hears("WATCHDOG=1")
        assert systemd.stops() == 0


@pytest.mark.slow
def test_reload_that_fails_is_reported_and_the_old_policies_stay(folder: Path) -> None:
    with started(folder) as systemd:
        systemd.hears("READY=1")
        (folder / "policies" / "web.toml").write_text(POLICY.replace("max = 5", "max = 0"))
        systemd.process.send_signal(signal.SIGHUP)
        systemd.hears("RELOADING=1")
        status = systemd.hears("READY=1")["STATUS"]
        assert "replicas.max" in status
        assert "old policies" in status
        assert systemd.stops() == 0


@pytest.mark.slow
def test_a_config_error_exits_with_the_code_preventing_a_restart(folder: Path) -> None:
    (folder / "policies" / "web.toml").write_text(POLICY.replace("max = 5", "max = 0"))
    with started(folder) as systemd:
        assert systemd.process.wait(20) == EXIT_CONFIG
    assert (folder / "log").read_text().count("\n") == 1
