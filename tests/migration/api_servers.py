"""API servers for commands that ask them once: plain HTTP on loopback, in a thread, and the files that name them.

Knows HTTP, kubeconfig and elasticd.toml; what is answered is each test's.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Answers in JSON, and logs nothing."""

    def do_GET(self) -> None:
        self.get()

    def do_PATCH(self) -> None:
        self.patch(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def get(self) -> None:
        """Answer a GET."""
        self.answer(405, {"kind": "Status"})

    def patch(self, body: Any) -> None:
        """Answer a PATCH with this body."""
        self.answer(405, {"kind": "Status"})

    def answer(self, code: int, body: object) -> None:
        if code == 404 and isinstance(body, dict):
            body = {"details": {"name": self.path.partition("?")[0].rpartition("/")[2]}, **body}
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def served(handler: Callable[..., JsonHandler], folder: Path, cluster: str = "") -> Iterator[Path]:
    """An elasticd.toml whose cluster, and whose daemon, is this server; `cluster` has more lines of its [cluster]."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    named = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [named], "contexts": [context],
                  "users": [{"name": "u", "user": {"token": "a-token"}}], "current-context": "x"}  # fmt: skip
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    path = folder / "elasticd.toml"
    path.write_text(
        f'state = "{folder}/state"\npolicies = "{folder}/policies"\n[http]\nport = {server.server_port}\n'
        f'[cluster]\ntype = "kubernetes"\nkubeconfig = "{folder}/kubeconfig"\n{cluster}'
    )
    try:
        yield path
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
