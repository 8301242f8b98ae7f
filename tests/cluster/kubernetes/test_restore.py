"""Pods without a controller are evicted and made anew: exactly one is there in the end, whatever is lost or killed."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.cluster.kubernetes.restore.records import Records
from elasticd.cluster.kubernetes.restore.restorer import Restorer
from elasticd.cluster.kubernetes.restore.steps import RestorerParts
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.cluster.kubernetes.write.pods import PodWriter
from elasticd.model.actions import Answer, Evict
from elasticd.model.workload import Ref
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Say, drop, status, until
from tests.cluster.kubernetes.test_evict import served

PODS = "/api/v1/namespaces/shop/pods"
POD = f"{PODS}/batch"
RECORDS = "/api/v1/namespaces/home/configmaps"
RECORD = f"{RECORDS}/elasticd-restore-u"
ACTION = Evict(Ref("shop", "Pod", "batch", "v1"), "u", "n1", "gives way", restore=True)
SPEC = {"schedulerName": "elasticd", "restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "i"}]}
TAKEN = status(409, "AlreadyExists", "it exists")
NONE = status(404, "NotFound", "none")


def running(uid: str = "u", **meta: Any) -> dict[str, Any]:
    """The pod, on its node."""
    named = {"name": "batch", "namespace": "shop", "uid": uid, "labels": {"app": "batch"}, **meta}
    named.setdefault("resourceVersion", "7")
    return {"metadata": named, "spec": {**SPEC, "nodeName": "n1"}}


class Server:
    """A scripted server that keeps the pod and its record. Each write and read is a step; a fault may be set for one.

    An evicted pod ends after it was read twice, and one that was made anew runs after it was read twice.
    """

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.pod: dict[str, Any] | None = running()
        self.records: dict[str, Any] = {}
        self.steps: list[str] = []
        self.created: list[dict[str, Any]] = []
        self.evictions = self.written = 0
        self.fault: Callable[[int, str], str] = lambda step, what: ""
        """For each step: empty, or lost, undone, killed before or killed after it was carried out."""
        self.killed = asyncio.Event()
        self.fate: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda copy: copy
        """What becomes of a copy that has not run, each time that it is read; None: it is gone."""
        self.remembers = True
        """Whether it still knows what has become of pods."""
        self._history: list[dict[str, Any]] = []
        self._reads_left = self._waits = 2
        api.on("GET", "/api/v1", served("v1"))
        for method, path, do in (
            ("GET", POD, self._read),
            ("WATCH", PODS, self._remember),
            ("POST", PODS, self._create),
            ("POST", f"{POD}/eviction", self._evict),
            ("POST", RECORDS, self._write),
            ("GET", RECORDS, lambda: {"items": list(self.records.values())}),
            ("GET", RECORD, lambda: self.records.get("elasticd-restore-u") or NONE),
            ("PATCH", RECORD, self._note),
            ("DELETE", RECORD, self._forget),
        ):
            api.on(method, path, self._step(do))

    def _step(self, do: Callable[[], Any]) -> Any:
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
            self._reads_left -= 1
            if self._reads_left < 0:
                self.pod = None
        if self.pod is not None and self.pod["metadata"]["uid"].startswith("new"):
            self._waits -= 1
            if self._waits < 0:
                self.pod["status"] = {"phase": "Running"}
            elif (after := self.fate(self.pod)) is None:
                self.take_away()
            else:
                self.pod = after
        return self.pod or NONE

    def take_away(self) -> None:
        """The pod is deleted."""
        if self.pod is not None:
            self._history.append({"type": "DELETED", "object": self.pod})
        self.pod = None

    def _remember(self) -> Any:
        if not self.remembers:
            return status(410, "Expired", "too old resource version")
        return Say(200, b"".join(msgspec.json.encode(one) + b"\n" for one in self._history))

    def _create(self) -> Any:
        seen = self.api.seen[-1]
        if seen.query.get("dryRun") == "All":
            return seen.body
        if self.pod is not None:
            return TAKEN
        self.created.append(seen.body)
        meta = {"uid": f"new-{len(self.created)}", "resourceVersion": "9"}
        self.pod = {**seen.body, "metadata": {**seen.body["metadata"], **meta}}
        return self.pod

    def _evict(self) -> Any:
        options = (self.api.seen[-1].body or {}).get("deleteOptions", {})
        uid = options.get("preconditions", {"uid": "u"})["uid"]
        if self.pod is None or self.pod["metadata"]["uid"] != uid:
            return status(409, "Conflict", "UID in precondition")
        if uid != "u":
            self.take_away()
            return {"kind": "Status", "status": "Success"}
        self.evictions += 1
        self.pod = running(deletionTimestamp="2026-01-01T00:00:00Z")
        return {"kind": "Status", "status": "Success"}

    def _write(self) -> Any:
        body = self.api.seen[-1].body
        if body["metadata"]["name"] in self.records:
            return TAKEN
        name = body["metadata"]["name"]
        self.written += 1
        self.records[name] = {**body, "metadata": {**body["metadata"], "uid": f"record-{self.written}"}}
        return body

    def _note(self) -> Any:
        if "elasticd-restore-u" not in self.records:
            return NONE
        self.records["elasticd-restore-u"]["data"] |= self.api.seen[-1].body["data"]
        return {}

    def _forget(self) -> Any:
        found = self.records.get("elasticd-restore-u")
        if found is None:
            return NONE
        if self.api.seen[-1].body["preconditions"]["uid"] != found["metadata"]["uid"]:
            return status(409, "Conflict", "UID in precondition")
        return self.records.pop("elasticd-restore-u")

    def made_anew(self) -> bool:
        """The pod was made anew, as it was, and nothing is left to do."""
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
        """The pod is as it was, and nothing is left to do."""
        return self.pod == running() and not self.records


@pytest.fixture
def server(api: FakeApi) -> Server:
    return Server(api)


@asynccontextmanager
async def daemon(
    session: Session,
    clock: HurriedClock,
    *,
    resumes: bool = False,
    identity: str = "one",
    leads: Callable[[], bool] = lambda: True,
) -> AsyncIterator[Restorer]:
    """A daemon, until it stops or is killed."""
    budget = Budget(clock, 10_000, 1000)
    writer = PodWriter(session, Discovery(session), budget, clock)
    shop = RestorerParts(session, budget, clock, Records(session, "home"), writer, leads, identity, quiet=4.0)
    restorer = Restorer(shop)
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


async def test_restore_runs_trial_record_eviction_and_creation_in_order(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, granted) == Answer("done", 201)
        await until(server.made_anew)
    assert [step for step in server.steps if not step.startswith("GET")] == [
        "POST pods dry",
        "POST configmaps",
        "POST eviction",
        "POST configmaps",  # once more, in case it was thought to be of no use
        "POST pods",
        "PATCH elasticd-restore-u",
        "DELETE elasticd-restore-u",
    ]
    trial = next(seen.body for seen in server.api.asked("POST", PODS) if seen.query)
    assert "name" not in trial["metadata"]
    assert server.created[0]["metadata"]["labels"] == {"app": "batch"}


STEPS = 21


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", range(STEPS))
async def test_daemon_killed_at_any_step_leaves_exactly_one_pod(
    server: Server, session: Session, clock: HurriedClock, step: int, moment: str
) -> None:
    server.fault = lambda number, _: f"killed {moment}" if number == step else ""
    async with daemon(session, clock) as first:
        task = asyncio.create_task(first.evict(ACTION, granted))
        await until(server.killed.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.made_anew() if server.evictions else server.untouched())
    assert server.evictions <= 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "undone"])
@pytest.mark.parametrize("step", range(STEPS))
async def test_lost_reply_at_any_step_ends_with_exactly_one_pod(
    server: Server, session: Session, clock: HurriedClock, step: int, fault: str
) -> None:
    server.fault = lambda number, _: fault if number == step else ""
    async with daemon(session, clock, resumes=True) as one:
        server.steps.clear()
        answer = await one.evict(ACTION, granted)
        await until(lambda: server.made_anew() if server.evictions else server.untouched())
    assert (answer.result == "done") == bool(server.evictions)
    assert server.evictions <= 1


async def test_all_steps_are_killed_and_lost_in_turn(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    assert len(server.steps) == STEPS


async def test_two_daemons_that_both_go_on_make_one_pod(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as old, daemon(session, clock, resumes=True):
        assert (await old.evict(ACTION, granted)).result == "done"
        await until(server.made_anew)
        await asyncio.sleep(0.1)
    assert server.made_anew()


async def test_who_finds_it_made_anew_already_leaves_no_record_behind(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """It stood still after the eviction, and another daemon has done the rest."""

    def overtaken(step: int, what: str) -> str:
        if what == "GET batch" and server.evictions:
            server.records.clear()
            server.pod = running("new-1", annotations={"elasticd.io/restored-from": "u"})
        return ""

    server.fault = overtaken
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        await until(lambda: not one.underway)
    assert (server.steps.count("POST configmaps"), server.records, server.created) == (1, {}, [])


async def test_record_removed_before_a_late_eviction_is_written_again(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """Another daemon took over, waited, and saw a pod that nobody evicted: then the eviction came all the same."""

    def taken_away(step: int, what: str) -> str:
        if what == "POST eviction":
            server.records.clear()
        return ""

    server.fault = taken_away
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(None, "NotFound", id="gone"),
        pytest.param(running("v"), "NotFound", id="another of that name"),
        pytest.param(running(deletionTimestamp="2026-01-01T00:00:00Z"), "Conflict", id="being deleted"),
        pytest.param(
            running(ownerReferences=[{"kind": "Job", "name": "j", "uid": "j", "controller": True}]),
            "Conflict",
            id="a controller makes another",
        ),
        pytest.param(running(annotations={"kubernetes.io/config.mirror": "h"}), "Conflict", id="of a kubelet's file"),
        pytest.param({**running(), "status": {"phase": "Succeeded"}}, "Conflict", id="it has done its work"),
        pytest.param({**running(), "status": {"phase": "Failed"}}, "Conflict", id="it has failed"),
    ],
)
async def test_pod_that_differs_from_the_judged_one_is_left_alone(
    server: Server, session: Session, clock: HurriedClock, pod: dict[str, Any] | None, reason: str
) -> None:
    server.pod = pod
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, granted)
    assert (answer.result, answer.reason) == ("conflict", reason)
    assert server.steps == ["GET batch"]


@pytest.mark.parametrize(
    ("path", "answer", "told"),
    [
        pytest.param(PODS, status(403, "Forbidden", "may not create pods"), "may not create pods", id="no right"),
        pytest.param(PODS, status(422, "Invalid", "priority"), "priority", id="what the server would not create"),
        pytest.param(RECORDS, status(403, "Forbidden", "may not create configmaps"), "configmaps", id="no record"),
    ],
)
async def test_a_pod_that_might_not_come_back_is_not_evicted(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, path: str, answer: Say, told: str
) -> None:
    api.on("POST", path, answer)
    async with daemon(session, clock) as one:
        found = await one.evict(ACTION, granted)
    assert (found.result, found.reason) == ("refused", "NotRestorable")
    assert told in found.message
    assert (server.evictions, server.untouched()) == (0, True)


async def test_an_eviction_that_a_budget_refuses_leaves_nothing_behind(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    api.on("POST", f"{POD}/eviction", status(429, "TooManyRequests", "the pod's disruption budget"))
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).reason == "Budget"
        assert server.untouched()
        assert "DELETE elasticd-restore-u" in server.steps


@pytest.mark.parametrize("later", ["a budget", "the lease"])
async def test_unanswered_eviction_keeps_its_record_when_the_next_is_refused(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock, later: str
) -> None:
    """The budget may be spent by the first one, which has yet to delete the pod."""
    sent: list[str] = []

    async def first(request: web.Request) -> web.StreamResponse:
        sent.append(request.path)
        return await drop(request)

    api.on("POST", f"{POD}/eviction", first, status(429, "TooManyRequests", "the pod's disruption budget"))
    async with daemon(session, clock) as one:
        answer = await one.evict(ACTION, lambda: NOT_LEADING if sent and later == "the lease" else None)
        assert (answer.result, answer.code, list(server.records)) == ("failed", 0, ["elasticd-restore-u"])
        server._evict()
        await until(server.made_anew)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pod_that_ends_during_recording_is_not_run_again(
    server: Server, session: Session, clock: HurriedClock, phase: str
) -> None:
    def ends(step: int, what: str) -> str:
        if what == "POST configmaps":
            server.pod = {**running(), "status": {"phase": phase}}
        return ""

    server.fault = ends
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).message == "it has ended, and would run a second time"
    assert (server.evictions, server.records) == (0, {})


async def test_without_the_lead_nothing_is_written(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, lambda: NOT_LEADING) == NOT_LEADING
    assert server.steps == ["GET batch"]


async def test_the_same_pod_is_not_evicted_twice_at_once(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        first, second = await asyncio.gather(one.evict(ACTION, granted), one.evict(ACTION, granted))
        assert (first.result, second.reason) == ("done", "UnderWay")
        assert (await one.evict(ACTION, granted)).reason == "UnderWay"
        await until(server.made_anew)


async def test_refused_creation_is_retried_and_reported_until_it_succeeds(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        assert (await one.evict(ACTION, granted)).result == "done"
        api.on("POST", PODS, status(403, "Forbidden", "exceeded quota"))
        await until(lambda: one.fault)
        assert one.fault == (
            "shop/Pod/batch has yet to be made anew, from ConfigMap home/elasticd-restore-u: "
            "403 Forbidden: exceeded quota"
        )
        api.on("POST", PODS, server._step(server._create))
        await until(server.made_anew)
        await until(lambda: not one.fault)


async def test_restore_waits_and_reports_while_another_pod_has_the_name(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        server.pod = running("stranger", labels={"app": "other"})
        await until(lambda: one.fault)
        assert one.fault == (
            "shop/Pod/batch has yet to be made anew, from ConfigMap home/elasticd-restore-u: "
            "409 AlreadyExists: another pod has its name"
        )
        assert [(step.pod.name, step.how, step.step) for step in one.underway] == [
            ("batch", "anew", "its name is taken")
        ]
        server.pod = None
        await until(server.made_anew)
        await until(lambda: not one.underway)


async def test_eviction_reason_is_passed_to_the_daemon_that_takes_over(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        await one.evict(replace(ACTION, reason="gives way for shop/high"), granted)
        assert [step.why for step in one.underway] == ["gives way for shop/high"]
    async with daemon(session, clock, resumes=True, identity="two") as two:
        await until(lambda: two.underway)
        assert [step.why for step in two.underway] == ["gives way for shop/high"]
        await until(server.made_anew)


async def test_a_record_without_a_reason_is_taken_up(server: Server, session: Session, clock: HurriedClock) -> None:
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
    del server.records["elasticd-restore-u"]["data"]["why"]
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: one.underway)
        assert [step.why for step in one.underway] == [""]
        await until(server.made_anew)


async def test_a_pod_recreated_by_somebody_else_is_left_alone(
    server: Server, session: Session, clock: HurriedClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        async with daemon(session, clock) as one:
            await one.evict(ACTION, granted)
            server.pod = running("applied")
            await until(lambda: not server.records)
    assert server.pod == running("applied")
    assert "shop/Pod/batch was made anew by somebody else" in caplog.text


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
    server._waits, server.fate = 1000, once(fate)
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: server.made(2))
    assert (server.evictions, server.steps[CREATED]) == (1, "POST pods")
    assert "shop/Pod/batch was made anew, and is gone before it ran: it is made again in 0 s" in caplog.text


CREATED, AGAIN = 11, 26
"""The step at which the pod is created, and how many there are when its first copy is refused."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", range(CREATED, AGAIN))
async def test_copy_that_never_ran_is_remade_by_the_next_daemon(
    server: Server, session: Session, clock: HurriedClock, step: int, moment: str
) -> None:
    server._waits = 1000
    server.fate = once(lambda copy: bound(copy, phase="Failed", reason="OutOfcpu"))
    server.fault = lambda number, _: f"killed {moment}" if number == step else ""
    async with daemon(session, clock) as first:
        task = asyncio.create_task(first.evict(ACTION, granted))
        await until(server.killed.is_set)
        await task
    async with daemon(session, clock, resumes=True):
        await until(lambda: server.made(2))
    assert server.evictions == 1


