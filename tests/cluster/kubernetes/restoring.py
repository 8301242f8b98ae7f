"""A scripted server that keeps a pod and the record of its eviction, and a daemon that makes the pod anew."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from aiohttp import web

from elasticd.base.clock import Clock
from elasticd.cluster.kubernetes.restore.namespaces import Namespaces
from elasticd.cluster.kubernetes.restore.owners import Owners
from elasticd.cluster.kubernetes.restore.records import Records, Restoration
from elasticd.cluster.kubernetes.restore.restorer import Restorer
from elasticd.cluster.kubernetes.restore.seal import seal_of
from elasticd.cluster.kubernetes.restore.steps import RestorerParts
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.model.actions import Announce, Evict
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, Say, drop, status
from tests.cluster.kubernetes.test_evict import served
from tests.cluster.kubernetes.writing import pod_writer

PODS = "/api/v1/namespaces/shop/pods"
POD = f"{PODS}/batch"
NAMESPACES = "/api/v1/namespaces"
RECORDS = "/api/v1/namespaces/home/configmaps"
RECORD = f"{RECORDS}/elasticd-restore-u"
SECRETS = "/api/v1/namespaces/home/secrets"
SECRET = f"{SECRETS}/elasticd-restore-key"
KEY = bytes(range(32))
ACTION = Evict(Ref("shop", "Pod", "batch", "v1"), "u", "n1", "is preempted", restore=True)
SPEC = {"schedulerName": "elasticd", "restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "i"}]}
NAME = "elasticd-restore-u"
COPY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "batch", "namespace": "shop", "annotations": {"elasticd.io/restored-from": "u"}},
    "spec": SPEC,
}
TAKEN = status(409, "AlreadyExists", "it exists")
NONE = status(404, "NotFound", "none")


def running(uid: str = "u", **meta: Any) -> dict[str, Any]:
    """The pod, on its node."""
    named = {"name": "batch", "namespace": "shop", "uid": uid, "labels": {"app": "batch"}, **meta}
    named.setdefault("resourceVersion", "7")
    return {"metadata": named, "spec": {**SPEC, "nodeName": "n1"}}


def data(**changed: str) -> dict[str, str]:
    """What a record of the pod says."""
    now = f"{datetime.fromtimestamp(time.time(), UTC):%Y-%m-%dT%H:%M:%SZ}"
    restoration = Restoration(ACTION.workload, "u", json.dumps(COPY), "one", why="is preempted", since="7", written=now)
    return {**restoration.data(), **changed}


def record(
    said: Mapping[str, str], name: str = NAME, key: bytes = KEY, namespace: str = "home", **patched: str
) -> dict[str, Any]:
    """A ConfigMap with a seal of that key, for that namespace, patched afterwards."""
    sealed = {**said, "seal": seal_of(key, namespace, name, said), **patched}
    return {"metadata": {"name": name, "labels": {"elasticd.io/restore": "pod"}}, "data": sealed}


class Server:
    """A scripted server that keeps the pod and its record. Each write and read is a step; a fault may be set for one.

    An evicted pod ends after it was read twice, and one that was recreated runs after it was read twice.
    """

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.pod: dict[str, Any] | None = running()
        self.records: dict[str, Any] = {}
        self.namespace: str | None = "ns-1"
        """Its UID; None: it is gone."""
        self.secret: dict[str, Any] | None = {"data": {"key": base64.b64encode(KEY).decode()}}
        self.ahead = 0.0
        """Seconds by which its clock is ahead."""
        self.steps: list[str] = []
        self.created: list[dict[str, Any]] = []
        self.evictions = self.written = self.priority = 0
        self.admit: Callable[[dict[str, Any]], dict[str, Any]] = lambda spec: spec
        """What admission makes of a spec."""
        self.retired = frozenset[str]()
        """Names that admission refuses."""
        self.fault: Callable[[int, str], str] = lambda step, what: ""
        """For each step: empty, or lost, undone, killed before or killed after it was carried out."""
        self.killed = asyncio.Event()
        self.fate: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda copy: copy
        """What becomes of a copy that has not run, each time that it is read; None: it is gone."""
        self.remembers = True
        """Whether it still knows what has become of pods."""
        self._history: list[dict[str, Any]] = []
        self.reads_left = self.waits = 2
        api.on("GET", "/api/v1", served("v1"))
        for method, path, do in (
            ("GET", POD, self._read),
            ("GET", NAMESPACES, self._list_namespaces),
            ("WATCH", PODS, self.remember),
            ("POST", PODS, self.create),
            ("PATCH", f"{POD}/status", self._annotate),
            ("POST", f"{POD}/eviction", self.evict),
            ("POST", RECORDS, self.write_record),
            ("GET", RECORDS, lambda: {"kind": "ConfigMapList", "items": list(self.records.values())}),
            ("GET", RECORD, lambda: self.records.get("elasticd-restore-u") or NONE),
            ("PATCH", RECORD, self._note),
            ("DELETE", RECORD, self.forget),
            ("GET", SECRET, lambda: self.secret or NONE),
            ("POST", SECRETS, self._write_secret),
        ):
            api.on(method, path, self.step(do))

    def step(self, do: Callable[[], Any]) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            what = f"{request.method} {request.path.rpartition('/')[2]}"
            if request.query.get("dryRun"):
                what += " dry"
            if request.query.get("watch"):
                what = "WATCH pods"
            self.steps.append(what)
            fault = self.fault(len(self.steps) - 1, what)
            reply = None if fault in ("undone", "killed before") else do()
            if fault.startswith("killed"):
                self.killed.set()
                await asyncio.Event().wait()
            if fault in ("undone", "lost"):
                return await drop(request)
            said = reply if isinstance(reply, Say) else Say(200, reply)
            if isinstance(said.body, bytes):
                return web.Response(body=said.body, content_type="application/json")
            return web.json_response(said.body, status=said.code)

        return handle

    def _read(self) -> Any:
        if self.pod is not None and "deletionTimestamp" in self.pod["metadata"]:
            self.reads_left -= 1
            if self.reads_left < 0:
                self.pod = None
        if self.pod is not None and self.pod["metadata"]["uid"].startswith("new"):
            self.waits -= 1
            if self.waits < 0:
                self.pod["status"] = {"phase": "Running"}
            elif (after := self.fate(self.pod)) is None:
                self.take_away()
            else:
                self.pod = after
        return self.pod or NONE

    def _list_namespaces(self) -> Any:
        uids = {"home": "ns-0", "shop": self.namespace}
        only = self.api.seen[-1].query.get("fieldSelector", "").removeprefix("metadata.name=")
        found = [{"metadata": {"name": n, "uid": uid}} for n, uid in uids.items() if uid and only in ("", n)]
        return {"kind": "NamespaceList", "items": found}

    def take_away(self) -> None:
        """The pod is deleted."""
        if self.pod is not None:
            self._history.append({"type": "DELETED", "object": self.pod})
        self.pod = None

    def show(self, pod: dict[str, Any]) -> None:
        """A watch shows the pod."""
        self._history.append({"type": "ADDED", "object": pod})

    def remember(self) -> Any:
        if not self.remembers:
            return status(410, "Expired", "too old resource version")
        return Say(200, b"".join(msgspec.json.encode(one) + b"\n" for one in self._history))

    def create(self) -> Any:
        seen = self.api.seen[-1]
        body = {**seen.body, "spec": self.admit({"priority": self.priority, **seen.body["spec"]})}
        name = body["metadata"].get("name")
        if name in self.retired:
            return status(422, "Invalid", f"denied request: {name} is retired")
        if self.pod is not None and name == self.pod["metadata"]["name"]:
            return TAKEN
        if seen.query.get("dryRun") == "All":
            return body
        self.created.append(seen.body)
        meta = {"uid": f"new-{len(self.created)}", "resourceVersion": "9"}
        self.pod = {**seen.body, "metadata": {**seen.body["metadata"], **meta}}
        return self.pod

    def _annotate(self) -> Any:
        meta = self.api.seen[-1].body["metadata"]
        if self.pod is None or self.pod["metadata"]["uid"] != meta["uid"]:
            return status(409, "Conflict", "UID in precondition")
        annotations = {**self.pod["metadata"].get("annotations", {}), **meta["annotations"]}
        version = str(int(self.pod["metadata"]["resourceVersion"]) + 1)
        self.pod["metadata"] |= {"annotations": annotations, "resourceVersion": version}
        return self.pod

    def evict(self) -> Any:
        options = (self.api.seen[-1].body or {}).get("deleteOptions", {})
        named = options.get("preconditions", {"uid": "u"})
        uid = named["uid"]
        if self.pod is None or self.pod["metadata"]["uid"] != uid:
            return status(409, "Conflict", "UID in precondition")
        if (
            named.get("resourceVersion", self.pod["metadata"]["resourceVersion"])
            != self.pod["metadata"]["resourceVersion"]
        ):
            return status(409, "Conflict", "resourceVersion in precondition")
        if uid != "u":
            self.take_away()
            return {"kind": "Status", "status": "Success"}
        self.evictions += 1
        self.pod = running(deletionTimestamp="2026-01-01T00:00:00Z")
        return {"kind": "Status", "status": "Success"}

    def write_record(self) -> Any:
        """Create a ConfigMap, as the request says."""
        body = self.api.seen[-1].body
        if body["metadata"]["name"] in self.records:
            return TAKEN
        return self.record(body)

    def record(self, body: dict[str, Any]) -> dict[str, Any]:
        """Keep a ConfigMap that somebody creates."""
        self.written += 1
        created = datetime.now(UTC) + timedelta(seconds=self.ahead)
        given = {"uid": f"record-{self.written}", "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
        given["resourceVersion"] = "101"
        record = {**body, "metadata": {**body["metadata"], **given}}
        self.records[body["metadata"]["name"]] = record
        return record

    def _write_secret(self) -> Any:
        if self.secret is not None:
            return TAKEN
        self.secret = self.api.seen[-1].body
        return self.secret

    def _note(self) -> Any:
        if "elasticd-restore-u" not in self.records:
            return NONE
        kept, body = self.records["elasticd-restore-u"], self.api.seen[-1].body
        if body["metadata"].get("uid", kept["metadata"]["uid"]) != kept["metadata"]["uid"]:
            return status(422, "Invalid", "metadata.uid: field is immutable")
        kept["data"] |= body.get("data", {})
        meta = kept["metadata"]
        meta["resourceVersion"] = str(int(meta.get("resourceVersion", "100")) + 1)
        return kept

    def forget(self) -> Any:
        found = self.records.get("elasticd-restore-u")
        if found is None:
            return NONE
        named = self.api.seen[-1].body["preconditions"]
        if named["uid"] != found["metadata"]["uid"]:
            return status(409, "Conflict", "UID in precondition")
        version = found["metadata"].get("resourceVersion", "")
        if named.get("resourceVersion", version) != version:
            return status(409, "Conflict", "resourceVersion in precondition")
        return self.records.pop("elasticd-restore-u")

    def made_anew(self) -> bool:
        """The pod was recreated, as it was, and nothing is left to do."""
        return self.made(1)

    def made(self, times: int) -> bool:
        """The same, where the pod was created so often until it ran."""
        if self.pod is None or self.records or self.pod["metadata"]["uid"] != f"new-{times}":
            return False
        noted = self.pod["metadata"]["annotations"]
        runs = self.pod.get("status", {}).get("phase") == "Running"
        same = self.pod["spec"] == SPEC and noted["elasticd.io/restored-from"] == "u"
        return runs and same and len(self.created) == times

    def untouched(self) -> bool:
        """The pod is as it was, at most with a note that it stays, and nothing is left to do."""
        if self.pod is None or self.records:
            return False
        kept = {
            key: text for key, text in self.pod["metadata"].items() if key not in ("annotations", "resourceVersion")
        }
        return {**self.pod, "metadata": {**kept, "resourceVersion": "7"}} == running()


@asynccontextmanager
async def daemon(
    session: Session,
    clock: Clock,
    *,
    resumes: bool = False,
    identity: str = "one",
    leads: Callable[[], bool] = lambda: True,
    announce: Callable[[Announce], None] = lambda _: None,
    stores: tuple[PodStore, NodeStore] | None = None,
    lease: str = "",
    budget: Budget | None = None,
    judged: float = 1000,  # hurried seconds
    rolled_back: bool = False,
) -> AsyncIterator[Restorer]:
    """A daemon, until it stops or is killed."""
    budget = budget or Budget(clock, 10_000, 1000)
    discovery = Discovery(session)
    writer = pod_writer(session, clock, budget, judged)
    records = Records(session, "home", time.time)
    pods, nodes = stores or (PodStore(), NodeStore())
    parts = RestorerParts(
        session,
        budget,
        clock,
        records,
        writer,
        Namespaces(session, "home"),
        Owners(session, discovery),
        pods,
        nodes,
        leads,
        announce,
        identity,
        quiet=4.0,
        lease=lease,
        rolled_back=lambda: rolled_back,
    )
    restorer = Restorer(parts)
    task = asyncio.create_task(restorer.run()) if resumes else None
    try:
        yield restorer
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await restorer.close()


def granted() -> None:
    """It may be written."""


def seen(times: int) -> Callable[[Server], bool]:
    """The record notes so many copies."""
    return lambda server: server.records["elasticd-restore-u"]["data"].get("made") == f"new-{times}"
