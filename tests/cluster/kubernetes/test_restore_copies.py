"""Copies of evicted pods that go before they ran are made again; those that ran are not."""

import asyncio
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from elasticd.cluster.kubernetes.restore import steps
from elasticd.cluster.kubernetes.session import Session
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, status, until
from tests.cluster.kubernetes.restoring import (
    ACTION,
    COPY,
    POD,
    PODS,
    SPEC,
    Server,
    daemon,
    data,
    granted,
    record,
    running,
    seen,
)


def once(fate: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
    """Of the first copy; the next run."""
    return lambda copy: fate(copy) if copy["metadata"]["uid"] == "new-1" else {**copy, "status": {"phase": "Running"}}


def bound(copy: dict[str, Any], **became: Any) -> dict[str, Any]:
    """The copy, on a node; the server has put the name there that it did not have."""
    return {**copy, "status": {"phase": "Pending", **became}}


NODE_GONE = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
CREATING = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}}
FATES = [
    pytest.param(lambda copy: None, id="at once"),
    pytest.param(
        lambda copy: None if copy.get("status") else bound(copy, containerStatuses=[CREATING]),
        id="when its containers were being created",
    ),
    pytest.param(
        lambda copy: None if copy.get("status") else bound(copy, phase="Failed", conditions=[NODE_GONE]),
        id="called failed by who clears up after nodes",
    ),
    pytest.param(lambda copy: bound(copy, phase="Failed", reason="OutOfcpu"), id="refused by its kubelet"),
    pytest.param(lambda copy: bound(copy, phase="Failed", reason="Evicted"), id="evicted since memory is short"),
    pytest.param(
        lambda copy: (
            None
            if "deletionTimestamp" in copy["metadata"]
            else {**copy, "metadata": {**copy["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        ),
        id="deleted by somebody",
    ),
]


@pytest.mark.parametrize("fate", FATES)
async def test_a_copy_that_goes_before_it_ran_is_made_again(
    server: Server, session: Session, clock: HurriedClock, fate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.waits, server.fate = 1000, once(fate)
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: server.made(2))
    assert (server.evictions, server.steps[CREATED]) == (1, "POST pods")
    assert "shop/Pod/batch was recreated, and is gone before it ran: it is made again in 0 s" in caplog.text


ADOPTER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}


@pytest.mark.parametrize("gone", [False, True], ids=["it stays", "its controller deletes it at once"])
async def test_a_copy_that_a_controller_adopts_is_that_controllers(
    server: Server, session: Session, clock: HurriedClock, gone: bool
) -> None:
    """Its pods were orphaned, and its manifest was applied again while one was being moved."""

    def adopted(copy: dict[str, Any]) -> dict[str, Any] | None:
        owned = {**copy, "metadata": {**copy["metadata"], "ownerReferences": [ADOPTER]}}
        server.show(owned)
        return None if gone else owned

    server.waits, server.fate = 1000, adopted
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: bool(server.created) and not server.records)
    assert (len(server.created), server.pod is None) == (1, gone)


CREATED, AGAIN = 16, 31


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", range(CREATED, AGAIN))
async def test_copy_that_never_ran_is_remade_by_the_next_daemon(
    server: Server, session: Session, clock: HurriedClock, step: int, moment: str
) -> None:
    server.waits = 1000
    server.fate = once(lambda copy: bound(copy, phase="Failed", reason="OutOfcpu"))
    server.fault = lambda number, _: f"killed {moment}" if number == step else ""
    async with daemon(session, clock) as first:
        task = asyncio.create_task(first.evict(ACTION, granted))
        await until(server.killed.is_set)
        await task
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.made(2))
    assert server.evictions == 1


@pytest.mark.parametrize(
    ("ran", "remembers", "copies"),
    [
        pytest.param(True, True, 1, id="it ran: it stays gone"),
        pytest.param(False, True, 2, id="it did not"),
        pytest.param(True, False, 2, id="the server does not remember"),
    ],
)
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted yet"])
async def test_copy_lost_without_a_daemon_is_remade_unless_it_ran(
    server: Server,
    session: Session,
    clock: HurriedClock,
    ran: bool,
    remembers: bool,
    copies: int,
    noted: bool,
) -> None:
    server.waits, server.remembers = 1000, remembers
    server.fault = lambda _, what: "killed before" if server.created and what.startswith("PATCH") and not noted else ""
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: seen(1)(server) if noted else server.killed.is_set())
    assert server.pod is not None
    if ran:
        server.pod = {**server.pod, "status": {"phase": "Running"}}
    server.take_away()
    server.waits, server.fault = 0, lambda *_: ""
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: not server.records)
        await until(lambda: not one.underway)
    assert len(server.created) == copies
    (watch,) = server.api.asked("WATCH", PODS)
    version = "9" if noted else "7"
    assert (watch.query["fieldSelector"], watch.query["resourceVersion"]) == ("metadata.name=batch", version)


