"""Following kinds: discovery, custom resources by their scale, kinds that come and go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from elasticd.base.clock import ServerTime
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.watch.informer import Informer, follow_kind, follow_nodes, follow_pods
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore, WorkloadStore
from elasticd.cluster.kubernetes.watch.versions import Rollbacks
from elasticd.cluster.kubernetes.watch.watch import Dependencies
from elasticd.model.workload import Ref, Workload
from elasticd.ports.cluster import Kind
from tests.cluster.kubernetes.fake import (
    DEPLOYMENTS,
    PODS,
    FakeApi,
    Feed,
    HurriedClock,
    drop,
    page,
    pod,
    scale,
    status,
    until,
)

GADGET: Kind = ("example.com/v1", "Gadget")
GROUP = "/apis/example.com/v1"
GADGETS = f"{GROUP}/gadgets"
SCALE = f"{GROUP}/namespaces/shop/gadgets/web/scale"
SERVED = {
    "resources": [
        {"name": "gadgets", "kind": "Gadget", "namespaced": True},
        {"name": "gadgets/scale", "kind": "Scale", "namespaced": True},
        {"name": "gadgets/status", "kind": "Gadget", "namespaced": True},
        {"name": "fleets", "kind": "Fleet", "namespaced": False},
        {"name": "fleets/scale", "kind": "Scale", "namespaced": False},
    ]
}
REF = Ref("shop", "Gadget", "web", "example.com/v1")


class Bench:
    """Followers, and the store of workloads that they fill."""

    def __init__(self, session: Session, clock: HurriedClock, *namespaces: str) -> None:
        rollbacks = Rollbacks(clock)
        self.deps = Dependencies(session, clock, ServerTime(clock), Discovery(session), namespaces, 500, 5.0, rollbacks)
        self.store = WorkloadStore()
        self.tasks: list[asyncio.Task[None]] = []

    def follow(self, kind: Kind = GADGET) -> Informer:
        """Begin to follow a kind."""
        return self.begin(follow_kind(self.deps, kind, self.store))

    def begin(self, follower: Informer) -> Informer:
        """Let a follower run."""
        self.tasks.append(asyncio.create_task(follower.run()))
        return follower

    async def settled(self, follower: Informer) -> None:
        """Return once it is."""
        async with asyncio.timeout(10):
            await follower.settled()

    def workload(self) -> Workload | None:
        """The gadget."""
        return self.store.get(REF)

    def replicas(self) -> int:
        """The gadget's."""
        workload = self.workload()
        assert workload is not None
        return workload.replicas


Make = Callable[..., Bench]


