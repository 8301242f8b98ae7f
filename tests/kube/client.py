"""A small client of the Kubernetes API for tests: raw JSON, by path.

Independent of the daemon's own client on purpose, so that one does not hide the other's mistakes.
It must not know what is tested with it.
"""

import asyncio
import inspect
import json
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, overload

import aiohttp
import yaml

JSON: TypeAlias = Any
Objects: TypeAlias = list[Any]  # Client.list hides the type
T = TypeVar("T")

# Manifests are written for today's servers; an older one has the same object under another name.
OLDER = {"policy/v1": "policy/v1beta1", "autoscaling/v2": "autoscaling/v2beta2"}

PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """An answer of the API server that is not a success."""

    def __init__(self, status: int, body: JSON) -> None:
        self.status = status
        self.body = body
        self.reason: str = body.get("reason", "") if isinstance(body, dict) else ""
        message = body.get("message", body) if isinstance(body, dict) else body
        super().__init__(f"{status} {self.reason}: {message}")


class NotReached(AssertionError):
    """A condition did not come true in time."""


# What a wait takes for "not yet": the server restarts, or the object does not exist so far.
TROUBLE = (ApiError, aiohttp.ClientError, asyncio.TimeoutError, ConnectionError)


@overload
async def wait_until(
    predicate: Callable[[], Awaitable[T]], *, within: float = ..., what: str = ..., every: float = ...
) -> T: ...
@overload
async def wait_until(predicate: Callable[[], T], *, within: float = ..., what: str = ..., every: float = ...) -> T: ...
async def wait_until(predicate: Callable[[], Any], *, within: float = 60.0, what: str = "", every: float = 0.1) -> T:
    """Ask until the answer is true, and give it; NotReached with the last answer after `within` seconds."""
    end = time.monotonic() + within
    while True:
        answer: T | Exception
        try:
            asked = predicate()
            answer = await asked if inspect.isawaitable(asked) else asked
        except TROUBLE as error:
            answer = error
        if answer and not isinstance(answer, Exception):
            return answer
        if time.monotonic() > end:
            condition = what or getattr(predicate, "__name__", repr(predicate))
            raise NotReached(f"{condition}: not within {within} s, is {answer!r}")
        await asyncio.sleep(every)


