"""The demo with a genuine Mosquitto: a published spike scales the workload at once, as docs/tutorial.md shows."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.daemons import PATIENCE, until
from tests.kube.fetch import find_program
from tests.kube.processes import free_port

DEMO = Path(__file__).resolve().parents[2] / "config" / "demo"
ELASTICD = Path(sys.executable).with_name("elasticd")
MAILER = "shop/Deployment/mailer"
WAVE = "[[0, 15], [20, 110], [65, 15]]"
"""The messages that wait in the simulated cluster."""


class Demo:
    """The demo, running from a copy of its folder, on ports of its own."""

    def __init__(self, folder: Path, broker: int, process: "subprocess.Popen[str]") -> None:
        self.folder, self.broker, self.process = folder, broker, process

    def publish(self, value: float) -> None:
        """As docs/tutorial.md does."""
        publisher = find_program("mosquitto_pub")
        assert publisher is not None
        words = ["-p", str(self.broker), "-t", "sensors/shop/mailer/queue_length", "-m", str(value)]
        subprocess.run([publisher, *words], check=True)

    def explained(self) -> Any:
        """The latest decision about the mailer, and its outcome."""
        done = self._ask("explain", MAILER)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def connected(self) -> bool:
        """Whether it listens to its broker."""
        done = self._ask("sources")
        return done.returncode == 0 and bool(json.loads(done.stdout)[0]["details"]["connected"])

    def _ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(ELASTICD), *words, "--json", "--config", str(self.folder / "elasticd.toml")]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    if find_program("mosquitto") is None or find_program("mosquitto_pub") is None:
        pytest.skip("mosquitto and mosquitto_pub are not on this machine: python3 tests/kube/fetch.py")
    shutil.copytree(DEMO, folder / "demo")
    settings, broker, pages = folder / "demo" / "elasticd.toml", free_port(), free_port()
    text = settings.read_text().replace("18830 #", f"{broker} #").replace("9464", str(pages))
    assert WAVE in text
    text = text.replace(WAVE, "[[0, 15]]")  # on a busy machine its rise could come before the spike
    settings.write_text(text.replace("../../build/demo", str(folder / "state")))
    process = subprocess.Popen(
        ["sh", DEMO / "demo.sh", ELASTICD, settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield Demo(folder / "demo", broker, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


def test_a_published_spike_scales_the_workload_within_a_second(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        until(running.connected)
        until(lambda: running.explained().get("decision", {}).get("verdict") == "keep")
        published = time.time()
        running.publish(155)
        scaled = until(lambda: [one for one in records(tmp_path) if one.get("result") == "done" and one["after"] >= 5])
        assert scaled[0]["at"] - published < 1.0
        (decision,) = [one for one in records(tmp_path) if one.get("id") == scaled[0]["decision"]]
        assert (decision["series"][0]["source"], decision["series"][0]["samples"][0][0]) == ("sensors", 155)


def records(folder: Path) -> list[dict[str, Any]]:
    """What the journal has of the mailer."""
    lines = [line for path in (folder / "state").glob("journal-*") for line in path.read_text().splitlines()]
    return [one for one in map(json.loads, lines) if "mailer" in str(one.get("workload", ""))]


def test_the_demo_ends_with_its_broker(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        until(running.connected)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE) == 0
        with pytest.raises(subprocess.CalledProcessError):
            running.publish(1)
