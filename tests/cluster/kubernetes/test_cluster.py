"""The cluster as the daemon sees it, from opening to closing."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.base.clock import WallClock
from elasticd.base.errors import UnavailableError
from elasticd.base.tasks import cancel
from elasticd.cluster.dry_run import DryRun
from elasticd.cluster.kubernetes import Kubernetes, KubernetesCluster, LeaseSettings
from elasticd.cluster.kubernetes import cluster as cluster_module
from elasticd.cluster.kubernetes.lease import DISRUPTED, HOLDER
from elasticd.cluster.kubernetes.watch.discovery import honours_deletion_costs
from elasticd.kit.handover import STOPPED, UNREAD
from elasticd.model.actions import Action, Announce, Answer, Bind, BindClaim, Mark, Scale
from elasticd.model.policy import MOST
from elasticd.model.workload import Ref
from elasticd.ports.cluster import LEFT_ALONE, Cluster, Kind, scales_of
from tests.cluster.kubernetes.fake import (
    APPS,
    DEPLOYMENTS,
    PODS,
    Anchored,
    FakeApi,
    Feed,
    Say,
    hang,
    page,
    pod,
    scale,
    status,
    until,
    write_kubeconfig,
)
from tests.cluster.kubernetes.test_evict import ACTION as EVICT
from tests.cluster.kubernetes.test_evict import POD as EVICTED
from tests.cluster.kubernetes.test_evict import VIOLATES, found, served
from tests.cluster.kubernetes.test_lease import LEASE, LeaseServer

KINDS: frozenset[Kind] = frozenset({("apps/v1", "Deployment")})
REF = Ref("shop", "Deployment", "web")
SCALE = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
EVENTS = "/api/v1/namespaces/shop/events"
ALONE = LeaseSettings(enabled=False)

Open = Callable[..., AbstractAsyncContextManager[KubernetesCluster]]


def deployment(version: int = 5, replicas: int = 3, **spec: Any) -> dict[str, Any]:
    """The Deployment shop/web."""
    meta = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": str(version)}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"metadata": meta, "spec": wanted, "status": {"replicas": replicas}}


@pytest.fixture
def feeds(api: FakeApi) -> dict[str, Feed]:
    """A cluster with two pods, one node and a Deployment; the feeds of the watches."""
    api.on("GET", PODS, page(pod("a"), pod("b")))
    node = {"metadata": {"name": "n1", "uid": "n"}}
    api.on("GET", "/api/v1/nodes", page(node))
    api.on("GET", DEPLOYMENTS, page(deployment()))
    api.on("POST", EVENTS, {})
    return {path: api.feed(path) for path in (PODS, "/api/v1/nodes", DEPLOYMENTS)}


@pytest.fixture
def open_cluster(api: FakeApi, tmp_path: Path) -> Open:
    """Opens the fake cluster with options."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[KubernetesCluster]:
        table = Kubernetes(
            kubeconfig=write_kubeconfig(tmp_path, api.url), **{"lease": ALONE, "identity": "me", **options}
        )
        async with table.open(WallClock()) as cluster:
            yield cluster

    return opened


@pytest.mark.usefixtures("feeds")
async def test_observation_shows_workloads_their_pods_and_the_nodes(open_cluster: Open) -> None:
    async with open_cluster() as opened:
        cluster: Cluster = opened
        snapshot = await cluster.observe(0.0, KINDS)
        (workload,) = snapshot.workloads()
        assert snapshot.workload(REF) is workload
        assert [one.name for one in snapshot.pods(workload)] == ["a", "b"]
        assert snapshot.pods(workload) is snapshot.pods(workload)
        assert [node.name for node in snapshot.nodes()] == ["n1"]
        assert snapshot.confirmed > 0
        assert snapshot.confirmed_for(REF) > 0
        assert snapshot.version == 1
        assert cluster.leading


async def test_snapshot_follows_the_watch(open_cluster: Open, feeds: dict[str, Feed]) -> None:
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        feeds[DEPLOYMENTS].push("MODIFIED", deployment(6, replicas=4))
        await until(lambda: snapshot.workload(REF).replicas == 4)  # type: ignore[union-attr]
        feeds[DEPLOYMENTS].push("DELETED", deployment(7))
        await until(lambda: snapshot.workload(REF) is None)
        assert await cluster.observe(0.0, KINDS) is snapshot


@pytest.mark.usefixtures("feeds")
async def test_only_the_first_observation_of_a_kind_waits(api: FakeApi, open_cluster: Open) -> None:
    api.on("GET", DEPLOYMENTS, status(503, "Down", "down"))
    async with open_cluster(request_timeout=0.2) as cluster:
        began = asyncio.get_running_loop().time()
        snapshot = await cluster.observe(0.0, KINDS)
        waited = asyncio.get_running_loop().time()
        for _ in range(100):
            await cluster.observe(0.0, KINDS)
        assert waited - began >= 0.2
        assert asyncio.get_running_loop().time() - waited < 0.1
        assert snapshot.confirmed_for(REF) == 0.0
        assert cluster.problems() == {("apps/v1", "Deployment"): "503 Down: down"}


@pytest.mark.usefixtures("feeds")
async def test_kind_that_no_policy_names_any_more_is_forgotten(open_cluster: Open) -> None:
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        assert await cluster.observe(0.0, frozenset()) is snapshot
        assert snapshot.workloads() == ()
        assert len((await cluster.observe(0.0, KINDS)).workloads()) == 1


@pytest.mark.usefixtures("feeds")
async def test_unknown_kind_is_a_problem_and_the_others_stay_confirmed(open_cluster: Open) -> None:
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS | {("apps/v1", "Deploymant"), ("v1", "Pod")})
        assert snapshot.confirmed > 0
        assert snapshot.confirmed_for(REF) > 0
        assert snapshot.confirmed_for(Ref("shop", "Deploymant", "web")) == 0.0
        assert sorted(cluster.problems()) == [("apps/v1", "Deploymant"), ("v1", "Pod")]


@pytest.mark.usefixtures("feeds")
async def test_an_unreadable_scale_is_no_problem_of_its_kind(api: FakeApi, open_cluster: Open) -> None:
    """Whoever creates such an object would keep each daemon that stands by from being ready."""
    gadgets = {"name": "gadgets", "kind": "Gadget", "namespaced": True}
    api.on("GET", "/apis/example.com/v1", {"resources": [gadgets, {**gadgets, "name": "gadgets/scale"}]})
    api.on("GET", "/apis/example.com/v1/gadgets", page(pod("web")))
    api.feed("/apis/example.com/v1/gadgets")
    api.on("GET", "/apis/example.com/v1/namespaces/shop/gadgets/web/scale", status(500, "InternalError", "no path"))
    kind = ("example.com/v1", "Gadget")
    async with open_cluster() as cluster:
        await cluster.observe(0.0, KINDS | {kind})
        told = "the scale of shop/web cannot be read: 500 InternalError: no path"
        assert cluster.problems() == {scales_of(kind): told}