@pytest.fixture
async def make(session: Session, clock: HurriedClock) -> AsyncIterator[Make]:
    """Makes benches, and clears them away."""
    made: list[Bench] = []

    def bench(*namespaces: str) -> Bench:
        made.append(Bench(session, clock, *namespaces))
        return made[-1]

    yield bench
    tasks = [task for one in made for task in one.tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def gadget(version: int, **labels: str) -> dict[str, Any]:
    """The metadata of a custom resource, with fields that nobody knows."""
    meta = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": str(version), "labels": labels}
    return {"kind": "PartialObjectMetadata", "metadata": meta, "spec": "anything"}


def serve(api: FakeApi, *replies: Any) -> Feed:
    """Serve the custom resource, one object, and these scales; the feed of its watch."""
    api.on("GET", GROUP, SERVED)
    api.on("GET", GADGETS, page(gadget(4, team="a"), version=5))
    api.on("GET", SCALE, *replies)
    return api.feed(GADGETS)


async def test_custom_resource_is_its_metadata_and_its_scale(api: FakeApi, make: Make) -> None:
    serve(api, scale(3, version="4"))
    bench = make()
    await bench.settled(bench.follow())
    assert bench.workload() == Workload(REF, "u", "4", 3, 3, "app=web", labels={"team": "a"})
    (listed,) = api.asked("GET", GADGETS)
    assert listed.headers["Accept"].startswith("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,")
    await until(lambda: api.asked("WATCH", GADGETS))
    watch = api.asked("WATCH", GADGETS)[0]
    assert watch.headers["Accept"] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


async def test_scale_is_read_again_only_when_the_object_changed(api: FakeApi, make: Make) -> None:
    feed = serve(api, scale(3, version="4"), scale(5, version="9"))
    bench = make()
    await bench.settled(bench.follow())
    feed.push("MODIFIED", gadget(4, team="a"))
    feed.push("MODIFIED", gadget(9, team="b"))
    await until(lambda: bench.workload() and bench.workload().replicas == 5)  # type: ignore[union-attr]
    assert len(api.asked("GET", SCALE)) == 2
    feed.push("DELETED", gadget(10))
    await until(lambda: bench.workload() is None)


async def test_scale_older_than_the_last_change_is_read_again(api: FakeApi, make: Make) -> None:
    feed = Feed()

    async def slow(_: web.Request) -> web.StreamResponse:
        feed.push("MODIFIED", gadget(9))
        await asyncio.sleep(0.05)
        return web.json_response(scale(3, version="4"))

    serve(api, slow, scale(5, version="9"))
    api.on("WATCH", GADGETS, feed)
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    assert bench.workload() is not None
    assert bench.workload().replicas == 5  # type: ignore[union-attr]


async def test_labels_of_an_event_are_taken_without_reading_scale_again(api: FakeApi, make: Make) -> None:
    feed = serve(api, scale(3, version="9"))
    bench = make()
    await bench.settled(bench.follow())
    feed.push("MODIFIED", gadget(9, team="b"))
    await until(lambda: bench.workload().labels == {"team": "b"})  # type: ignore[union-attr]
    assert len(api.asked("GET", SCALE)) == 1


async def test_view_is_as_old_as_the_oldest_change_without_scale(api: FakeApi, make: Make, clock: HurriedClock) -> None:
    feed = serve(api, scale(3, version="4"), drop)
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    feed.push("MODIFIED", gadget(9))
    await until(lambda: len(api.asked("GET", SCALE)) > 2)
    changed = follower.confirmed_for("shop", "web")
    assert changed
    feed.push("BOOKMARK", {"metadata": {"resourceVersion": "50"}})
    await until(lambda: clock.now() > changed + 5)
    assert follower.confirmed_for("shop", "web") == changed
    assert follower.confirmed_for("shop", "other") == follower.confirmed() > changed
    assert bench.replicas() == 3
    api.on("GET", SCALE, scale(5, version="9"))
    await until(lambda: follower.confirmed_for("shop", "web") > changed)
    assert bench.replicas() == 5


async def test_relisted_object_that_changed_keeps_its_earlier_confirmation_time(api: FakeApi, make: Make) -> None:
    feed = serve(api, scale(3, version="4"), drop)
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    await until(lambda: feed.opened)
    before = follower.confirmed()
    again = Feed()
    api.on("GET", GADGETS, page(gadget(9), version=9))
    api.on("WATCH", GADGETS, again)
    feed.write(b'{"type":"ERROR","object":{"code":410}}\n')
    await until(lambda: again.opened)
    assert follower.confirmed_for("shop", "web") == before < follower.confirmed()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(status(403, "Forbidden", "gadgets/scale is forbidden"), id="forbidden"),
        pytest.param(status(500, "InternalError", "the path is wrong"), id="internal error"),
        pytest.param({"metadata": 7}, id="garbage"),
    ],
)
async def test_object_with_refused_scale_is_absent_with_a_reason(api: FakeApi, make: Make, refusal: Any) -> None:
    serve(api, refusal)
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    assert bench.workload() is None
    assert "the scale of shop/web cannot be read" in follower.scale_problem
    assert follower.problem == "", "all others can be"
    assert follower.confirmed()
    api.on("GET", SCALE, scale(3, version="4"))
    await until(bench.workload)
    assert follower.scale_problem == ""
    assert follower.confirmed_for("shop", "web") == follower.confirmed()


@pytest.mark.parametrize("code", [403, 404, 500, 503])
async def test_object_whose_scale_is_refused_later_stays_but_unconfirmed(api: FakeApi, make: Make, code: int) -> None:
    feed = serve(api, scale(3, version="4"), status(code, "No", "no"))
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    before = follower.confirmed_for("shop", "web")
    feed.push("MODIFIED", gadget(9))
    feed.push("BOOKMARK", {"metadata": {"resourceVersion": "50"}})
    await until(lambda: len(api.asked("GET", SCALE)) > 1 and follower.confirmed() > before)
    assert (bench.replicas(), follower.confirmed_for("shop", "web")) == (3, before)
    if code in (403, 500):
        await until(lambda: follower.scale_problem)
    api.on("GET", SCALE, scale(5, version="9"))
    await until(lambda: follower.confirmed_for("shop", "web") > before)
    assert (bench.replicas(), follower.scale_problem) == (5, "")


async def test_deleting_a_refused_object_also_removes_the_problem(api: FakeApi, make: Make) -> None:
    feed = serve(api, scale(3, version="4"), status(403, "Forbidden", "no"))
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    feed.push("MODIFIED", gadget(9))
    await until(lambda: follower.scale_problem)
    feed.push("DELETED", gadget(10))
    await until(lambda: bench.workload() is None)
    assert follower.scale_problem == ""


