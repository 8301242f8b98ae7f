"""`elasticd` as its users run it: a process of its own, with its own folder, ports and rights.

Knows the command line and the pages.  It must not know what is tested.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from elasticd.base import shapes
from elasticd.base.errors import EXIT_UNAVAILABLE
from elasticd.journal import misses_segments, read
from elasticd.lab.replay.again import Replay, summary
from elasticd.registry import discover
from elasticd.ui.journaled import latest
from tests.decisions.__main__ import differences
from tests.kube.client import wait_until
from tests.kube.processes import Program, free_port

SETTINGS = """
policies = "policies"
state = "state"
{more}
[http]
port = {port}

[cluster]
type = "kubernetes"
kubeconfig = "{kubeconfig}"
identity = "{identity}"
lease = {{ namespace = "{namespace}", duration = 4, renew = 3, retry = 0.5 }}
{cluster}

[disruption]
{disruption}
"""

ELASTICD = (sys.executable, "-m", "elasticd")


@dataclass
class Running:
    """A daemon that runs, or has run: its folder stays."""

    program: Program
    folder: Path
    port: int

    async def restart(self) -> None:
        """Start it again until its pages answer: as systemd does, also where it ends because a server is not there."""

        async def answers() -> bool:
            if self.program.code == EXIT_UNAVAILABLE:
                self.program.start()
            self.program.check()
            return (await self.page("/healthz"))[0] != 0

        self.program.start()
        await wait_until(answers, what="the daemon that was started again answers", every=0.5)

    def elasticd(self, *arguments: str) -> str:
        """What a command prints that reads this daemon's files."""
        command = [sys.executable, "-m", "elasticd", *arguments, "--config", str(self.folder / "elasticd.toml")]
        environment = {**os.environ, "COLUMNS": "160"}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    def explained(self, workload: str) -> Any:
        """What `elasticd explain --json` prints; nothing before the first decision. Read here, as a process for each
        look would take longer than a daemon's interval, and keep what answers the daemon in this one from doing so."""
        folder = self.folder / "state"
        decision, outcome = latest(folder, workload.split("/"), None) if folder.is_dir() else (None, None)
        return json.loads(shapes.encode({"decision": decision or {}, "outcome": outcome}))

    async def page(self, path: str) -> tuple[int, str]:
        """A page's status and text; status 0 while nobody answers."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError:
            return 0, ""

    async def status(self) -> Any:
        """The status page: whether it leads, and its last decisions."""
        return json.loads((await self.page("/status"))[1])

    async def leads(self) -> bool:
        """Whether it may act."""
        code, text = await self.page("/status")
        return code == 200 and bool(json.loads(text)["leading"])


@asynccontextmanager
async def running(
    folder: Path,
    kubeconfig: Path,
    namespace: str,
    policies: Mapping[str, str],
    more: str = "",
    cluster: str = "",
    disruption: str = "within = 1",
    options: Sequence[str] = ("--decisions",),
    program: Sequence[str] = ELASTICD,
) -> AsyncIterator[Running]:
    """A daemon under these policies (TOML by name), which has read its cluster; ended afterwards. `more` goes at the
    head of elasticd.toml, `cluster` and `disruption` into its tables of these names."""
    (folder / "policies").mkdir(parents=True, exist_ok=True)
    for name, text in policies.items():
        (folder / "policies" / f"{name}.toml").write_text(text)
    port = free_port()
    settings = SETTINGS.format(
        more=more,
        port=port,
        kubeconfig=kubeconfig,
        identity=folder.name,
        namespace=namespace,
        cluster=cluster,
        disruption=disruption,
    )
    (folder / "elasticd.toml").write_text(settings)
    command = [*program, "run", *options, "--config", str(folder / "elasticd.toml")]
    daemon = Running(Program("elasticd", command, folder / "elasticd.log"), folder, port)
    daemon.program.start()
    try:

        async def ready() -> bool:
            daemon.program.check()
            return (await daemon.page("/readyz"))[0] == 200

        await wait_until(ready, what="the daemon is ready")
        yield daemon
        daemon.program.check()
    finally:
        await daemon.program.stop()
    await asyncio.to_thread(check_replay, folder / "state")


def check_replay(state: Path) -> None:
    """All decisions of a daemon's journal come out the same when they are made again."""
    replay = Replay(discover(), dropped=misses_segments(state))
    found = summary(replay.all(read(state)) if state.is_dir() else ())
    pairs = [(one.first.decision, one.first.made) for one in found.differences]
    was, made = ([shapes.encode(pair[side]).decode() for pair in pairs] for side in (0, 1))
    assert [*differences(was, made)] == []