@pytest.mark.usefixtures("feeds")
async def test_trouble_with_one_kind_leaves_the_other_kinds_confirmed(api: FakeApi, open_cluster: Open) -> None:
    down = status(503, "Down", "down")
    for path in ("/api/v1/nodes", "/apis/apps/v1/statefulsets", "/apis/example.com/v1"):
        api.on("GET", path, down)
    served = {"name": "statefulsets", "kind": "StatefulSet", "namespaced": True}
    both = [*APPS["resources"], served, {**served, "name": "statefulsets/scale"}]
    api.on("GET", "/apis/apps/v1", {**APPS, "resources": both})
    others = {("apps/v1", "StatefulSet"), ("example.com/v1", "Gadget")}
    async with open_cluster(request_timeout=0.2) as cluster:
        snapshot = await cluster.observe(0.0, KINDS | others)
        assert sorted(cluster.problems()) == [*sorted(others), ("v1", "Node")]
        assert snapshot.confirmed_for(REF) > 0
        for api_version, kind in others:
            assert snapshot.confirmed_for(Ref("shop", kind, "web", api_version)) == 0.0
        assert snapshot.confirmed_for(Ref("shop", "ReplicaSet", "web")) == 0.0  # nobody asked for it


async def test_pods_that_are_refused_later_are_not_seen_as_none(
    api: FakeApi, open_cluster: Open, feeds: dict[str, Feed]
) -> None:
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        (workload,) = snapshot.workloads()
        await until(lambda: feeds[PODS].opened)
        refused = status(403, "Forbidden", "no right")
        api.on("GET", PODS, refused)
        api.on("WATCH", PODS, refused)
        feeds[PODS].write(b'{"type":"ERROR","object":{"code":410}}\n')
        await until(cluster.problems)
        last = snapshot.confirmed_for(REF)
        feeds[DEPLOYMENTS].push("MODIFIED", deployment(6))
        await until(lambda: snapshot.workload(REF) is not workload)
        assert len(snapshot.pods(workload)) == 2
        assert snapshot.confirmed_for(REF) == snapshot.confirmed == last


@pytest.mark.usefixtures("feeds")
async def test_times_of_pods_are_those_of_the_clock(api: FakeApi, tmp_path: Path) -> None:
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    api.on("GET", PODS, page({**pod("a"), "status": status}))
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=ALONE)
    async with table.open(Anchored()) as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        (one,) = snapshot.pods(next(iter(snapshot.workloads())))
        assert one.started == 1_767_225_600 + 3600


@pytest.mark.parametrize(
    "selector", [{}, {"matchExpressions": [{"key": "a", "operator": "Near"}]}], ids=["empty", "unreadable"]
)
@pytest.mark.usefixtures("feeds")
async def test_selector_at_fault_selects_no_pods_and_says_why(
    api: FakeApi, open_cluster: Open, selector: dict[str, Any]
) -> None:
    api.on("GET", DEPLOYMENTS, page(deployment(selector=selector)))
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        (workload,) = snapshot.workloads()
        assert snapshot.pods(workload) == ()
        assert "must" in snapshot.selector_fault(workload)


@pytest.mark.usefixtures("feeds")
async def test_own_write_is_known_before_the_watch_tells_of_it(api: FakeApi, open_cluster: Open) -> None:
    api.on("PATCH", SCALE, scale(6, version="9"))
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        assert await cluster.act(Scale(REF, "u", "5", 3, 6, "busy")) == Answer("done", 200)
        workload = snapshot.workload(REF)
        assert workload is not None
        assert (workload.replicas, workload.version) == (6, "9")
        await until(lambda: api.asked("POST", EVENTS))
    assert api.asked("POST", EVENTS)[0].body["reason"] == "SuccessfulRescale"


@pytest.mark.usefixtures("feeds")
async def test_own_mark_is_known_before_the_watch_tells_of_it(api: FakeApi, open_cluster: Open) -> None:
    api.on("PATCH", "/apis/apps/v1/namespaces/shop/deployments/web", {})
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        before = snapshot.workload(REF)
        assert before is not None
        assert (await cluster.act(Mark(REF, before.uid, {"a": "1"}))).result == "done"
        assert snapshot.workload(REF) == replace(before, annotations={**before.annotations, "a": "1"})
        assert (await cluster.act(Mark(REF, "another", {"b": "1"}))).result == "done"
        assert "b" not in snapshot.workload(REF).annotations  # type: ignore[union-attr]


async def test_event_that_is_older_than_our_write_is_not_believed(
    api: FakeApi, open_cluster: Open, feeds: dict[str, Feed]
) -> None:
    api.on("PATCH", SCALE, scale(6, version="9"))
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        await cluster.act(Scale(REF, "u", "5", 3, 6, "busy"))
        feeds[DEPLOYMENTS].push("MODIFIED", deployment(8, replicas=3))
        feeds[PODS].push("ADDED", pod("c", 2))
        other = deployment(10)
        other["metadata"]["name"] = "later"
        feeds[DEPLOYMENTS].push("ADDED", other)
        await until(lambda: snapshot.workload(Ref("shop", "Deployment", "later")))
        assert snapshot.workload(REF).replicas == 6  # type: ignore[union-attr]


@pytest.mark.usefixtures("feeds")
async def test_announcement_is_an_event(api: FakeApi, open_cluster: Open) -> None:
    async with open_cluster() as cluster:
        assert (await cluster.act(Announce(REF, "u", "Hello", "there"))).result == "done"
    assert api.asked("POST", EVENTS)[0].body["reason"] == "Hello"