def seen(times: int) -> Callable[[Server], bool]:
    """The record notes so many copies."""
    return lambda server: server.records["elasticd-restore-u"]["data"].get("made") == f"new-{times}"


@pytest.mark.parametrize(
    ("ran", "remembers", "since", "copies"),
    [
        pytest.param(True, True, True, 1, id="it ran: it stays gone"),
        pytest.param(False, True, True, 2, id="it did not"),
        pytest.param(True, False, True, 2, id="the server does not remember"),
        pytest.param(True, True, False, 2, id="a daemon of the version before has written it"),
    ],
)
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted yet"])
async def test_copy_lost_without_a_daemon_is_remade_unless_it_ran(
    server: Server,
    session: Session,
    clock: HurriedClock,
    ran: bool,
    remembers: bool,
    since: bool,
    copies: int,
    noted: bool,
) -> None:
    server._waits, server.remembers = 1000, remembers
    server.fault = lambda _, what: "killed before" if server.created and what.startswith("PATCH") and not noted else ""
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: seen(1)(server) if noted else server.killed.is_set())
    record = server.records["elasticd-restore-u"]["data"]
    if not since:
        del record["since"]
    assert server.pod is not None
    if ran:
        server.pod = {**server.pod, "status": {"phase": "Running"}}
    server.take_away()
    server._waits, server.fault = 0, lambda *_: ""
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: not server.records)
        await until(lambda: not one.underway)
    assert len(server.created) == copies
    if since:
        (asked,) = server.api.asked("WATCH", PODS)
        assert (asked.query["fieldSelector"], asked.query["resourceVersion"]) == (
            "metadata.name=batch",
            "9" if noted else "7",
        )


