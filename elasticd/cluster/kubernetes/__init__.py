"""A Kubernetes API server as a Cluster, and the `[cluster]` table that names it.

Only this package knows the wire format. It reads by watching, so that looking things up costs no request; it writes
with preconditions, within a budget, and only while it leads.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from elasticd.base.clock import Clock, ServerTime
from elasticd.base.errors import UNREADABLE, UnavailableError
from elasticd.cluster.kubernetes.access import Access
from elasticd.cluster.kubernetes.cluster import ClusterParts, Description, KubernetesCluster
from elasticd.cluster.kubernetes.lease import Elector, LeaseSettings, Name
from elasticd.cluster.kubernetes.objects import Objects
from elasticd.cluster.kubernetes.session import ApiError, Calls, Request, Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.watch.versions import Rollbacks
from elasticd.cluster.kubernetes.watch.watch import Dependencies
from elasticd.cluster.kubernetes.wire.objects import Version
from elasticd.cluster.kubernetes.write.budget import Budget

__all__ = ["Kubernetes", "KubernetesCluster", "LeaseSettings", "Description", "Calls"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with a pod's service account."""


class Kubernetes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kubernetes", tag_field="type"):
    """The `[cluster]` table for a real cluster. Times in seconds."""

    kubeconfig: Annotated[
        str, Meta(description="path; empty: $KUBECONFIG, a pod's service account, or ~/.kube/config")
    ] = ""
    context: Annotated[str, Meta(description="of the kubeconfig; empty: its current one")] = ""
    namespaces: Annotated[
        tuple[Name, ...], Meta(description="watch only these; none: all of them, which policies with [pool] need")
    ] = ()
    writes_per_second: Annotated[float, Meta(gt=0, le=10_000, description="scales, then Events")] = 200.0
    burst: Annotated[int, Meta(ge=2, le=10_000, description="writes at once after a quiet time")] = 1000
    lease: LeaseSettings = LeaseSettings()
    identity: Annotated[str, Meta(max_length=128, description="in the Lease; empty: host name and chance")] = ""
    request_timeout: Annotated[float, Meta(gt=0, le=600, description="for one answer, or the next part of it")] = 10.0
    watch_silence: Annotated[float, Meta(ge=2, le=3600, description="after which a watch is dead")] = 70.0
    page: Annotated[int, Meta(ge=1, le=10_000, description="objects in one answer to a list")] = 500

    @asynccontextmanager
    async def open(
        self, clock: Clock, calls: Calls | None = None, *, elect: bool = True
    ) -> AsyncIterator[KubernetesCluster]:
        """Connect, and follow the cluster until the context ends.

        `calls` is told of every request: verb, resource, HTTP status (0: no answer) and seconds. Without `elect` no
        Lease is read or written and the cluster always leads, for those who will not act on it. Raises ConfigError
        or UnavailableError when there is no server to connect to; what happens later never raises.
        """
        # Imported only here: it brings kubernetes_asyncio with its 800 modules, a third of the time that `elasticd
        # explain`, `status` and `check` took to start, and these need no API server.
        from elasticd.cluster.kubernetes.credentials import Credentials  # noqa: PLC0415

        credentials = Credentials(self.kubeconfig, self.context)
        failure: Exception | None = None
        async with Session(credentials, self.request_timeout, calls) as session:
            parts = self._parts(session, clock, await _greet(session), elect=elect)
            async with asyncio.TaskGroup() as tasks:
                cluster = KubernetesCluster(parts, tasks)
                try:
                    yield cluster
                except Exception as error:
                    failure = error  # a task group would wrap it, and what failed is no task of it
                finally:
                    await cluster.close()
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[Access]:
        """Ask the API server which rights we have, without watching anything. Raises as `open` does."""
        from elasticd.cluster.kubernetes.credentials import Credentials  # noqa: PLC0415  # as above

        async with Session(Credentials(self.kubeconfig, self.context), self.request_timeout) as session:
            yield Access(session, await _greet(session))

    @asynccontextmanager
    async def objects(self) -> AsyncIterator[Objects]:
        """Read and patch single objects, without watching anything. Raises as `open` does."""
        from elasticd.cluster.kubernetes.credentials import Credentials  # noqa: PLC0415  # as above

        async with Session(Credentials(self.kubeconfig, self.context), self.request_timeout) as session:
            yield Objects(session, await _greet(session))

    def _parts(self, session: Session, clock: Clock, version: str, *, elect: bool) -> ClusterParts:
        identity = self.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"
        lease = msgspec.structs.replace(self.lease, namespace=self.lease.namespace or own_namespace())
        namespaces, silence = tuple(dict.fromkeys(self.namespaces)), self.watch_silence
        return ClusterParts(
            deps=Dependencies(
                session, clock, ServerTime(clock), Discovery(session), namespaces, self.page, silence, Rollbacks(clock)
            ),
            budget=Budget(clock, self.writes_per_second, self.burst),
            elector=Elector(session, clock, lease, identity) if elect and lease.enabled else None,
            identity=identity,
            version=version,
            acts=elect,
            home=lease.namespace,
            lease=f"{lease.namespace}/{lease.name}" if lease.enabled else "",
            patience=self.request_timeout,
        )


def own_namespace() -> str:
    """The namespace of the pod we run in; elasticd outside of one."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return "elasticd"
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or "elasticd"
    except OSError:
        return "elasticd"


async def _greet(session: Session) -> str:
    """The server's version: proof that it is an API server and accepts our credentials."""
    try:
        body = await session.send(Request(verb="get", path="/version", resource="version", bare=True))
        return msgspec.json.decode(body, type=Version).git_version
    except ApiError as error:
        if error.code == 403:  # it may keep its version to itself
            return "unknown"
        if error.code == 401:  # no mistake in a file: who checks tokens for it may not be reached yet
            raise UnavailableError(f"cluster: {session.host} does not accept the credentials: {error}") from error
        raise UnavailableError(f"cluster: {session.host} cannot be reached: {error}") from error
    except UNREADABLE as error:
        raise UnavailableError(f"cluster: {session.host} is no Kubernetes API server") from error