@pytest.mark.parametrize(
    ("version", "rolled_back", "copies"),
    [
        pytest.param("90", False, 1, id="it was not"),
        pytest.param("900", False, 2, id="beyond what etcd has reached"),
        pytest.param("90", True, 2, id="it is known"),
    ],
)
async def test_what_a_server_remembers_of_undone_time_is_no_proof(
    server: Server, session: Session, clock: HurriedClock, version: str, rolled_back: bool, copies: int
) -> None:
    """It was not restarted when etcd was put back to a time in which a pod was away, which ran then, and is gone."""
    server.waits = 1000
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: seen(1)(server))
    assert server.pod is not None
    meta = {**server.pod["metadata"], "resourceVersion": version}
    server.pod = {**server.pod, "metadata": meta, "status": {"phase": "Running"}}
    server.take_away()
    server.waits = 0
    async with daemon(session, clock, resumes=True, rolled_back=rolled_back) as one:
        await until(lambda: not server.records)
        await until(lambda: not one.underway)
    assert len(server.created) == copies


async def test_a_copy_that_a_restore_undoes_is_made_again(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """It ran, and its record cannot be removed yet: etcd is put back to a time in which the record was there alone."""
    steps: list[str] = []

    def put_back(_: int, what: str) -> str:
        is_removal = what.startswith("DELETE")
        if not steps and not is_removal:
            return ""
        if not steps:
            server.pod = None
        steps.append(what)
        return "undone" if is_removal and "GET batch" not in steps else ""

    server.fault = put_back
    async with daemon(session, clock, rolled_back=True) as one:
        await one.evict(ACTION, granted)
        await until(lambda: bool(steps) and not one.underway)
    assert (len(server.created), server.records) == (2, {})


async def test_a_copy_just_created_by_another_daemon_is_not_gone(
    server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server.pod, server.waits = None, 0
    server.record(record(data()))

    def create_first(_: int, what: str) -> str:
        if what == "WATCH pods" and server.pod is None:
            created = {**COPY, "metadata": {**COPY["metadata"], "uid": "new-1", "resourceVersion": "9"}}
            server.pod = {**created, "status": {"phase": "Running"}}
            server.show(server.pod)
        return ""

    server.fault = create_first
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: not server.records)
        await until(lambda: not one.underway)
    assert (server.created, "is gone" in caplog.text) == ([], False)


@pytest.mark.slow
async def test_copies_that_never_run_are_made_less_often_and_reported(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    made = list[float]()

    def note(step: int, what: str) -> str:
        if what == "POST pods":
            made.append(clock.now())
        return ""

    server.waits, server.fault = 10_000, note
    rejected = {"phase": "Failed", "reason": "OutOfcpu"}
    server.fate = lambda copy: {**bound(copy, **rejected), "spec": {**SPEC, "nodeName": "n"}}
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: len(made) == 5, within=30)
        assert [move.rejected_by for move in one.underway] == [{"n"}]
        pauses = [later - before for before, later in itertools.pairwise(made)]
        assert all(pause >= least for pause, least in zip(pauses, (0, 10, 20, 40), strict=True))
        await until(lambda: "5 copies of it went before they ran (the last on n: OutOfcpu); now: gone" in one.fault)
        server.fate = lambda copy: {**copy, "status": {"phase": "Running"}}
        await until(lambda: server.made(6), within=30)
        await until(lambda: not one.fault)


@pytest.mark.slow
async def test_what_a_copy_waits_for_on_its_node_is_reported(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    image = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    server.waits = 1000
    server.fate = lambda copy: {**bound(copy, containerStatuses=[image]), "spec": {**SPEC, "nodeName": "n2"}}
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: "starting on n2 for" in one.fault)
        assert one.fault.endswith(" s (ImagePullBackOff)")
        assert server.records
        assert len(server.created) == 1


async def test_a_failed_copy_that_cannot_be_evicted_is_reported(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    server.waits, server.fate = 1000, once(lambda copy: bound(copy, phase="Failed", reason="Evicted"))
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        api.on("POST", f"{POD}/eviction", status(403, "Forbidden", "may not evict"))
        await until(lambda: "it ended before it ran, and stays: 403 Forbidden: may not evict" in one.fault)
        assert [step.step for step in one.underway] == ["ended before it ran"]
        api.on("POST", f"{POD}/eviction", server.step(server.evict))
        await until(lambda: server.made(2))


async def test_fate_of_a_copy_is_asked_again_after_server_errors(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    server.waits = 1000
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: server.records and seen(1)(server))
        api.on("WATCH", PODS, status(500, "InternalError", "no"), b"{", server.step(server.remember))
        server.take_away()
        server.waits = 0
        await until(lambda: server.made(2))
    assert len(api.asked("WATCH", PODS)) == 3


async def test_copy_moved_before_running_is_left_to_its_own_record(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    server.waits = 1000
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: server.records and seen(1)(server))
        server.pod = running(
            "moved-on", labels={"changed": "since"}, annotations={"elasticd.io/restored-from": "new-1"}
        )
        await until(lambda: not one.underway)
    assert (server.records, len(server.created)) == ({}, 1)


@pytest.mark.slow
async def test_pod_that_waits_long_to_run_keeps_its_record(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        server.waits = 1000
        await one.evict(ACTION, granted)
        await until(lambda: "waiting for a node for" in one.fault)
        said = "shop/Pod/batch was recreated and has yet to run, its record is ConfigMap home/elasticd-restore-u: "
        assert one.fault.startswith(f"{said}waiting for a node for ")
        assert [(step.step, step.copy) for step in one.underway] == [("waiting for a node", "new-1")]
        assert server.records
        server.waits = 0
        await until(server.made_anew)


GREEDY = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "900"}}}]}
GOLD = {"nodeSelector": {"tier": "gold"}}
KEYED = {"tolerations": [{"key": "k", "operator": "Exists"}]}
GATED = {"schedulingGates": [{"name": "g"}]}
RULES = "its nodeSelector or node affinity"