class Client:
    """One user's session with the API server.  Paths are those of the API, as `/api/v1/nodes`."""

    def __init__(self, server: str, token: str, authority: Path) -> None:
        self.server = server
        self._token = token
        self.tls = ssl.create_default_context(cafile=str(authority))
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}
        self._versions: set[str] | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self.server,
            headers={"Authorization": f"Bearer {self._token}", "User-Agent": "elasticd-tests"},
            connector=aiohttp.TCPConnector(ssl=self.tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: JSON = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> JSON:
        """The decoded answer (text, where it is not JSON); ApiError where it is not 2xx."""
        data = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": content_type}
        async with self._session.request(method, path, data=data, headers=headers, params=params) as response:
            text = await response.text()
            answer = json.loads(text) if "json" in response.content_type else text
            if not response.ok:
                raise ApiError(response.status, answer)
            return answer

    async def get(self, path: str, **params: str) -> JSON:
        """The object at a path."""
        return await self.request("GET", path, params=params)

    async def list(self, path: str, **params: str) -> Objects:
        """The items of a collection, by name; `labelSelector` and `fieldSelector` are parameters."""
        items = (await self.request("GET", path, params=params))["items"] or []
        return sorted(items, key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))

    async def create(self, path: str, body: JSON) -> JSON:
        """The object as created in the collection (or subresource) at the path."""
        return await self.request("POST", path, body=body)

    async def replace(self, path: str, body: JSON) -> JSON:
        """The object as replaced (PUT)."""
        return await self.request("PUT", path, body=body)

    async def patch(self, path: str, body: JSON, kind: str = "merge", **params: str) -> JSON:
        """The object as patched; the kinds are merge, strategic, json and apply."""
        return await self.request("PATCH", path, body=body, params=params, content_type=PATCHES[kind])

    async def delete(self, path: str, grace: int | None = None, uid: str | None = None) -> JSON:
        """Delete an object; grace in seconds."""
        options: JSON = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        return await self.request("DELETE", path, body=options)

    async def serves(self, version: str) -> bool:
        """Whether the server has a version of a group, as `policy/v1`, by discovery."""
        if self._versions is None:
            groups = (await self.get("/apis"))["groups"]
            self._versions = {version["groupVersion"] for group in groups for version in group["versions"]}
        return version in self._versions

    async def as_served(self, manifest: JSON) -> JSON:
        """The manifest in the version that this server serves."""
        older = OLDER.get(manifest["apiVersion"])
        if older and not await self.serves(manifest["apiVersion"]):
            return manifest | {"apiVersion": older}
        return manifest

    async def path_of(self, manifest: JSON, namespace: str | None = None) -> str:
        """The path of the object that a manifest describes, by discovery."""
        manifest = await self.as_served(manifest)
        version, kind = manifest["apiVersion"], manifest["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._kinds:
            for found in (await self.get(root))["resources"]:
                if "/" not in found["name"]:
                    self._kinds[version, found["kind"]] = found["name"], found["namespaced"]
        plural, namespaced = self._kinds[version, kind]
        metadata = manifest["metadata"]
        inside = f"/namespaces/{metadata.get('namespace') or namespace or 'default'}" if namespaced else ""
        return f"{root}{inside}/{plural}/{metadata['name']}"

    async def apply(self, manifests: str | JSON | Iterable[JSON], namespace: str | None = None) -> Objects:
        """Create what YAML text, a manifest or several describe, or merge it into what exists."""
        if isinstance(manifests, str):
            manifests = [document for document in yaml.safe_load_all(manifests) if document]
        elif isinstance(manifests, dict):
            manifests = [manifests]
        return [await self._apply(manifest, namespace) for manifest in manifests]

    async def _apply(self, manifest: JSON, namespace: str | None) -> JSON:
        manifest = await self.as_served(manifest)
        path = await self.path_of(manifest, namespace)
        try:
            return await self.create(path.rpartition("/")[0], manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return await self.patch(path, manifest)

    async def watch(self, path: str, **params: str) -> AsyncGenerator[tuple[str, JSON], None]:
        """Changes as (type, object) until the server closes the watch; ApiError for an ERROR event."""
        forever = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params={"watch": "1", **params}, timeout=forever) as response:
            if not response.ok:
                raise ApiError(response.status, await response.json())
            rest = b""
            # Not by the response's own lines: their length is limited, and an object's is not.
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        raise ApiError(change["object"].get("code", 500), change["object"])
                    yield change["type"], change["object"]

    async def follow(self, path: str, **params: str) -> AsyncGenerator[tuple[str, JSON], None]:
        """List, then watch, for ever and over restarts of the server: ADDED, MODIFIED and DELETED.

        An object that vanished between two watches is DELETED with its metadata alone; one that stayed is
        ADDED again.
        """
        known: dict[str, JSON] = {}
        while True:
            try:
                listing = await self.request("GET", path, params=params)
                now = {item["metadata"]["uid"]: item for item in listing["items"] or []}
                for uid in known.keys() - now.keys():
                    yield "DELETED", {"metadata": known.pop(uid)}
                for uid, item in now.items():
                    known[uid] = item["metadata"]
                    yield "ADDED", item
                version = listing["metadata"]["resourceVersion"]
                async with aclosing(self.watch(path, resourceVersion=version, **params)) as changes:
                    async for kind, item in changes:
                        known[item["metadata"]["uid"]] = item["metadata"]
                        if kind == "DELETED":
                            del known[item["metadata"]["uid"]]
                        yield kind, item
            except TROUBLE:
                await asyncio.sleep(0.2)