async def test_copies_that_never_run_are_made_less_often_and_reported(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    made = list[float]()

    def note(step: int, what: str) -> str:
        if what == "POST pods":
            made.append(clock.now())
        return ""

    server._waits, server.fault = 10_000, note
    server.fate = lambda copy: bound(copy, phase="Failed", reason="OutOfcpu")
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: len(made) == 5, within=30)
        pauses = [later - before for before, later in itertools.pairwise(made)]
        assert all(pause >= least for pause, least in zip(pauses, (0, 10, 20, 40), strict=True))
        await until(lambda: "5 copies of it went before they ran; now: gone" in one.fault)
        server.fate = lambda copy: {**copy, "status": {"phase": "Running"}}
        await until(lambda: server.made(6), within=30)
        await until(lambda: not one.fault)


async def test_what_a_copy_waits_for_on_its_node_is_told(server: Server, session: Session, clock: HurriedClock) -> None:
    image = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    server._waits = 1000
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
    server._waits, server.fate = 1000, once(lambda copy: bound(copy, phase="Failed", reason="Evicted"))
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        api.on("POST", f"{POD}/eviction", status(403, "Forbidden", "may not evict"))
        await until(lambda: "it ended before it ran, and stays: 403 Forbidden: may not evict" in one.fault)
        assert [step.step for step in one.underway] == ["ended before it ran"]
        api.on("POST", f"{POD}/eviction", server._step(server._evict))
        await until(lambda: server.made(2))


