"""A genuine Kubernetes control plane on loopback: etcd, API server, controller manager and scheduler.

Knows these programs' flags and readiness.  It must not know of nodes, metrics or what is tested.
"""

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import yaml

from tests.kube import fetch, pki
from tests.kube.client import JSON, Client, wait_until
from tests.kube.processes import Program, free_port

MASTERS = "system:masters"
# Who may be asked for with kubeconfig(); the second has no rights but those that a test grants.
USERS: Mapping[str, Sequence[str]] = {"admin": (MASTERS,), "elasticd": ()}
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"

_AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
"""


class NoControlPlane(Exception):
    """A program that is asked for is not on this machine; the message says how to get it."""


@dataclass(frozen=True)
class HpaTiming:
    """Flags of the genuine HPA controller with their defaults, in seconds; the tolerance is a ratio."""

    sync_period: float = 15
    downscale_stabilization: float = 300
    cpu_initialization_period: float = 300
    initial_readiness_delay: float = 30
    tolerance: float = 0.1

    def flags(self) -> list[str]:
        """The flags of kube-controller-manager."""
        named = "--horizontal-pod-autoscaler-"
        return [
            f"{named}sync-period={self.sync_period}s",
            f"{named}downscale-stabilization={self.downscale_stabilization}s",
            f"{named}cpu-initialization-period={self.cpu_initialization_period}s",
            f"{named}initial-readiness-delay={self.initial_readiness_delay}s",
            f"{named}tolerance={self.tolerance}",
        ]


@dataclass(frozen=True)
class ExtraFlags:
    """Further flags for each program, as `--feature-gates=...`; a later flag overrides an earlier one."""

    apiserver: Sequence[str] = ()
    controller_manager: Sequence[str] = ()
    scheduler: Sequence[str] = ()


@dataclass
class ControlPlane:
    """A control plane for as long as its `async with` lasts; everything it writes is under the folder."""

    folder: Path
    controllers: bool = True
    scheduler: bool = True
    hpa: HpaTiming = HpaTiming()
    users: Mapping[str, Sequence[str]] = field(default_factory=lambda: USERS)
    extra: ExtraFlags = ExtraFlags()

    async def __aenter__(self) -> Self:
        self._programs: dict[str, Program] = {}
        self._find_binaries()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.authority = pki.make_authority(self.folder)
        self._certificate = pki.make_server_certificate(self.folder, "server", self.authority)
        self._account_key = pki.make_key(self.folder / "service-account.key")
        self.port = free_port()
        self._write_files()
        try:
            await self._start_all()
        except BaseException:
            await self._stop_all()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # A program that died is why a test failed, and is to be told even where the test noticed nothing.
            self.check()
        finally:
            await self._stop_all()

    @property
    def server(self) -> str:
        """The address of the API server."""
        return f"https://127.0.0.1:{self.port}"

    def check(self) -> None:
        """Raise ProgramDied if one of the programs has ended by itself."""
        for program in self._programs.values():
            program.check()

    def program(self, name: str) -> Program:
        """One of the programs, by the name of its binary."""
        return self._programs[name]

    def token(self, user: str) -> str:
        """The bearer token of a declared user."""
        if user not in self._users:
            raise KeyError(f"no user {user!r}: declare it in ControlPlane(users=...); has {', '.join(self._users)}")
        return f"token-of-{user.replace(':', '-')}"

    def client(self, user: str = "admin", token: str | None = None) -> Client:
        """A test client of the API server; of anyone, with a token."""
        return Client(self.server, token or self.token(user), self.authority.certificate)

    def kubeconfig(self, user: str = "admin", token: str | None = None) -> Path:
        """A kubeconfig file of a declared user; or of any name with a token, as a service account's."""
        credentials = {"token": token or self.token(user)}
        cluster = {"server": self.server, "certificate-authority": str(self.authority.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user}}],
            "current-context": "tests",
        }
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON record a write, at level Metadata, a moment after its answer."""
        return self.folder / "audit.log"

    def audit(self) -> Iterator[JSON]:
        """The records of the audit log, in order; then those of each further API server."""
        for path in (self.audit_log, *sorted(self.folder.glob("audit-*.log"))):
            yield from _records(path)

    @asynccontextmanager
    async def further_apiservers(self, count: int) -> AsyncIterator[list["ApiServer"]]:
        """So many more API servers on the same etcd, each with a port and an audit log of its own."""
        servers = [self._further_apiserver(f"{number}") for number in range(1, count + 1)]
        try:
            await asyncio.gather(*(self.wait_for_apiserver(server.port) for server in servers))
            yield servers
            self.check()
        finally:
            for server in servers:
                await server.program.stop()

    def _further_apiserver(self, number: str) -> "ApiServer":
        port = free_port()
        flags = self._apiserver_flags(port, self.folder / f"audit-{number}.log")
        return ApiServer(self, self._launch(self._binaries.apiserver, flags, f"kube-apiserver-{number}"), port)

    @property
    def apiserver(self) -> "ApiServer":
        """The first API server."""
        return ApiServer(self, self._programs["kube-apiserver"], self.port)

    async def stop_apiserver(self) -> None:
        """End the API server; etcd and the others stay."""
        await self.apiserver.program.stop()

    async def start_apiserver(self) -> None:
        """Start the API server again, on the same port, and wait until it is ready."""
        await self.apiserver.start()

    async def restart_apiserver(self) -> None:
        """End the API server and start it again."""
        await self.stop_apiserver()
        await self.start_apiserver()

    async def compact(self) -> None:
        """Let etcd forget all versions but the present ones."""
        async with aiohttp.ClientSession(self._etcd) as session:
            async with session.post("/v3/kv/range", json={"key": "AA=="}) as found:
                revision = (await found.json())["header"]["revision"]
            asked = {"revision": revision, "physical": True}
            async with session.post("/v3/kv/compaction", json=asked) as done:
                done.raise_for_status()

    def back_up(self) -> None:
        """Copy what etcd keeps, which is suspended meanwhile."""
        etcd = self._programs["etcd"]
        etcd.signal(signal.SIGSTOP)
        shutil.copytree(self.folder / "etcd", self.folder / "backup")
        etcd.signal(signal.SIGCONT)

    async def restore(self, *, forgotten: bool = False) -> None:
        """Put back what etcd kept at the time of the backup: it and the API server are killed for that, and start.

        `forgotten`: the API server goes on, as where people restore etcd alone.
        """
        if not forgotten:
            await self._programs["kube-apiserver"].kill()
        await self._programs["etcd"].kill()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(self.folder / "backup", self.folder / "etcd")
        self._programs["etcd"].start()
        if not forgotten:
            await self.start_apiserver()

    @contextmanager
    def controllers_suspended(self) -> Iterator[None]:
        """The controller manager stands still for as long as the block runs."""
        self._programs["kube-controller-manager"].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._programs["kube-controller-manager"].signal(signal.SIGCONT)

    async def restart_controllers(self, hpa: HpaTiming) -> None:
        """Start the controller manager anew, with another timing of the HPA controller."""
        await self._programs["kube-controller-manager"].stop()
        self.hpa = hpa
        await self._start_controllers()

    def _find_binaries(self) -> None:
        found = fetch.locate()
        if found is None:
            raise NoControlPlane(f"no kube-apiserver and etcd in {fetch.assets_folder()}; get them: {fetch.HOW_TO_GET}")
        for wanted, path in ((self.controllers, found.controller_manager), (self.scheduler, found.scheduler)):
            if wanted and path is None:
                raise NoControlPlane(
                    f"no kube-controller-manager or kube-scheduler in {fetch.assets_folder()}; "
                    f"without KUBEBUILDER_ASSETS they are got by: {fetch.HOW_TO_GET}"
                )
        self._binaries = found

    def _write_files(self) -> None:
        self._users = {**self.users, CONTROLLER_MANAGER: (MASTERS,), SCHEDULER: (MASTERS,)}
        lines = [f'{self.token(user)},{user},{user},"{",".join(groups)}"' for user, groups in self._users.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "audit-policy.yaml").write_text(_AUDIT_POLICY)

    def _launch(self, binary: Path, flags: Sequence[str | Path], name: str = "") -> Program:
        name = name or binary.name
        program = Program(name, [binary, *flags], self.folder / f"{name}.log")
        self._programs[name] = program
        program.start()
        return program

    async def _start_all(self) -> None:
        self.version = await asyncio.to_thread(fetch.version_of, self._binaries.apiserver)
        # Until 1.23 the controller manager and the scheduler also served plain HTTP, on ports of their own.
        self._no_plain_http = ["--port=0"] if self.version < (1, 24) else []
        await self._start_etcd()
        self._launch(self._binaries.apiserver, self._apiserver_flags(self.port, self.audit_log))
        await self.wait_for_apiserver(self.port)
        starts = [self._start_controllers()] if self.controllers else []
        starts += [self._start_scheduler()] if self.scheduler else []
        await asyncio.gather(*starts)

    async def _start_etcd(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        self._etcd = f"http://127.0.0.1:{free_port()}"
        # No wait: the API server is not ready before etcd is.
        self._launch(
            self._binaries.etcd,
            [
                f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", "--logger=zap", "--log-level=warn",
                f"--listen-client-urls={self._etcd}", f"--advertise-client-urls={self._etcd}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
        )  # fmt: skip

    def _tls_flags(self) -> list[str]:
        certificate = self._certificate
        return [f"--tls-cert-file={certificate.certificate}", f"--tls-private-key-file={certificate.key}"]

    def _apiserver_flags(self, port: int, audit_log: Path) -> list[str]:
        return [
            f"--etcd-servers={self._etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}",
            *self._tls_flags(), "--endpoint-reconciler-type=none",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-key-file={self._account_key}",
            f"--service-account-signing-key-file={self._account_key}",
            f"--service-account-issuer={self.server}", "--allow-privileged=true",
            f"--audit-policy-file={self.folder / 'audit-policy.yaml'}", f"--audit-log-path={audit_log}",
            # One file, however long the tests are, for audit() to read.
            "--audit-log-maxsize=4096", *self.extra.apiserver,
        ]  # fmt: skip

    async def wait_for_apiserver(self, port: int) -> None:
        """Wait until the API server on a port is ready, and has made its namespaces, which it does a moment later."""
        async with Client(f"https://127.0.0.1:{port}", self.token("admin"), self.authority.certificate) as client:
            for path in ("/readyz", "/api/v1/namespaces/default"):
                await self._wait_for(client, path)

    async def _wait_for(self, client: Client, path: str) -> None:
        async def ready() -> bool:
            self.check()
            return bool(await client.get(path))

        await wait_until(ready, what=f"{client.server}{path} answers")

    async def _start_controllers(self) -> None:
        await self._start_client_of_apiserver(
            self._binaries.controller_manager,
            CONTROLLER_MANAGER,
            [
                # No kubelet sends heartbeats here.
                "--controllers=*,-nodelifecycle", f"--service-account-private-key-file={self._account_key}",
                f"--root-ca-file={self.authority.certificate}", "--kube-api-qps=500", "--kube-api-burst=1000",
                *self.hpa.flags(), *self.extra.controller_manager,
            ],
        )  # fmt: skip

    async def _start_scheduler(self) -> None:
        flags = ["--kube-api-qps=500", "--kube-api-burst=1000", *self.extra.scheduler]
        await self._start_client_of_apiserver(self._binaries.scheduler, SCHEDULER, flags)

    async def _start_client_of_apiserver(self, binary: Path | None, user: str, flags: Sequence[str]) -> None:
        assert binary is not None
        port = free_port()
        address = [
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            *self._tls_flags(),
            *self._no_plain_http,
        ]
        config = f"--kubeconfig={self.kubeconfig(user)}"
        self._launch(binary, [config, "--leader-elect=false", *address, *flags])
        async with Client(f"https://127.0.0.1:{port}", "", self.authority.certificate) as client:
            await self._wait_for(client, "/healthz")

    async def _stop_all(self) -> None:
        # Clients before servers, or their last seconds are full of errors.
        for program in reversed(self._programs.values()):
            await program.stop()


@dataclass(frozen=True)
class ApiServer:
    """One API server of a control plane."""

    plane: ControlPlane
    program: Program
    port: int

    async def start(self) -> None:
        """Start it again, on the same port, and wait until it is ready."""
        self.program.start()
        await self.plane.wait_for_apiserver(self.port)


def _records(log: Path) -> Iterator[JSON]:
    """The records of one audit log."""
    with log.open() as lines:
        for line in lines:
            if not line.endswith("\n"):  # half written; what comes next would be its other half
                return
            yield json.loads(line)