@pytest.mark.parametrize(
    ("made", "now", "values"),
    [
        pytest.param(GREEDY, {}, "its request of cpu", id="admission asked for more than it does now"),
        pytest.param({}, {**GREEDY, **GOLD}, f"its request of cpu, {RULES}", id="it asks for more now"),
        pytest.param(KEYED, {}, "its tolerations", id="somebody added a toleration"),
        pytest.param({}, {"runtimeClassName": "gvisor"}, "its runtimeClassName", id="another runtime"),
        pytest.param({}, {}, "", id="it is as it would be"),
        pytest.param(GREEDY, GATED, "", id="it would be gated"),
        pytest.param({}, {"containers": [{"name": "main", "image": "j"}]}, "", id="another image"),
    ],
)
async def test_a_waiting_copy_tells_what_would_be_created_otherwise(
    server: Server,
    session: Session,
    clock: HurriedClock,
    monkeypatch: pytest.MonkeyPatch,
    made: Any,
    now: Any,
    values: str,
) -> None:
    monkeypatch.setattr(steps, "LATE", 1.0)
    server.waits, server.fate = 10_000, once(lambda copy: {**copy, "spec": {**copy["spec"], **made}})
    told = (
        f" (it would now be created with other values of {values}: delete it, and elasticd creates it so)"
        if values
        else ""
    )
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: [step.step for step in one.underway] == ["waiting for a node"])
        server.admit = lambda spec: {**spec, **now}
        trials = server.steps.count("POST pods dry")
        await until(lambda: server.steps.count("POST pods dry") > trials + 2)
        assert re.fullmatch(rf".*: waiting for a node for \d+ s{re.escape(told)}", one.fault)
        assert (len(server.created), server.steps.count("POST eviction")) == (1, 1)
        server.take_away()
        await until(lambda: len(server.created) == 2)
        server.waits = 0
        await until(lambda: not server.records)


async def test_no_dry_run_of_a_waiting_copy_breaks_the_quiet(
    server: Server, session: Session, clock: HurriedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LATE", 1.0)
    server.waits, times = 10_000, list[float]()

    async def refuse(_: web.Request) -> web.Response:
        times.append(clock.now())
        return web.json_response({"reason": "TooManyRequests"}, status=429, headers={"Retry-After": "20"})

    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: [step.step for step in one.underway] == ["waiting for a node"])
        server.api.on("POST", PODS, refuse)
        await until(lambda: len(times) == 2)
        assert times[1] - times[0] >= 20
        assert re.fullmatch(r".*: waiting for a node for \d+ s", one.fault)