async def test_object_that_vanished_before_its_scale_was_read_is_absent(api: FakeApi, make: Make) -> None:
    serve(api, status(404, "NotFound", "no such"))
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    assert (bench.workload(), follower.scale_problem) == (None, "")


async def test_relist_forgets_objects_that_vanished(api: FakeApi, make: Make) -> None:
    serve(api, scale(3, version="4"))
    api.on("GET", GADGETS, page(gadget(4), version=5), page(version=9))
    feed = Feed()
    api.on("WATCH", GADGETS, status(410), feed)
    bench = make()
    bench.follow()
    await until(lambda: feed.opened)
    assert bench.store.all() == ()


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        pytest.param(
            ("apps/v1", "Deploymant"), 'apps/v1 has no kind "Deploymant", did you mean "Deployment"?', id="misspelt"
        ),
        pytest.param(("apps/v1", "DaemonSet"), "apps/v1 DaemonSet has no scale subresource", id="not scalable"),
        pytest.param(
            ("aps/v1", "Deployment"),
            'the server does not serve apiVersion "aps/v1", did you mean "apps/v1"?',
            id="unknown group",
        ),
    ],
)
async def test_missing_kind_is_a_problem_and_holds_up_nothing(make: Make, kind: Kind, problem: str) -> None:
    bench = make()
    follower = bench.follow(kind)
    await bench.settled(follower)
    assert (follower.problem, follower.confirmed()) == (problem, 0.0)


async def test_kind_that_comes_later_is_found(api: FakeApi, make: Make) -> None:
    bench = make()
    follower = bench.follow()
    await bench.settled(follower)
    assert follower.problem
    serve(api, scale(3, version="4"))
    await until(bench.workload)
    assert (follower.problem, bool(follower.confirmed())) == ("", True)


