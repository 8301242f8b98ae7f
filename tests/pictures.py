"""Takes the pictures of the status page for docs/pictures: `make pictures`.

The demo runs for two and a half minutes and is looked at in a browser; only the move is one that is made up, as a
simulated cluster brings pods back at once. Knows which views there are.
"""

import io
import os
import subprocess
import tempfile
import time
from pathlib import Path

from PIL import Image

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
    show(window, address, (1280, 820), "#/nodes")
    window.until("document.querySelectorAll('.tile').length === 2")
    window.click(".tile")
    window.until("document.querySelector('.panel table')")
    window.run("scrollTo(0, 0)")
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
            time.sleep(BEGIN)
            demo(window, f"http://127.0.0.1:{port}")
    finally:
        daemon.terminate()
        daemon.wait()
    for path in sorted(PICTURES.glob("page-*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