@pytest.mark.usefixtures("feeds")
async def test_who_does_not_lead_does_nothing(api: FakeApi, open_cluster: Open) -> None:
    held = LeaseServer(api)
    meta = {"name": "elasticd", "namespace": "home"}
    held.write({"metadata": meta, "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}})
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await cluster.observe(0.0, KINDS)
        await until(lambda: cluster.describe().leader == "other")
        refused = Answer("refused", message="not the leader", reason="NotLeader")
        assert await cluster.act(Scale(REF, "u", "5", 3, 6, "")) == refused
        assert await cluster.act(Announce(REF, "u", "Hello", "there")) == refused
        assert not cluster.leading
    assert not [seen for seen in api.seen if seen.method in ("PATCH", "POST", "PUT")]


@pytest.mark.usefixtures("feeds")
async def test_leader_releases_its_lease_when_it_closes(api: FakeApi, open_cluster: Open) -> None:
    server = LeaseServer(api)
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await until(lambda: cluster.leading)
        assert cluster.describe().leader == "me"
        assert server.spec["holderIdentity"] == "me"
    assert "holderIdentity" not in server.spec


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize(
    ("reply", "noted"),
    [
        pytest.param({"kind": "Status", "status": "Success"}, True, id="done"),
        pytest.param(status(500, "InternalError", "boom"), True, id="perhaps done"),
        pytest.param(status(429, "TooManyRequests", VIOLATES), False, id="refused"),
    ],
)
async def test_the_lease_tells_when_a_pod_was_last_evicted(
    api: FakeApi, open_cluster: Open, reply: dict[str, Any] | Say, noted: bool
) -> None:
    server, before_us = LeaseServer(api), {HOLDER: "me 5.000", DISRUPTED: "me 5.000"}
    server.write({"metadata": {"name": "elasticd", "annotations": before_us}, "spec": {}})
    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", EVICTED, found())
    api.on("POST", f"{EVICTED}/eviction", reply)
    api.on("PATCH", f"{EVICTED}/status", found())
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await until(lambda: cluster.leading)
        before = time.time()
        await cluster.act(EVICT)
        assert (cluster.last_disruption >= before - 1) is noted
    assert server.annotations[DISRUPTED] == f"me {cluster.last_disruption:.3f}"


@pytest.mark.usefixtures("feeds")
async def test_the_lease_tells_of_the_first_eviction_before(api: FakeApi, open_cluster: Open) -> None:
    server, told = LeaseServer(api), list[str]()

    async def evict(_: web.Request) -> web.StreamResponse:
        told.extend(server.annotations)
        return web.json_response({"kind": "Status", "status": "Success"})

    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", EVICTED, found())
    api.on("POST", f"{EVICTED}/eviction", evict)
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await until(lambda: cluster.leading)
        assert DISRUPTED not in server.annotations
        await cluster.act(EVICT)
    assert DISRUPTED in told


async def test_no_pod_goes_whose_node_changes_beside_the_lease(
    api: FakeApi, feeds: dict[str, Feed], open_cluster: Open
) -> None:
    server, cordoned = LeaseServer(api), asyncio.Event()
    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", EVICTED, found())
    api.on("POST", f"{EVICTED}/eviction", {"kind": "Status", "status": "Success"})

    async def update(request: web.Request) -> web.StreamResponse:
        meta = {"name": "n1", "uid": "n", "resourceVersion": "2"}
        feeds["/api/v1/nodes"].push("MODIFIED", {"metadata": meta, "spec": {"unschedulable": True}})
        await cordoned.wait()
        return await server.update(request)

    api.on("PUT", LEASE, update)
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await until(lambda: cluster.leading)
        await cluster.observe(0.0, KINDS)
        cluster.on_change(cordoned.set)
        answer = await cluster.act(replace(EVICT, node="n1"))
    assert (answer.result, answer.reason) == ("refused", "Outdated")
    assert not api.asked("POST", f"{EVICTED}/eviction")


DELETED_AT = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("there", "stays"),
    [
        pytest.param(found(), True, id="it stays"),
        pytest.param(found(deletionTimestamp=DELETED_AT), False, id="it terminates"),
        pytest.param(status(404, "NotFound"), False, id="it is gone"),
        pytest.param(status(500, "InternalError"), False, id="the server does not say"),
    ],
)
async def test_an_evicted_pod_that_no_event_shows_is_asked_for(
    api: FakeApi,
    open_cluster: Open,
    feeds: dict[str, Feed],
    there: Any,
    stays: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A webhook has made a dry run of the eviction, or the watch is late: what comes of it now was true before."""
    monkeypatch.setattr("elasticd.cluster.kubernetes.watch.store.REPORTED", 0.05)
    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", EVICTED, found())
    api.on("GET", PODS, page(on_node("web", 7)))
    api.on("POST", f"{EVICTED}/eviction", {"kind": "Status", "status": "Success"})
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert (await cluster.act(replace(EVICT, node="n1"))).result == "done"
        assert [one.deleted for one in snapshot.on_nodes()["n1"]] == [True]
        api.on("GET", EVICTED, there)
        asked = len(api.asked("GET", EVICTED))
        feeds[PODS].push("MODIFIED", on_node("web", 8))

        async def is_settled() -> bool:
            await cluster.observe(0.0, frozenset())
            leaves = [one.deleted for one in snapshot.on_nodes()["n1"]]
            return len(api.asked("GET", EVICTED)) > asked and leaves == [not stays]

        before = time.monotonic()
        while not await is_settled():
            assert time.monotonic() - before < 10
            await asyncio.sleep(0.01)
    assert ("is there as before" in caplog.text) is stays


async def test_the_lease_tells_of_an_eviction_that_was_cut_off(api: FakeApi, open_cluster: Open) -> None:
    server = LeaseServer(api)
    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", EVICTED, found())
    api.on("GET", "/api/v1/nodes", page())
    api.on("POST", f"{EVICTED}/eviction", hang)
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await until(lambda: cluster.leading)
        eviction = asyncio.create_task(cluster.act(EVICT))
        await until(lambda: api.asked("POST", f"{EVICTED}/eviction"))
        await cancel(eviction)
    assert server.lease is not None
    assert server.lease["metadata"]["annotations"][DISRUPTED] == f"me {cluster.last_disruption:.3f}"


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize(
    ("uid", "holder"),
    [pytest.param("u", "me", id="it may come late"), pytest.param("x", None, id="its pod is gone")],
)
async def test_a_lease_runs_out_where_an_eviction_may_come_late(
    api: FakeApi, open_cluster: Open, uid: str, holder: str | None
) -> None:
    server = LeaseServer(api)
    there = pod("web")
    api.on("GET", PODS, page({**there, "metadata": {**there["metadata"], "uid": uid}}))
    api.on("GET", "/api/v1", served("v1"))
    api.on("GET", EVICTED, found())
    api.on("POST", f"{EVICTED}/eviction", hang)
    async with open_cluster(lease=LeaseSettings(namespace="home")) as cluster:
        await cluster.observe(0.0, KINDS)
        await until(lambda: cluster.leading)
        eviction = asyncio.create_task(cluster.act(EVICT))
        await until(lambda: api.asked("POST", f"{EVICTED}/eviction"))
        await cancel(eviction)
    assert server.spec.get("holderIdentity") == holder


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize(
    ("after", "replies", "result", "changed"),
    [
        pytest.param(2, [pod("a")], "refused", 2, id="they are changed first"),
        pytest.param(2, [status(403, "Forbidden", "no")], "done", 1, id="they may not be changed"),
        pytest.param(2, [status(503, "Down", "down"), pod("a")], "refused", 1, id="the server is in trouble"),
        pytest.param(2, [status(429, "TooManyRequests", "busy"), pod("a")], "refused", 1, id="it is busy"),
        pytest.param(4, [pod("a")], "done", 0, id="a scale-out"),
    ],
)
async def test_a_scale_in_waits_until_no_eviction_may_come_late(
    api: FakeApi, open_cluster: Open, after: int, replies: list[Any], result: str, changed: int
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
    owned = [pod(name) for name in "ab"]
    for each in owned:
        each["metadata"]["ownerReferences"] = [owner]
        api.on("PATCH", f"{PODS.replace('/pods', '/namespaces/shop/pods')}/{each['metadata']['name']}/status", *replies)
    api.on("GET", PODS, page(*owned))
    api.on("PATCH", SCALE, scale(after))
    died = {"metadata": {"name": "elasticd", "annotations": {DISRUPTED: "other 5.000"}}}
    LeaseServer(api).write({**died, "spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}})
    async with open_cluster(lease=LeaseSettings(namespace="home", retry=0.1)) as cluster:
        await cluster.observe(0.0, KINDS)
        await until(lambda: cluster.leading)
        action = Scale(REF, "u", "5", 3, after, "")
        assert (await cluster.act(action)).result == result
        assert len([seen for seen in api.seen if seen.method == "PATCH" and "/pods/" in seen.path]) == changed
        results = [(await cluster.act(action)).result for _ in range(3)]
        assert results[-1] == "done"


@pytest.mark.usefixtures("feeds")
async def test_without_election_it_leads_and_touches_no_lease(api: FakeApi, tmp_path: Path) -> None:
    LeaseServer(api)
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url))
    async with table.open(WallClock(), elect=False) as cluster:
        assert cluster.leading
        await cluster.observe(0.0, KINDS)
    assert not [seen for seen in api.seen if "/leases" in seen.path]


@pytest.mark.usefixtures("feeds")
async def test_description_says_what_a_status_page_shows(open_cluster: Open, api: FakeApi) -> None:
    async with open_cluster() as cluster:
        await cluster.observe(0.0, KINDS)
        found = cluster.describe()
        assert (found.server, found.version, found.identity, found.leading) == (api.url, "v1.2.3", "me", True)
        assert (found.problems, found.skipped, found.events_dropped) == ({}, 0, 0)


@pytest.mark.usefixtures("feeds")
async def test_a_write_that_must_wait_is_a_problem(open_cluster: Open, api: FakeApi) -> None:
    api.on("PATCH", SCALE, Say(429, {"message": "busy"}, {"Retry-After": "86400"}))
    async with open_cluster() as cluster:
        await cluster.observe(0.0, KINDS)
        await cluster.act(Scale(REF, "u", "5", 3, 6, "busy"))
        (problem,) = cluster.describe().problems.items()
    assert problem[0] == "writes"
    assert problem[1].startswith("the server asked not to repeat patch /apis/apps/v1/namespaces/shop/deployments/web/")


@pytest.mark.usefixtures("feeds")
async def test_identity_is_made_when_opened_and_never_the_same(open_cluster: Open) -> None:
    async with open_cluster(identity="") as one, open_cluster(identity="") as two:
        assert one.describe().identity != two.describe().identity


@pytest.mark.usefixtures("feeds")
async def test_usage_tells_trouble_and_does_not_raise_it(open_cluster: Open) -> None:
    async with open_cluster() as cluster:
        assert "metrics.k8s.io" in (await cluster.usage(1.0)).error
        assert "metrics.k8s.io" in (await cluster.node_usage(1.0)).error


async def test_api_that_goes_away_stops_confirming_and_raises_nothing(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.on("GET", PODS, page())
        api.on("GET", "/api/v1/nodes", page())
        for path in (PODS, "/api/v1/nodes"):
            api.feed(path)
        table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=ALONE)
        opened = table.open(WallClock())
        cluster = await opened.__aenter__()
        snapshot = await cluster.observe(0.0, frozenset())
        await until(lambda: len([seen for seen in api.seen if seen.method == "WATCH"]) == 2)
    last = snapshot.confirmed
    await until(lambda: len(cluster.problems()) == 2)
    assert await cluster.observe(0.0, frozenset()) is snapshot
    assert snapshot.confirmed == last > 0
    assert (await cluster.act(Scale(REF, "u", "5", 3, 6, ""))).result == "failed"
    assert (await cluster.usage(0.0)).error
    await opened.__aexit__(None, None, None)


async def test_unreachable_server_is_one_line_at_the_start(tmp_path: Path) -> None:
    async with FakeApi() as api:
        path = write_kubeconfig(tmp_path, api.url)
    with pytest.raises(UnavailableError, match=r"^cluster: http://127.0.0.1:\d+ cannot be reached: ") as caught:
        async with Kubernetes(kubeconfig=path).open(WallClock()):
            pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        pytest.param(status(401, "Unauthorized", "who?"), "does not accept the credentials: 401", id="401"),
        pytest.param(Say(401, b"<html>no</html>"), "does not accept the credentials: 401", id="a page with 401"),
        pytest.param(status(503, "Down", "down"), "503 Down: down", id="503"),
        pytest.param(b"<html>", "is no Kubernetes API server", id="another server"),
    ],
)
async def test_unusable_server_is_reported_in_one_line_at_start(
    api: FakeApi, open_cluster: Open, answer: Any, line: str
) -> None:
    """Each may pass by itself: who checks tokens for the API server may not be reached yet."""
    api.on("GET", "/version", answer)
    with pytest.raises(UnavailableError, match=rf"^cluster: http://\S+ .*{line}"):
        async with open_cluster():
            pass


@pytest.mark.usefixtures("feeds")
async def test_server_that_refuses_to_tell_its_version_is_used(api: FakeApi, open_cluster: Open) -> None:
    api.on("GET", "/version", status(403))
    async with open_cluster() as cluster:
        assert cluster.describe().version == "unknown"


@pytest.mark.usefixtures("feeds")
async def test_error_of_the_caller_comes_out_as_it_is(open_cluster: Open) -> None:
    with pytest.raises(ValueError, match=r"^mine$"):
        async with open_cluster():
            raise ValueError("mine")


@pytest.mark.usefixtures("feeds")
async def test_cancelled_caller_is_cancelled_and_everything_ends(open_cluster: Open) -> None:
    entered = asyncio.Event()

    async def use() -> None:
        async with open_cluster():
            entered.set()
            await asyncio.Event().wait()

    before = asyncio.all_tasks()
    task = asyncio.create_task(use())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = [one for one in asyncio.all_tasks() - before if "elasticd" in repr(one)]
    assert left == []


AUTOSCALING = "/apis/autoscaling/v2"
HPAS = f"{AUTOSCALING}/horizontalpodautoscalers"


def serve_autoscaling(api: FakeApi) -> Feed:
    """One HPA, on shop/web, in the version that the server prefers."""
    api.on("GET", "/apis/autoscaling", {"name": "autoscaling", "preferredVersion": {"groupVersion": "autoscaling/v2"}})
    kind = {"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler", "namespaced": True}
    api.on("GET", AUTOSCALING, {"groupVersion": "autoscaling/v2", "resources": [kind]})
    api.on("GET", HPAS, page(hpa()))
    return api.feed(HPAS)


def hpa(version: int = 1, target: str = "web") -> dict[str, Any]:
    meta = {"name": "theirs", "namespace": "shop", "resourceVersion": str(version)}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {"metadata": meta, "spec": {"scaleTargetRef": reference, "maxReplicas": 9}}


@pytest.mark.usefixtures("feeds")
async def test_snapshot_names_the_hpa_of_a_workload_from_the_start(api: FakeApi, open_cluster: Open) -> None:
    feed = serve_autoscaling(api)
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        assert snapshot.autoscaler(REF) == "HorizontalPodAutoscaler theirs"
        feed.push("MODIFIED", hpa(2, "api"))
        await until(lambda: snapshot.autoscaler(REF) == "")
        feed.push("MODIFIED", hpa(3))
        await until(lambda: snapshot.autoscaler(REF))
        feed.push("DELETED", hpa(4))
        await until(lambda: snapshot.autoscaler(REF) == "")
        assert cluster.problems() == {}


@pytest.mark.usefixtures("feeds")
async def test_missing_autoscaling_api_is_no_problem_but_a_403_is(api: FakeApi, open_cluster: Open) -> None:
    async with open_cluster() as cluster:
        assert (await cluster.observe(0.0, KINDS)).autoscaler(REF) == ""
        assert cluster.problems() == {}
    serve_autoscaling(api)
    api.on("GET", HPAS, status(403, "Forbidden", "not for you"))
    async with open_cluster() as cluster:
        assert (await cluster.observe(0.0, KINDS)).autoscaler(REF) == ""
        assert cluster.problems() == {("autoscaling", "HorizontalPodAutoscaler"): "not for you"}


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize(
    ("listed", "served", "seen"),
    [
        pytest.param(["v3", "v2"], "v2", "HorizontalPodAutoscaler theirs", id="another that is listed"),
        pytest.param(["v3"], "v2", "HorizontalPodAutoscaler theirs", id="one that is not listed"),
        pytest.param(["v3"], "v2beta1", UNREAD, id="none that is known"),
    ],
)
async def test_hpas_are_found_in_a_version_that_is_served(
    api: FakeApi, open_cluster: Open, listed: list[str], served: str, seen: str
) -> None:
    """While API servers are upgraded, an older one lists what only a newer one serves."""
    serve_autoscaling(api)
    versions = [{"groupVersion": f"autoscaling/{version}"} for version in listed]
    api.on("GET", "/apis/autoscaling", {"name": "autoscaling", "preferredVersion": versions[0], "versions": versions})
    for version in {*listed, "v2", "v2beta2", "v1"} - {served}:
        api.on("GET", f"/apis/autoscaling/{version}", status(404, "NotFound", "404 page not found"))
    async with open_cluster(request_timeout=0.2) as cluster:
        assert (await cluster.observe(0.0, KINDS)).autoscaler(REF) == seen
        told = cluster.problems().get(("autoscaling", "HorizontalPodAutoscaler"), "")
    assert ("lists autoscaling/v3, and does not serve it" in told) == (seen == UNREAD)


@pytest.mark.usefixtures("feeds")
async def test_hpas_that_cannot_be_listed_yet_may_scale_it(api: FakeApi, open_cluster: Open) -> None:
    serve_autoscaling(api)
    api.on("GET", HPAS, status(500, "InternalError", "boom"))
    async with open_cluster(request_timeout=0.2) as cluster:
        assert (await cluster.observe(0.0, KINDS)).autoscaler(REF) == UNREAD


@pytest.mark.usefixtures("feeds")
async def test_who_begins_to_lead_reads_the_hpas_anew(api: FakeApi, open_cluster: Open) -> None:
    """The watch of the standby is late: it does not tell of the HPA that was restored while another led."""
    serve_autoscaling(api)
    api.on("GET", HPAS, page())
    server = LeaseServer(api)
    lease = LeaseSettings(namespace="home", duration=1, renew=0.5, retry=0.1)
    async with open_cluster(lease=lease) as cluster:
        await until(lambda: cluster.leading)
        assert (await cluster.observe(0.0, KINDS)).autoscaler(REF) == ""
        server.steal("another")
        await until(lambda: not cluster.leading)
        api.on("GET", HPAS, page(hpa()))
        assert (await cluster.observe(0.0, KINDS)).autoscaler(REF) == ""
        await until(lambda: cluster.leading)
        assert cluster.snapshot.autoscaler(REF) == UNREAD
        snapshot = await cluster.observe(0.0, KINDS)
        assert snapshot.autoscaler(REF) == "HorizontalPodAutoscaler theirs"


@pytest.mark.parametrize("kind", ["Deployment", "deployment"])
@pytest.mark.usefixtures("feeds")
async def test_what_a_takeover_stopped_is_told_while_it_is_known(api: FakeApi, open_cluster: Open, kind: str) -> None:
    """As is an HPA of a kind that no policy names, but none of a workload that is gone."""
    serve_autoscaling(api)
    hpas = [stopped("a", kind, "web"), stopped("b", "StatefulSet", "db"), stopped("c", kind, "gone")]
    api.on("GET", HPAS, page(*hpas))
    server = LeaseServer(api)
    lease = LeaseSettings(namespace="home", duration=1, renew=0.5, retry=0.1)
    async with open_cluster(lease=lease) as cluster:
        await until(lambda: cluster.leading)
        snapshot = await cluster.observe(0.0, KINDS)
        assert sorted(snapshot.stopped_by_takeover()) == ["shop/Deployment/web", "shop/StatefulSet/db"]
        server.steal("another")
        await until(lambda: not cluster.leading)
        await until(lambda: cluster.leading)
        assert snapshot.stopped_by_takeover() == []


def stopped(name: str, kind: str, workload: str) -> dict[str, Any]:
    """An HPA as a takeover leaves it."""
    meta = {"name": name, "namespace": "shop", "resourceVersion": "1", "annotations": {STOPPED: "{}"}}
    disabled = {"selectPolicy": "Disabled"}
    target = {"apiVersion": "apps/v1", "kind": kind, "name": workload}
    behavior = {"scaleUp": disabled, "scaleDown": disabled}
    return {"metadata": meta, "spec": {"scaleTargetRef": target, "maxReplicas": MOST, "behavior": behavior}}


async def test_snapshot_shows_what_pods_leave_of_the_nodes(
    api: FakeApi, open_cluster: Open, feeds: dict[str, Feed]
) -> None:
    node = {"metadata": {"name": "n1", "uid": "n"}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}
    api.on("GET", "/api/v1/nodes", page(node))
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        (room,) = snapshot.rooms()
        assert (room.node.name, room.free) == ("n1", {"cpu": 2.0, "pods": 10.0})
        assert snapshot.rooms() is snapshot.rooms()
        placed = pod("c")
        container = {"name": "main", "resources": {"requests": {"cpu": "500m"}}}
        placed["spec"] = {"nodeName": "n1", "containers": [container]}
        feeds[PODS].push("ADDED", placed)
        await until(lambda: snapshot.rooms()[0].free == {"cpu": 1.5, "pods": 9.0})


def on_node(name: str, version: int) -> dict[str, Any]:
    """The pod that is evicted, as a watch shows it."""
    seen = waiting(name, version, "n1")
    return {**seen, "metadata": {**seen["metadata"], "uid": "u"}}


def waiting(name: str = "w", version: int = 1, node: str = "") -> dict[str, Any]:
    """A pod that waits for elasticd, or is on a node."""
    found = pod(name, version)
    container = {"name": "main", "resources": {"requests": {"cpu": "500m"}}}
    found["spec"] = {"schedulerName": "elasticd", "nodeName": node, "containers": [container]}
    found["status"] = {"phase": "Running" if node else "Pending"}
    return found


BINDING = "/api/v1/namespaces/shop/pods/w/binding"
READY = {"metadata": {"name": "n1", "uid": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


async def test_pod_just_bound_is_on_its_node_despite_older_events(
    api: FakeApi, open_cluster: Open, feeds: dict[str, Feed]
) -> None:
    api.on("GET", "/api/v1/nodes", page(READY))
    api.on("GET", PODS, page(waiting()))
    api.on("POST", BINDING, {})
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        (found,) = snapshot.pending()
        assert (found.needs.scheduler, found.counted) == ("elasticd", {"cpu": 0.5})
        assert await cluster.act(Bind(found.ref, found.uid, "n1")) == Answer("done", 201)
        assert (snapshot.pending(), [one.name for one in snapshot.on_nodes()["n1"]]) == ((), ["w"])
        feeds[PODS].push("MODIFIED", waiting(version=2))
        feeds[PODS].push("ADDED", waiting("later", 3))
        await until(snapshot.pending)
        assert [one.name for one in snapshot.pending()] == ["later"]


CLAIM = BindClaim(Ref("shop", "PersistentVolumeClaim", "c", "v1"), "u", "5", node="n1")


@pytest.mark.parametrize("action", ["bind", "claim", "evict"])
async def test_no_pod_is_bound_by_nodes_from_before_a_restore(
    api: FakeApi, open_cluster: Open, feeds: dict[str, Feed], action: str
) -> None:
    """The list of pods shows that etcd was put back; its second page, and the list of nodes, come later."""
    rest, nodes = asyncio.Event(), asyncio.Event()

    async def later(request: web.Request) -> web.StreamResponse:
        if request.path == PODS and "continue" not in request.query:
            return web.json_response(page(waiting(), version=9, more="rest"))
        await (rest if request.path == PODS else nodes).wait()
        return web.json_response(page(version=9) if request.path == PODS else page(READY, version=9))

    api.on("GET", "/api/v1/nodes", page(READY, version=20), later)
    api.on("GET", PODS, page(waiting(), version=20), later)
    api.on("POST", BINDING, {})
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        (found,) = snapshot.pending()
        bind = Bind(found.ref, found.uid, "n1")
        actions: dict[str, Action] = {"bind": bind, "claim": CLAIM, "evict": EVICT}
        asked = actions[action]
        feeds[PODS].push("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
        await until(lambda: len(api.asked("GET", PODS)) == 3)
        assert (await cluster.act(asked)).reason == "Outdated"
        rest.set()
        await until(lambda: feeds[PODS].opened == 2)
        assert (await cluster.act(asked)).reason == "Outdated"
        feeds["/api/v1/nodes"].push("MODIFIED", READY)
        nodes.set()
        await until(lambda: feeds["/api/v1/nodes"].opened == 2)
        assert (await cluster.act(bind)).result == "done"
    assert [seen.path for seen in api.seen if seen.method == "POST" and "/shop/" in seen.path] == [BINDING]


async def test_a_listener_to_changes_is_told_of_pods_and_nodes(open_cluster: Open, feeds: dict[str, Feed]) -> None:
    async with open_cluster() as cluster:
        await cluster.observe(0.0, frozenset())
        told = list[int]()
        cluster.on_change(lambda: told.append(len(told)))
        feeds[PODS].push("ADDED", waiting())
        await until(lambda: len(told) == 1)
        feeds["/api/v1/nodes"].push("MODIFIED", READY)
        await until(lambda: len(told) == 2)


POLICY = "/apis/policy/v1"
PDBS = f"{POLICY}/poddisruptionbudgets"
PDB = {
    "metadata": {"name": "pdb", "namespace": "shop", "generation": 1, "resourceVersion": "1"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
}


def serve_policy(api: FakeApi) -> None:
    """The server has PodDisruptionBudgets."""
    api.on("GET", "/apis/policy", {"name": "policy", "preferredVersion": {"groupVersion": "policy/v1"}})
    kind = {"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget", "namespaced": True}
    api.on("GET", POLICY, {"groupVersion": "policy/v1", "resources": [kind]})


@pytest.mark.usefixtures("feeds")
async def test_disruption_budgets_are_followed_from_the_first_question_on(api: FakeApi, open_cluster: Open) -> None:
    serve_policy(api)
    api.on("GET", PDBS, page(PDB))
    api.feed(PDBS)
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert api.asked("GET", PDBS) == []
        assert snapshot.budgets() is None
        await cluster.observe(0.0, frozenset())  # waits for the first list
        found = snapshot.budgets()
        assert [(one.name, one.pods, one.allowed) for one in found or ()] == [("pdb", frozenset({"uid-a", "uid-b"}), 1)]


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize("refused", [True, False], ids=["may not be read", "are not served"])
async def test_unreadable_disruption_budgets_are_unknown_and_reported_as_a_problem(
    api: FakeApi, open_cluster: Open, refused: bool
) -> None:
    if refused:
        serve_policy(api)
        api.on("GET", PDBS, status(403, "Forbidden", "not for you"))
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert snapshot.budgets() is None
        await cluster.observe(0.0, frozenset())
        assert snapshot.budgets() is None
        told = "not for you" if refused else "the server does not serve policy"
        assert cluster.problems() == {("policy", "PodDisruptionBudget"): told}


@pytest.mark.usefixtures("feeds")
async def test_hpas_and_budgets_that_are_old_are_unknown(
    api: FakeApi, open_cluster: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could be read once, and not any more: others may have been created since."""
    serve_autoscaling(api)
    serve_policy(api)
    for path in (HPAS, PDBS):
        api.on("GET", path, page(), status(503, "Down", "down"))
        api.on("WATCH", path, status(503, "Down", "down"))
    async with open_cluster() as cluster:
        (await cluster.observe(0.0, KINDS)).budgets()
        snapshot = await cluster.observe(0.0, KINDS)
        assert (snapshot.autoscaler(REF), snapshot.budgets()) == ("", ())
        monkeypatch.setattr(cluster_module, "VIEW_AGE", 0.2)
        await until(lambda: (snapshot.autoscaler(REF), snapshot.budgets()) == (UNREAD, None))


DOWN = status(503, "Down", "down")
NO = status(403, "Forbidden", "not for you")
GONE = status(404, "NotFound", "no such path")


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize(
    ("answers", "was_read", "problem"),
    [
        pytest.param([page(PDB), DOWN], True, "503 Down: down", id="the list fails after it was read"),
        pytest.param([page(PDB), NO], True, "not for you", id="the right was taken away"),
        pytest.param([page(PDB), GONE], True, "no such path", id="it is not served any more"),
        pytest.param([DOWN], False, "503 Down: down", id="it was never read"),
        pytest.param([NO], None, "not for you", id="it might never be read"),
        pytest.param([], False, "the server does not serve policy", id="it should be served"),
    ],
)
async def test_views_tell_since_when_nothing_proved_them(
    api: FakeApi, open_cluster: Open, answers: list[Any], was_read: bool | None, problem: str
) -> None:
    if answers:
        serve_policy(api)
        api.on("GET", PDBS, *answers)
        api.on("WATCH", PDBS, answers[-1])
    budget = ("policy", "PodDisruptionBudget")
    async with open_cluster(request_timeout=0.2) as cluster:
        (await cluster.observe(0.0, KINDS)).budgets()
        asked = {kind: since for kind, since, _ in cluster.views()}[budget]
        await cluster.observe(0.0, KINDS)
        await until(lambda: cluster.problems().get(budget, "").endswith(problem))
        views = {kind: (current, why) for kind, current, why in cluster.views()}
        assert ("autoscaling", "HorizontalPodAutoscaler") not in views  # it is not served, and need not be
        assert {kind for kind, (_, why) in views.items() if not why} == {("v1", "Pod"), ("v1", "Node"), *KINDS}
        assert (budget in views) == (was_read is not None)
        if was_read is not None:
            current, why = views[budget]
            assert why.endswith(problem)
            assert current > asked if was_read else current == asked
            await asyncio.sleep(1.0 if GONE in answers else 0.05)  # then it is looked for again
            assert {kind: since for kind, since, _ in cluster.views()}[budget] == current


@pytest.mark.usefixtures("feeds")
async def test_hpas_forbidden_since_the_former_term_are_unknown(api: FakeApi, open_cluster: Open) -> None:
    serve_autoscaling(api)
    api.on("GET", HPAS, page(hpa()))
    server = LeaseServer(api)
    lease = LeaseSettings(namespace="home", duration=1, renew=0.5, retry=0.1)
    async with open_cluster(lease=lease) as cluster:
        for forbidden in (False, True, True):
            await until(lambda: cluster.leading)
            snapshot = await cluster.observe(0.0, KINDS)
            assert snapshot.autoscaler(REF) == (UNREAD if forbidden else "HorizontalPodAutoscaler theirs")
            api.on("GET", HPAS, status(403, "Forbidden", "no"))
            server.steal("another")
            await until(lambda: not cluster.leading)


async def test_hpas_of_a_namespace_that_is_gone_hold_no_other(
    api: FakeApi, open_cluster: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its RoleBinding went with it, so that its lists are forbidden."""
    serve_autoscaling(api)
    api.on("GET", "/api/v1/nodes", page())
    api.feed("/api/v1/nodes")
    shop, gone = (HPAS.replace("autoscaling/v2/", f"autoscaling/v2/namespaces/{each}/") for each in ("shop", "gone"))
    for path in (PODS, DEPLOYMENTS):
        head, _, plural = path.rpartition("/")
        for each in ("shop", "gone"):
            api.on("GET", f"{head}/namespaces/{each}/{plural}", page())
            api.feed(f"{head}/namespaces/{each}/{plural}")
    api.on("GET", shop, page())
    feed = api.feed(shop)
    api.on("GET", gone, page(), status(403, "Forbidden", "no"))
    api.on("WATCH", gone, status(403, "Forbidden", "no"))
    async with open_cluster(namespaces=("shop", "gone")) as cluster:
        snapshot = await cluster.observe(0.0, KINDS)
        monkeypatch.setattr(cluster_module, "VIEW_AGE", 0.5)
        await until(lambda: snapshot.autoscaler(replace(REF, namespace="gone")) == UNREAD)
        feed.push("BOOKMARK", {"metadata": {"resourceVersion": "10"}})
        await until(lambda: snapshot.autoscaler(REF) == "")


NAMESPACES = "/api/v1/namespaces"
BY_TEAM = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "shop"}}}
APART_BY_TEAM = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [BY_TEAM]}}


async def test_labels_of_namespaces_are_read_once_pods_need_them(
    api: FakeApi, feeds: dict[str, Feed], open_cluster: Open
) -> None:
    shop = {"metadata": {"name": "shop", "resourceVersion": "1", "labels": {"team": "shop"}}}
    api.on("GET", NAMESPACES, page(shop))
    feed = api.feed(NAMESPACES)
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert snapshot.namespaces() is None
        await cluster.observe(0.0, frozenset())
        assert api.asked("GET", NAMESPACES) == []
        pod = waiting()
        feeds[PODS].push("ADDED", {**pod, "spec": {**pod["spec"], "affinity": APART_BY_TEAM}})
        await until(lambda: snapshot.namespaces() == {"shop": {"team": "shop"}})
        told = list[int]()
        cluster.on_change(lambda: told.append(1))
        feed.push("ADDED", {"metadata": {"name": "ops", "resourceVersion": "2", "labels": {"team": "ops"}}})
        await until(lambda: told)
        assert snapshot.namespaces() == {"shop": {"team": "shop"}, "ops": {"team": "ops"}}


STORAGE = {
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
}
CAPACITIES = "/apis/storage.k8s.io/v1/csistoragecapacities"


def serve_storage(api: FakeApi, **items: dict[str, Any]) -> dict[str, Feed]:
    """An API server with one object of each kind that has to do with volumes; the feeds of the watches."""
    for name, path in STORAGE.items():
        api.on("GET", path, page(items.get(name, {"metadata": {"name": name}})))
    kind = {"name": "csistoragecapacities", "kind": "CSIStorageCapacity", "namespaced": True}
    api.on("GET", "/apis/storage.k8s.io/v1", {"resources": [kind]})
    api.on("GET", CAPACITIES, page({"metadata": {"name": "left", "namespace": "csi"}}))
    return {name: api.feed(path) for name, path in {**STORAGE, "csistoragecapacities": CAPACITIES}.items()}


@pytest.mark.usefixtures("feeds")
async def test_volumes_are_followed_from_the_first_question_on(api: FakeApi, open_cluster: Open) -> None:
    claim = {"metadata": {"name": "data", "namespace": "shop", "uid": "u", "resourceVersion": "3"}}
    limits = {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "csi", "allocatable": {"count": 3}}]}}
    driver = {"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}
    feeds = serve_storage(api, persistentvolumeclaims=claim, csinodes=limits, csidrivers=driver)
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert [api.asked("GET", path) for path in STORAGE.values()] == [[]] * 5
        assert set(snapshot.storage().unknown) == {*STORAGE, "csistoragecapacities"}
        await cluster.observe(0.0, frozenset())  # waits for the first lists
        known = snapshot.storage()
        assert (list(known.claims), list(known.volumes)) == ([("shop", "data")], ["persistentvolumes"])
        assert (list(known.classes), known.limits) == (["storageclasses"], {"n1": {"csi": 3}})
        assert (set(known.tracked), [each.name for each in known.capacities]) == ({"csi"}, ["left"])
        assert (known.unknown, snapshot.storage() is known) == ((), True)
        told = list[int]()
        cluster.on_change(lambda: told.append(1))
        feeds["persistentvolumeclaims"].push("DELETED", claim)
        await until(lambda: told)
        assert snapshot.storage().claims == {}


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize("served", [True, False])
async def test_volumes_that_may_not_be_read_are_named(api: FakeApi, open_cluster: Open, served: bool) -> None:
    serve_storage(api, csidrivers={"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}})
    if not served:
        api.on("GET", "/apis/storage.k8s.io/v1", {"resources": []})
    api.on("GET", STORAGE["csinodes"], status(403, "Forbidden", "not for you"))
    async with open_cluster() as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        snapshot.storage()
        await cluster.observe(0.0, frozenset())
        known = snapshot.storage()
        assert (known.unknown, known.tracked) == (("csinodes",), {"csi"} if served else frozenset())
        assert cluster.problems() == {("storage.k8s.io/v1", "CSINode"): "not for you"}


RECORDS = "/api/v1/namespaces/home/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.usefixtures("feeds")
async def test_restore_records_are_looked_for_only_when_pods_are_placed(api: FakeApi, open_cluster: Open) -> None:
    api.on("GET", RECORDS, status(403, "Forbidden", "not for you"))
    async with open_cluster(lease=LeaseSettings(enabled=False, namespace="home")) as cluster:
        snapshot = await cluster.observe(0.0, frozenset())
        assert api.asked("GET", RECORDS) == []
        snapshot.pending()
        snapshot.pending()
        await until(cluster.problems)
        assert len(api.asked("GET", RECORDS)) == 1
        assert cluster.problems() == {
            ("v1", "ConfigMap"): "what has yet to be recreated cannot be looked for: 403 Forbidden: not for you"
        }


MAY_LIST = {"status": {"allowed": True}}


@pytest.mark.usefixtures("feeds")
async def test_records_are_found_also_without_pools(api: FakeApi, open_cluster: Open) -> None:
    """Of pods that were evicted by a policy that is gone. A daemon that may not look for records does not."""
    api.on("GET", RECORDS, {"items": [RECORD]})
    async with open_cluster(lease=LeaseSettings(enabled=False, namespace="home")) as cluster:
        await until(lambda: api.asked("POST", REVIEWS))
        assert api.asked("GET", RECORDS) == []
    api.on("POST", REVIEWS, MAY_LIST)
    async with open_cluster(lease=LeaseSettings(enabled=False, namespace="home")) as cluster:
        await until(lambda: LEFT_ALONE in cluster.problems())  # it is not sealed
        assert "elasticd-restore-u" in cluster.problems()[LEFT_ALONE]
    (asked, *_) = [seen.body["spec"]["resourceAttributes"] for seen in api.asked("POST", REVIEWS)]
    assert (asked["verb"], asked["resource"], asked["namespace"]) == ("list", "configmaps", "home")


LEFT = "a dry run does neither, its record is ConfigMap home/elasticd-restore-u"
RECORD = {
    "metadata": {"name": "elasticd-restore-u", "uid": "record"},
    "data": {
        "uid": "u",
        "pod": '{"metadata": {"name": "batch", "namespace": "shop"}}',
        "written": "2026-11-25T22:00:00Z",
        "why": "Drain",
    },
}


@pytest.mark.usefixtures("feeds")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            {"items": [RECORD]},
            [f"shop/Pod/batch was to be evicted and recreated: {LEFT}"],
            id="a record",
        ),
        pytest.param({"items": [{"metadata": {"name": "notes", "uid": "n"}}]}, [], id="something else"),
        pytest.param(status(403, "Forbidden", "not for you"), [], id="no right"),
    ],
)
async def test_a_dry_run_tells_of_records_and_touches_none(
    api: FakeApi, tmp_path: Path, answer: Any, told: list[str]
) -> None:
    api.on("GET", RECORDS, answer)
    lease = LeaseSettings(namespace="home")
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=lease)
    async with table.open(WallClock(), elect=False) as cluster:
        dry = DryRun(cluster)
        (await dry.observe(0.0, frozenset())).pending()
        await until(lambda: api.asked("GET", RECORDS) and len(dry.restoring()) == len(told))
        assert [move.fault for move in dry.restoring()] == told
        assert dry.problems() == {}
    writes = ("POST", "PUT", "PATCH", "DELETE")
    assert not [seen for seen in api.seen if "/secrets" in seen.path or seen.method in writes]


@pytest.mark.parametrize(
    ("version", "heeds"),
    [
        ("v1.20.2", False),
        ("v1.21.9", False),
        ("v1.22.0", True),
        ("v1.34.1-gke.7", True),
        ("v2.0.0", True),
        ("unknown", False),
    ],
)
def test_controllers_honour_deletion_costs_since_1_22(version: str, heeds: bool) -> None:
    assert honours_deletion_costs(version) == heeds
