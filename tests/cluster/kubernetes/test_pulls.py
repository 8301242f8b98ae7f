"""What kubelets tell of images that they pulled."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from elasticd.base.clock import WallClock
from elasticd.cluster.kubernetes import Kubernetes, LeaseSettings
from elasticd.cluster.kubernetes.watch.pulls import to_pull_event
from elasticd.cluster.kubernetes.wire.objects import WireEvent
from elasticd.ports.metrics_api import Pull
from tests.cluster.kubernetes.fake import FakeApi, page, status, until, write_kubeconfig

EVENTS = "/api/v1/events"
NEW = 'Successfully pulled image "nginx:1.25" in 1.5s (4m1.5s including waiting). Image size: 70501322 bytes.'
OLD = 'Successfully pulled image "a/b@sha256:0f"'
STAMP, STAMPED = "2026-01-01T00:00:00Z", 1767225600.0


def event(message: str = NEW, uid: str = "u", **changes: Any) -> dict[str, Any]:
    """An Event as a kubelet writes it."""
    return {
        "metadata": {"name": f"web.{uid}", "namespace": "shop", "uid": uid, "resourceVersion": "5"},
        "reason": "Pulled",
        "message": message,
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": STAMP,
        "lastTimestamp": STAMP,
        "count": 1,
        **changes,
    }


def told(written: dict[str, Any]) -> Pull | None:
    """The pull it tells of."""
    key, pull = to_pull_event(msgspec.convert(written, WireEvent, strict=False), 3600.0)
    assert key == ("shop", written["metadata"]["name"])
    return pull


@pytest.mark.parametrize(
    ("message", "seconds", "size"),
    [
        pytest.param(NEW, 1.5, 70501322, id="newer"),
        pytest.param(f"{OLD} in 2.3s", 2.3, None, id="older, without a size"),
        pytest.param(f"{OLD} in 1m2.5s (1m2.5s including waiting)", 62.5, None, id="between"),
        pytest.param(f"{OLD} in 950ms (2s including waiting). Image size: 1 bytes.", 0.95, 1, id="milliseconds"),
        pytest.param(f"{OLD} in 1.2µs. Image size: 7 bytes.", 1.2e-6, 7, id="microseconds"),
        pytest.param(f"{OLD} in 0s (1s including waiting). Image size: 7 bytes.", 0, 7, id="at once"),
        pytest.param(f"{OLD} in 2s. Image size: 0 bytes.", 2, None, id="size not found out"),
        pytest.param(f"(combined from similar events): {NEW}", 1.5, 70501322, id="often"),
    ],
)  # fmt: skip
def test_pull_is_reported_in_the_words_of_kubelets(message: str, seconds: float, size: int | None) -> None:
    pull = told(event(message))
    assert pull is not None
    assert pull.seconds == pytest.approx(seconds)
    assert pull == Pull("u/1", "n1", STAMPED + 3600, pull.seconds, size)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(event('Container image "nginx" already present on machine'), id="no pull"),
        pytest.param(event('Successfully pulled image "nginx"'), id="of before it told the time"),
        pytest.param(event('Successfully pulled image "x" in soon'), id="no duration"),
        pytest.param(event('Successfully pulled image "x" in 5'), id="a number without a unit"),
        pytest.param(event(source={"component": "somebody", "host": "n1"}), id="not of a kubelet"),
        pytest.param(event(source={"component": "kubelet"}), id="of no node"),
        pytest.param(event(firstTimestamp=None, lastTimestamp=None), id="of no time"),
    ],
)
def test_other_words_tell_of_no_pull(written: dict[str, Any]) -> None:
    assert told(written) is None


def test_event_of_the_newer_kind_is_read_too() -> None:
    repeated = {"count": 3, "lastObservedTime": "2026-01-01T00:01:00.5Z"}
    newer = event(
        source={}, count=None, firstTimestamp=None, lastTimestamp=None, eventTime=STAMP, series=repeated,
        reportingComponent="kubelet", reportingInstance="n2",
    )  # fmt: skip
    assert told(newer) == Pull("u/3", "n2", STAMPED + 3600 + 60.5, 1.5, 70501322)


async def test_events_are_followed_only_while_somebody_wants_them(api: FakeApi, tmp_path: Path) -> None:
    for path in ("/api/v1/pods", "/api/v1/nodes"):
        api.on("GET", path, page())
        api.feed(path)
    api.on("GET", EVENTS, page(event(), {"metadata": {"name": "bad"}, "count": "many"}))
    feed, pulls = api.feed(EVENTS), list[Pull]()
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=LeaseSettings(enabled=False))
    async with table.open(WallClock()) as cluster:
        await cluster.observe(0.0, frozenset())
        assert api.asked("GET", EVENTS) == []
        async with cluster.pulls(pulls.append) as followed:
            await until(lambda: pulls and feed.opened)
            feed.push("ADDED", event(uid="v", source={"component": "kubelet", "host": "n2"}))
            await until(lambda: len(pulls) == 2)
            feed.push("DELETED", event())
            feed.push("MODIFIED", event(count=2))
            await until(lambda: len(pulls) == 3)
            assert followed.problem == ""
        assert [(one.key, one.node) for one in pulls] == [("u/1", "n1"), ("v/1", "n2"), ("u/2", "n1")]
        watches = len(api.asked("WATCH", EVENTS))
    asked = [*api.asked("GET", EVENTS), *api.asked("WATCH", EVENTS)]
    assert {one.query["fieldSelector"] for one in asked} == {"involvedObject.kind=Pod,reason=Pulled"}
    assert len(api.asked("WATCH", EVENTS)) == watches


async def test_what_keeps_events_from_being_followed_is_reported(api: FakeApi, tmp_path: Path) -> None:
    api.on("GET", EVENTS, status(403, "Forbidden", "no right to events"))
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=LeaseSettings(enabled=False))
    async with table.open(WallClock()) as cluster, cluster.pulls(lambda pull: None) as followed:
        await until(lambda: followed.problem)
        assert "no right to events" in followed.problem
        assert ("v1", "Event") not in cluster.problems()


async def test_confined_to_namespaces_each_is_followed(api: FakeApi, tmp_path: Path) -> None:
    pulls = list[Pull]()
    for name in ("one", "two"):
        api.on("GET", f"/api/v1/namespaces/{name}/events", page(event(uid=name)))
        api.feed(f"/api/v1/namespaces/{name}/events")
    alone = LeaseSettings(enabled=False)
    table = Kubernetes(kubeconfig=write_kubeconfig(tmp_path, api.url), lease=alone, namespaces=("one", "two"))
    async with table.open(WallClock()) as cluster, cluster.pulls(pulls.append):
        await until(lambda: len(pulls) == 2)
    assert {one.key for one in pulls} == {"one/1", "two/1"}
