"""Mosquitto, Debian's, on a loopback port of its own: started, stopped, killed and started again.

Knows its configuration file.  It must not know what the messages are for.
"""

import asyncio
import getpass
import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiomqtt
import pytest

from tests.cluster.kubernetes.fake import until
from tests.kube.fetch import find_program
from tests.kube.pki import Certificate
from tests.kube.processes import Program, free_port

DYNAMIC_SECURITY = "/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so"


def program() -> str:
    """Mosquitto's path; without it the test is skipped."""
    found = find_program("mosquitto")
    if found is None:
        pytest.skip("mosquitto is not on this machine: python3 tests/kube/fetch.py")
    return found


class Broker:
    """A broker with a folder of its own. Open it with `async with`."""

    def __init__(self, folder: Path, lines: Sequence[str] = (), *, address: str = "127.0.0.1", port: int = 0) -> None:
        """`lines` are added to its configuration, `address` and `port` are where it listens; 0: on a free one."""
        self.folder, self.address, self.port = folder, address, port or free_port()
        # It would else become the user mosquitto, who may not look into a test's folder.
        self.lines = [f"user {getpass.getuser()}", f"listener {self.port} {address}", *lines]
        settings = folder / f"mosquitto-{self.port}.conf"
        settings.write_text("\n".join(self.lines) + "\n")
        self._program = Program("mosquitto", [program(), "-c", settings], folder / f"mosquitto-{self.port}.log")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start it, and return when it listens."""
        self._program.start()
        await until(self._listens)

    def _listens(self) -> bool:
        self._program.check()
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    async def stop(self) -> None:
        """Stop it in order."""
        await self._program.stop()

    async def kill(self) -> None:
        """End it as a crash would."""
        await self._program.kill()

    @property
    def log(self) -> str:
        """What it has written."""
        return self._program.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._program.pid

    def client(self, **options: Any) -> aiomqtt.Client:
        """A client of it, as a sensor is."""
        return aiomqtt.Client(self.address, self.port, **options)

    async def publish(self, topic: str, payload: object, *, qos: int = 1, retain: bool = False) -> None:
        """Publish one message and leave."""
        said = payload if isinstance(payload, bytes | str) else json.dumps(payload)
        async with self.client() as client:
            await client.publish(topic, said, qos=qos, retain=retain)


OPEN = ("allow_anonymous true",)
"""Whoever comes may publish and subscribe."""


def tls_lines(certificate: Certificate, authority: Certificate) -> list[str]:
    """The lines of a broker that speaks only TLS."""
    return [
        f"cafile {authority.certificate}",
        f"certfile {certificate.certificate}",
        f"keyfile {certificate.key}",
        *OPEN,
    ]


async def password_lines(folder: Path, users: Mapping[str, str]) -> list[str]:
    """The lines of a broker that lets in only these users, by their passwords."""
    path = folder / "passwords"
    path.write_text("".join(f"{user}:{password}\n" for user, password in users.items()))
    hashing = find_program("mosquitto_passwd")
    assert hashing is not None
    await asyncio.to_thread(lambda: subprocess.run([hashing, "-U", path], check=True))
    return ["allow_anonymous false", f"password_file {path}"]


def denying_lines(folder: Path, denied: str) -> list[str]:
    """The lines of a broker that denies everyone to subscribe to a pattern. Its ACL file would hold messages back in
    silence; its plugin for security denies."""
    if not Path(DYNAMIC_SECURITY).exists():
        pytest.skip("mosquitto's plugin for dynamic security is not on this machine")
    acls = [{"acltype": "subscribePattern", "topic": denied, "priority": 9, "allow": False}]
    path = folder / "security.json"
    path.write_text(
        json.dumps(
            {
                "defaultACLAccess": {
                    "publishClientSend": True,
                    "publishClientReceive": True,
                    "subscribe": True,
                    "unsubscribe": True,
                },
                "groups": [{"groupname": "all", "roles": [{"rolename": "all", "priority": 0}]}],
                "roles": [{"rolename": "all", "acls": acls}],
                "anonymousGroup": "all",
            }
        )
    )
    return [f"plugin {DYNAMIC_SECURITY}", f"plugin_opt_config_file {path}", *OPEN]
