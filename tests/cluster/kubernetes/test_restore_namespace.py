"""A pod is recreated only in the namespace that it was in: a later one of the same name may be somebody else's."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.session import Session
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, status, until
from tests.cluster.kubernetes.restoring import ACTION, NAMESPACES, Server, daemon, data, granted, record, running

LATER = [pytest.param(None, id="gone"), pytest.param("ns-2", id="another of its name")]
FORBIDDEN = status(403, "Forbidden", "may not")


@pytest.mark.parametrize("later", LATER)
async def test_a_pod_whose_namespace_was_deleted_is_given_up(
    server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture, later: str | None
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        server.namespace = later
        await until(lambda: not server.records)
        await until(lambda: [move.over for move in one.underway] == [True])
        (move,) = one.underway
        assert (move.pod, move.how, move.step, move.fault, one.fault) == (
            ACTION.workload,
            "anew",
            "given up: its namespace was deleted",
            "",
            "",
        )
    assert server.created == []
    assert caplog.text.count("shop/Pod/batch is not recreated: its namespace was deleted") == 1


async def test_a_pod_of_a_later_namespace_is_no_obstacle(server: Server, session: Session, clock: HurriedClock) -> None:
    """It has the name of the one that was evicted."""
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        server.namespace, server.pod = "ns-2", running("stranger", labels={"app": "other"})
        await until(lambda: not server.records)
    assert (server.created, server.pod) == ([], running("stranger", labels={"app": "other"}))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("later", LATER)
async def test_the_next_daemon_goes_on_giving_a_pod_up(
    server: Server, session: Session, clock: HurriedClock, later: str | None, moment: str
) -> None:
    def killed(_: int, what: str) -> str:
        server.namespace = later if server.evictions else server.namespace
        return f"killed {moment}" if what.startswith("DELETE") else ""

    server.fault = killed
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.killed.is_set)
    server.fault = lambda _, what: ""
    async with daemon(session, clock, resumes=True) as two:
        await until(lambda: not server.records)
        await until(lambda: all(move.over for move in two.underway))
    assert server.created == []


async def test_a_record_without_the_namespace_s_uid_counts_as_before(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """As an earlier version wrote it."""
    server.pod, server.namespace = None, "ns-2"
    server.record(record(data()))
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.created)


async def test_where_namespaces_may_not_be_read_pods_are_recreated(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    api.on("GET", NAMESPACES, FORBIDDEN)
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        assert "namespace" not in server.records["elasticd-restore-u"]["data"]
        await until(server.made_anew)
    assert caplog.text.count("namespaces may not be read (403 Forbidden: may not)") == 1
    assert "see config/kubernetes/components/placing/rbac.yaml" in caplog.text


async def test_a_right_taken_away_meanwhile_keeps_no_pod_away(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        api.on("GET", NAMESPACES, FORBIDDEN)
        await until(server.made_anew)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        pytest.param({"kind": "NamespaceList", "items": [{"metadata": {"name": "home", "uid": "ns-0"}}]},
                     ("conflict", 404, "its namespace is gone"), id="gone"),
        pytest.param({"kind": "NamespaceList", "items": []},
                     ("failed", 500, "500 Unreadable: namespace shop and its own are not in the list"), id="empty"),
        pytest.param(status(500, "InternalError", "etcd"), ("failed", 500, "500 InternalError: etcd"), id="no answer"),
    ],
)  # fmt: skip
async def test_without_its_namespace_s_uid_a_pod_is_not_evicted(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, answer: Any, refusal: tuple[str, int, str]
) -> None:
    api.on("GET", NAMESPACES, answer)
    async with daemon(session, clock) as one:
        refused = await one.evict(ACTION, granted)
    assert (refused.result, refused.code) == refusal[:2]
    assert refused.message.startswith(refusal[2])
    assert server.untouched()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        pytest.param(status(500, "InternalError", "etcd"), "500 InternalError: etcd", id="no answer"),
        pytest.param(
            {"kind": "NamespaceList", "items": []}, "namespace shop and its own are not in the list", id="an empty list"
        ),
        pytest.param(
            {"kind": "NamespaceList", "items": [{"metadata": {"name": "shop"}}]}, "are not in the list", id="no UID"
        ),
    ],
)
async def test_a_namespace_that_cannot_be_read_is_read_again(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, answer: Any, fault: str
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        api.on("GET", NAMESPACES, answer)
        await until(lambda: fault in one.fault)
        assert server.created == []
        api.on("GET", NAMESPACES, {"kind": "NamespaceList", "items": [{"metadata": {"name": "shop", "uid": "ns-1"}}]})
        await until(server.made_anew)