async def test_fate_of_a_copy_is_asked_again_after_server_errors(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    server._waits = 1000
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: server.records and seen(1)(server))
        api.on("WATCH", PODS, status(500, "InternalError", "no"), b"{", server._step(server._remember))
        server.take_away()
        server._waits = 0
        await until(lambda: server.made(2))
    assert len(api.asked("WATCH", PODS)) == 3


async def test_copy_moved_before_running_is_left_to_its_own_record(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    server._waits = 1000
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(lambda: server.records and seen(1)(server))
        server.pod = running(
            "moved-on", labels={"changed": "since"}, annotations={"elasticd.io/restored-from": "new-1"}
        )
        await until(lambda: not one.underway)
    assert (server.records, len(server.created)) == ({}, 1)


async def test_pod_that_waits_long_to_run_keeps_its_record(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one:
        server._waits = 1000
        await one.evict(ACTION, granted)
        await until(lambda: "made anew, on no node for" in one.fault)
        assert server.records
        server._waits = 0
        await until(server.made_anew)


async def test_only_the_daemon_that_owns_the_record_evicts(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    async with daemon(session, clock) as one, daemon(session, clock, identity="two") as other:
        found = await asyncio.gather(one.evict(ACTION, granted), other.evict(ACTION, granted))
        assert sorted(answer.reason for answer in found) == ["", "UnderWay"]
        await until(server.made_anew)
    assert server.evictions == 1


async def test_daemon_that_lost_the_lead_writes_nothing_but_the_record(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    leads = True
    async with daemon(session, clock, leads=lambda: leads) as one:
        server.fault = lambda number, what: "lost" if what == "POST eviction" else ""
        task = asyncio.create_task(one.evict(ACTION, granted))
        await until(lambda: server.evictions)
        leads = False
        await task
        await until(lambda: len([step for step in server.steps if step == "GET elasticd-restore-u"]) > 3)
        assert (server.created, list(server.records)) == ([], ["elasticd-restore-u"])
        server.steps.clear()
        server.records.clear()
        await until(lambda: not one.underway)


async def test_a_record_that_another_daemon_has_written_since_stays(
    server: Server, session: Session, clock: HurriedClock
) -> None:
    """This one claimed the pod, stood still, and found on waking that it leads no more."""

    def stood_still() -> Answer:
        (record,) = server.records.values()
        record["metadata"]["uid"], record["data"]["by"] = "record-of-two", "two"
        return NOT_LEADING

    async with daemon(session, clock) as one:
        assert await one.evict(ACTION, lambda: stood_still() if server.records else None) == NOT_LEADING
    assert list(server.records) == ["elasticd-restore-u"]


async def test_unreadable_records_are_reported_and_malformed_ones_left_alone(
    api: FakeApi, server: Server, session: Session, clock: HurriedClock
) -> None:
    odd = {"metadata": {"name": "elasticd-restore-x"}, "data": {"uid": "x", "pod": "{"}}
    other = {"metadata": {"name": "mine"}, "data": {"uid": "x", "pod": '{"metadata":{"name":"a"}}'}}
    empty = {"metadata": {"name": "elasticd-restore-y"}}
    api.on("GET", RECORDS, status(403, "Forbidden", "may not"), b"[]", {"items": [odd, other, empty]})
    async with daemon(session, clock, resumes=True) as one:
        await until(lambda: one.fault == "what has yet to be made anew cannot be looked for: 403 Forbidden: may not")
        told = "no records of pods to be made anew, left alone: elasticd-restore-x, mine, elasticd-restore-y"
        await until(lambda: one.fault == told)
    assert len(api.asked("GET", RECORDS)) == 3
    assert server.untouched()
