"""Takes the pictures of the status page for docs/pictures: `make pictures`.

The demo runs for two and a half minutes and is looked at in a browser. Nodes and moves are made up: a simulated cluster
brings pods back at once, and the demo has no node that is overloaded. Knows which views there are.
"""

import io
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal

from PIL import Image

from elasticd.model.listener import PodsWaiting
from elasticd.model.moves import MoveDecision, NodeLevel, Stand
from elasticd.model.reports import Moving, NextMove, NodeReport, PoolReport
from elasticd.model.workload import Ref
from tests.kit.browser import Browser, browser
from tests.kit.sites import moving, site, steady
from tests.kube.processes import free_port

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"

BEGIN = 155
"""Seconds of the demo before the first picture: its day of two minutes has passed, and a rush of the next has come."""

COLOURS = 128


def save(window: Browser, name: str) -> None:
    """Save what is to be seen, with as few colours as it has."""
    PICTURES.mkdir(exist_ok=True)
    picture = Image.open(io.BytesIO(window.picture())).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(PICTURES / f"page-{name}.png", optimize=True)


def show(window: Browser, address: str, size: tuple[int, int], view: str = "", *, dark: bool = False) -> None:
    """Open a view, once the daemon has said something."""
    window.look(*size, dark=dark)
    window.open(f"{address}/{view}")
    window.until("document.getElementById('link').dataset.state === 'live'")


def demo(window: Browser, address: str) -> None:
    """All views that the demo has."""
    checkout = "#/workload/shop/Deployment/checkout?policy=checkout&range=900"
    show(window, address, (1280, 800), checkout)
    window.until("document.querySelectorAll('path.mark').length > 2")
    marks = "[...document.querySelectorAll('.decisions tr[data-verdict=scale] button')]"
    window.run(f"{marks}[1].click()")
    window.until("document.querySelector('.panel .headline')")
    window.look(1280, 1000)
    window.run("scrollTo(0, 0)")
    time.sleep(1)
    save(window, "workload")
    show(window, address, (1280, 720))
    window.until("document.querySelectorAll('.workloads .name a').length === 8")
    time.sleep(4)
    save(window, "overview")
    show(window, address, (1280, 720), dark=True)
    time.sleep(4)
    save(window, "dark")
    show(window, address, (360, 740))
    time.sleep(4)
    save(window, "phone")


LOADS: dict[str, tuple[float, Stand, str]] = {
    "node-1": (0.97, "gives", "cpu 97 %, above 85 %"),
    "node-2": (0.91, "high", "for 1 of 3 looks"),
    "node-3": (0.74, "level", ""),
    "node-4": (0.68, "level", ""),
    "node-5": (0.55, "level", ""),
    "node-6": (0.31, "takes", ""),
    "node-7": (0.18, "takes", ""),
    "node-8": (0.0, "unknown", ""),
}
"""Of the nodes of a pool: the part of their cpu that is used, and how they stand."""


def node(name: str, load: float, stand: Stand, message: str) -> NodeReport:
    """A node of eight cores; `unknown`: nobody knows what it uses."""
    used = {} if stand == "unknown" else {"cpu": 8 * load, "memory": load * 0.6 * 2**35}
    level = NodeLevel(name, stand, ("cpu",) if message else (), message)
    capacity = {"cpu": 8.0, "memory": float(2**35)}
    return NodeReport("batch", name, "ready", 3 + int(20 * load), 110, allocatable=capacity, used=used, level=level)


def next_move(pod: str, target: str, refusal: str = "", message: str = "") -> NextMove:
    """That a pod of the first node should leave it."""
    verdict: Literal["move", "refuse"] = "refuse" if refusal else "move"
    decided = MoveDecision(
        pod, time.time(), "batch", Ref("shop", "Pod", pod, "v1"), "act", verdict, "rebalance", "Overloaded", message,
        node="node-1", target=target, refusal=refusal,
    )  # fmt: skip
    return NextMove(decided)


def nodes(window: Browser) -> None:
    """A pool in which some nodes give pods away and some take them: in the demo none does."""
    moves = (
        next_move("report-7", "node-7", message="cpu 97 % of node-1, above 85 %"),
        next_move("cache-0", "", "Budget", "PodDisruptionBudget cache allows no disruption now"),
    )
    moving_now = Moving(time.time(), time.time() + 20, "1 pod goes, 1 stays (Budget)", moves)
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as shown:
        shown.pools = [PoolReport("batch", "act", tuple(node(name, *load) for name, load in LOADS.items()), moving_now)]
        shown.tell(PodsWaiting("batch", {"NoRoom": 2}))
        show(window, shown.address, (1280, 640), "#/nodes")
        window.until("document.querySelectorAll('.tile').length === 8")
        time.sleep(6)  # the next look at the nodes knows who waits
        save(window, "nodes")


def move(window: Browser) -> None:
    """Moves of each kind, one of them in trouble."""
    with tempfile.TemporaryDirectory() as folder, site(Path(folder), decisions=[steady("web", time.time())]) as shown:
        shown.changes = {
            "moves": (
                moving("report-7", "anew", "its name is taken", fault="another pod has its name", why="Drain"),
                moving("batch-3", "anew", "waiting for a node", why="Overloaded"),
                moving("web-5d9-x2x", "surge", "wait: 4 of 5 pods are ready", why="Overloaded"),
                moving("api-77c-9kq", "evicted", "leaving", why="LabelChanged"),
            )
        }
        show(window, shown.address, (1280, 640), "#/moves")
        window.until("document.querySelectorAll('.move').length === 4")
        save(window, "moves")


def main() -> None:
    """Take all pictures."""
    port = free_port()
    elasticd = ROOT / ".venv" / "bin" / "elasticd"
    environment = {**os.environ, "DEMO_PORT": str(port)}
    daemon = subprocess.Popen(
        ["sh", "config/demo/demo.sh", elasticd], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    try:
        with browser() as window:
            move(window)
            nodes(window)
            time.sleep(BEGIN)
            demo(window, f"http://127.0.0.1:{port}")
    finally:
        daemon.terminate()
        daemon.wait()
    for path in sorted(PICTURES.glob("page-*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