async def test_a_restore_that_somebody_saw_lists_anew(api: FakeApi, make: Make) -> None:
    """Though the versions of these lists do not go back, as they were raised: the pod is on no node any more."""
    bound = {**pod("a", 5), "spec": {"nodeName": "n1"}}
    api.on("GET", "/api/v1/pods", page(bound, version=9), page(pod("a", 5), version=1000))
    feed, bench, store = api.feed("/api/v1/pods"), make(), PodStore()
    bench.begin(follow_pods(bench.deps, store))
    await until(lambda: feed.opened and store.get("shop", "a"))
    bench.deps.rollbacks.note("leases", "8", "4")
    feed.push("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    await until(lambda: feed.opened == 2)
    listed = store.get("shop", "a")
    assert listed is not None
    assert (listed.node, len(api.asked("GET", "/api/v1/pods"))) == ("", 2)


async def test_a_restored_server_is_asked_for_every_scale(api: FakeApi, make: Make) -> None:
    """A version may come again with another count."""
    serve(api, scale(3, version="9"), scale(5, version="9"))
    api.on("GET", GADGETS, page(gadget(9), version=20), page(gadget(9), version=10))
    api.on("WATCH", GADGETS, status(410), Feed())
    bench = make()
    bench.follow()
    await until(lambda: bench.workload() and bench.replicas() == 5)


async def test_kind_no_longer_served_keeps_its_objects_until_a_list(api: FakeApi, make: Make) -> None:
    feed = serve(api, scale(3, version="4"))
    bench = make()
    follower = bench.follow()
    await until(lambda: feed.opened and bench.workload())
    for path in (GROUP, GADGETS):
        api.on("GET", path, status(404))
    api.on("WATCH", GADGETS, status(404))
    feed.close()
    await until(lambda: "does not serve" in follower.problem)
    assert bench.replicas() == 3
    last = follower.confirmed()
    await bench.deps.clock.sleep_until(bench.deps.clock.now() + 2)
    assert follower.confirmed_for("shop", "web") <= last
    serve(api)
    api.on("GET", GADGETS, page(version=7))
    await until(lambda: follower.confirmed() > last)
    assert (bench.workload(), follower.problem) == (None, "")


async def test_a_kind_not_served_is_asked_for_more_slowly(
    api: FakeApi, make: Make, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """As where something before the API server answers as the server would."""
    bench, began = make(), clock.now()
    api.feed("/api/v1/pods")
    api.on("GET", "/api/v1/pods", status(404, "NotFound", "not served"))
    follower = bench.begin(follow_pods(bench.deps, PodStore()))
    await until(lambda: len(api.asked("GET", "/api/v1/pods")) >= 6)
    assert clock.now() - began > (0.5 + 1 + 2 + 4 + 8) * 0.5
    assert [record.getMessage() for record in caplog.records if "served" in record.getMessage()] == [
        "all namespaces/pods: not served"
    ]
    api.on("GET", "/api/v1/pods", page())
    await until(lambda: follower.confirmed() > 0)
    assert follower.problem == ""


async def test_kind_that_is_refused_later_stays_with_the_problem_told(api: FakeApi, make: Make) -> None:
    feed = serve(api, scale(3, version="4"))
    bench = make()
    follower = bench.follow()
    await until(lambda: feed.opened and bench.workload())
    refused = status(403, "Forbidden", "no right")
    api.on("GET", GADGETS, refused)
    api.on("WATCH", GADGETS, refused)
    feed.write(b'{"type":"ERROR","object":{"code":410}}\n')
    await until(lambda: follower.problem == "no right")
    last = follower.confirmed()
    await until(lambda: len(api.asked("GET", GADGETS)) > 3)
    assert (bench.replicas(), follower.confirmed_for("shop", "web")) == (3, last)


async def test_discovery_that_fails_is_tried_again_and_nothing_is_confirmed(api: FakeApi, make: Make) -> None:
    serve(api, scale(3, version="4"))
    api.on("GET", GROUP, status(503, "Down", "down"), b"garbage", SERVED)
    bench = make()
    follower = bench.follow()
    assert follower.confirmed() == 0
    await until(lambda: follower.problem == "503 Down: down")
    assert follower.confirmed() == 0
    await until(bench.workload)


async def test_kind_without_namespaces_is_followed_as_a_whole(api: FakeApi, make: Make) -> None:
    api.on("GET", GROUP, SERVED)
    fleet = {"metadata": {"name": "f", "uid": "u", "resourceVersion": "4"}}
    api.on("GET", f"{GROUP}/fleets", page(fleet, version=5))
    api.on("GET", f"{GROUP}/fleets/f/scale", scale(2, version="4"))
    api.feed(f"{GROUP}/fleets")
    bench = make("shop")
    await bench.settled(bench.follow(("example.com/v1", "Fleet")))
    assert [str(one.ref) for one in bench.store.all()] == ["/Fleet/f"]


async def test_confined_to_namespaces_each_is_listed_on_its_own(api: FakeApi, make: Make) -> None:
    def deployment(namespace: str) -> dict[str, Any]:
        return {"metadata": {"name": "web", "namespace": namespace, "resourceVersion": "1"}, "spec": {}}

    for name in ("one", "two"):
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        api.on("GET", path, page(deployment(name)))
        api.feed(path)
    bench = make("one", "two")
    await bench.settled(bench.follow(("apps/v1", "Deployment")))
    assert sorted(str(one.ref) for one in bench.store.all()) == ["one/Deployment/web", "two/Deployment/web"]
    assert api.asked("GET", DEPLOYMENTS) == []


async def test_namespace_that_is_refused_does_not_hold_up_the_other(api: FakeApi, make: Make) -> None:
    one, two = (f"/apis/apps/v1/namespaces/{name}/deployments" for name in ("one", "two"))
    api.on("GET", one, page())
    api.feed(one)
    api.on("GET", two, status(403, "Forbidden", "no right in two"))
    bench = make("one", "two")
    follower = bench.follow(("apps/v1", "Deployment"))
    await bench.settled(follower)
    assert follower.problem == "no right in two"
    assert follower.confirmed_for("one", "web")
    assert follower.confirmed_for("two", "web") == follower.confirmed() == 0.0


async def test_what_was_always_refused_was_never_confirmed(api: FakeApi, make: Make) -> None:
    refused = status(403, "Forbidden", "no right")
    api.on("GET", PODS, refused)
    api.on("GET", "/api/v1/nodes", refused)
    bench = make()
    pods = bench.begin(follow_pods(bench.deps, PodStore()))
    nodes = bench.begin(follow_nodes(bench.deps, NodeStore()))
    for follower in (pods, nodes):
        await bench.settled(follower)
    assert (pods.confirmed(), nodes.confirmed()) == (0.0, 0.0)
    assert pods.problem == nodes.problem == "no right"


async def test_unreadable_objects_are_counted(api: FakeApi, make: Make) -> None:
    api.on("GET", PODS, page(pod("a"), {"metadata": 7}))
    api.feed(PODS)
    bench = make()
    follower = bench.begin(follow_pods(bench.deps, PodStore()))
    await bench.settled(follower)
    assert follower.skipped == 1
