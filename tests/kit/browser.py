"""A headless Chromium, driven through ChromeDriver by the WebDriver protocol.

Knows a page as a person does: what is shown, what has the focus, keys, the width of the window; knows nothing of what
the page is for.
"""

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kube.processes import free_port

# What Chromium does of itself, such as looking for updates, has no place in a test.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip

KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "ArrowDown": "\ue015", "ArrowUp": "\ue013",
        "ArrowLeft": "\ue012", "ArrowRight": "\ue014", "End": "\ue010"}  # fmt: skip

PATIENCE = 15.0
"""Seconds to wait for something to be shown. Only a failing test waits that long."""


class BrowserError(Exception):
    """What ChromeDriver says is wrong."""


class Browser:
    """One window."""

    def __init__(self, driver: str, session: str) -> None:
        self._url = f"{driver}/session/{session}"

    def open(self, address: str) -> None:
        """Load a page anew, also where only what follows its # differs."""
        self._post("url", url="about:blank")
        self._post("url", url=address)

    def run(self, script: str, *arguments: object) -> Any:
        """The value that a script returns; it has `arguments`."""
        return self._post("execute/sync", script=script, args=list(arguments))

    def until(self, condition: str, *arguments: object) -> Any:
        """Wait until an expression is true in the page, and give its value."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(f"return {condition}", *arguments)):
            assert time.monotonic() < end, f"{condition} does not come true in\n{self.text()}"
            time.sleep(0.05)
        return value

    def text(self, selector: str = "main") -> str:
        """The text that an element shows; empty: there is none."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def press(self, *keys: str) -> None:
        """Press keys, one after another: a character, or a name of KEYS."""
        codes = [KEYS.get(key, key) for key in keys]
        actions = [{"type": kind, "value": code} for code in codes for kind in ("keyDown", "keyUp")]
        self._post("actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def click(self, selector: str) -> None:
        """Click on an element, once it is there."""
        self.until("document.querySelector(arguments[0]) !== null", selector)
        (element,) = self._post("element", using="css selector", value=selector).values()
        self._post(f"element/{element}/click")

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the page, and whether its reader likes it dark."""
        self._cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._cdp("Emulation.setEmulatedMedia", features=[scheme])

    def errors(self) -> list[str]:
        """What the browser has complained about since it was last asked: scripts, and what its policy forbade."""
        entries = self._post("se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def picture(self) -> bytes:
        """A PNG of what is to be seen."""
        return base64.b64decode(self._request("GET", "screenshot"))

    def _cdp(self, command: str, **params: object) -> None:
        self._post("goog/cdp/execute", cmd=command, params=params)

    def _post(self, command: str, **content: object) -> Any:
        return self._request("POST", command, content)

    def _request(self, method: str, command: str, content: object = None) -> Any:
        return ask(f"{self._url}/{command}", method, content)


def ask(url: str, method: str, content: object = None) -> Any:
    """One command of the WebDriver protocol."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        value = json.load(error)["value"]
        raise BrowserError(f"{value['error']}: {value['message']}") from None


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, for as long as the block runs."""
    driver = shutil.which("chromedriver")
    assert driver is not None, "chromedriver must be installed: PYTHONPATH=. python tests/kube/fetch.py"
    port = free_port()
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory(prefix="elasticd-browser-", ignore_cleanup_errors=True) as profile:
            address = f"http://127.0.0.1:{port}"
            _await(address)
            options = {"args": [*FLAGS, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            session = ask(f"{address}/session", "POST", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            try:
                yield Browser(address, session)
            finally:
                ask(f"{address}/session/{session}", "DELETE")
    finally:
        process.terminate()
        process.wait()


def _await(address: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            ask(f"{address}/status", "GET")
            return
        except OSError:
            assert time.monotonic() < end, "chromedriver does not answer"
            time.sleep(0.05)


def save(folder: Path, name: str, window: Browser) -> Path:
    """Save what is to be seen as a PNG."""
    path = folder / f"{name}.png"
    path.write_bytes(window.picture())
    return path
