"""Creating and deleting Jobs: each once, whatever the server answers."""

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.base.clock import ServerTime
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.job_store import JobStore
from elasticd.cluster.kubernetes.wire.jobs import DECISION, SET, TEMPLATE
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.cluster.kubernetes.write.jobs import Jobs
from elasticd.decision.workload.jobs import grow
from elasticd.model.actions import Answer, Create, Remove
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Reply, Say, drop, status
from tests.kit.batches import HASH, MANIFEST, TRANSCODE
from tests.kit.batches import SET as TEMPLATED

JOBS = "/apis/batch/v1/namespaces/media/jobs"
ACTION = Create(TRANSCODE, str(TRANSCODE), 0, 1, "queue", HASH, 1, "decision-1", MANIFEST)
NAME = f"transcode-{HASH}-1"
THERE = status(409, "AlreadyExists", f'jobs.batch "{NAME}" already exists')


def wire(name: str = NAME, uid: str = "u1", set_name: str = "transcode", **more: Any) -> dict[str, Any]:
    """A Job as the API shows it."""
    labels = {SET: set_name, TEMPLATE: HASH} if set_name else {}
    meta = {"name": name, "namespace": "media", "uid": uid, "labels": labels, "resourceVersion": "1"}
    times = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": {**meta, **times, **more.pop("metadata", {})}, "spec": {}, "status": {}, **more}


class Server:
    """A scripted server that keeps Jobs: it creates, refuses a name twice, reads and deletes by UID."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.jobs: dict[str, dict[str, Any]] = {}
        self.posted: list[str] = []
        self.faults: list[Callable[[str], Reply | None]] = []
        """Asked before each POST: what to answer in place of the truth. `after` does it all the same."""
        api.on("POST", JOBS, self._create)
        for number in range(1, 10):
            api.on("GET", f"{JOBS}/transcode-{HASH}-{number}", self.read)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body = self.api.seen[-1].body
        name = body["metadata"]["name"]
        self.posted.append(name)
        fault = self.faults.pop(0)(name) if self.faults else None
        if fault is not None:
            return await self._say(request, fault)
        if name in self.jobs:
            return await self._say(request, THERE)
        self.keep(name)
        return await self._say(request, Say(201, self.jobs[name]))

    async def read(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        found = self.jobs.get(name)
        return await self._say(request, found if found is not None else status(404, "NotFound", "none"))

    async def _say(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        if callable(reply):
            return await reply(request)
        said = reply if isinstance(reply, Say) else Say(200, reply)
        return web.json_response(said.body, status=said.code, headers=said.headers)

    def keep(self, name: str, **more: Any) -> None:
        """The Job is there."""
        self.jobs[name] = wire(name, f"uid-{name}", **more)

    def lose(self, reply: Reply, *, after: bool) -> None:
        """Let a POST be carried out or not, and answer something else."""

        def fault(name: str) -> Reply:
            if after:
                self.keep(name)
            return reply

        self.faults.append(fault)


class Bench:
    """A writer of Jobs on the scripted server."""

    def __init__(self, api: FakeApi, session: Session, clock: HurriedClock) -> None:
        self.server, self.store = Server(api), JobStore(clock.now)
        self.jobs = Jobs(session, Budget(clock, 1000, 200), clock, ServerTime(clock), self.store)

    async def create(self, action: Create = ACTION, allowed: Allowed = lambda: None) -> Answer:
        return await self.jobs.create(action, allowed)

    async def remove(self, *jobs: tuple[str, str], before: int = 0, after: int = 0) -> Answer:
        action = Remove(TRANSCODE, str(TRANSCODE), before, after, "HistoryLimit", jobs)
        return await self.jobs.remove(action, lambda: None)

    def known(self) -> list[str]:
        """The Jobs that a decision would see now."""
        return [job.name for job in self.store.get(TRANSCODE).jobs]


@pytest.fixture
def bench(api: FakeApi, session: Session, clock: HurriedClock) -> Bench:
    return Bench(api, session, clock)


async def test_jobs_are_created_with_the_labels_that_identify_them(api: FakeApi, bench: Bench) -> None:
    assert await bench.create(replace(ACTION, before=4, after=6, first=3)) == Answer("done", 201)
    bodies = [seen.body for seen in api.asked("POST", JOBS)]
    assert [body["metadata"]["name"] for body in bodies] == [f"transcode-{HASH}-3", f"transcode-{HASH}-4"]
    meta, pod = bodies[0]["metadata"], bodies[0]["spec"]["template"]
    assert meta["labels"] == {SET: "transcode", TEMPLATE: HASH}
    assert meta["annotations"] == {DECISION: "decision-1"}
    assert pod["metadata"]["labels"] == {SET: "transcode"}
    assert pod["spec"]["restartPolicy"] == "Never"


async def test_what_was_created_is_known_before_anybody_decides_again(bench: Bench) -> None:
    await bench.create(replace(ACTION, after=2))
    found = bench.store.get(TRANSCODE)
    assert (found.replicas, [job.number for job in found.jobs]) == (2, [1, 2])


LOST = [
    pytest.param(drop, id="the connection is cut"),
    pytest.param(status(500, "InternalError", "oops"), id="500"),
    pytest.param(status(504, "Timeout", "took too long"), id="504"),
    pytest.param(Say(201, {"metadata": 7}), id="an answer that is no Job"),
]


@pytest.mark.parametrize("reply", LOST)
async def test_created_job_whose_reply_was_lost_is_found_by_name(bench: Bench, reply: Reply) -> None:
    bench.server.lose(reply, after=True)
    assert await bench.create() == Answer("done", 200, "1 had been created before")
    assert bench.server.posted == [NAME]
    assert bench.known() == [NAME]


@pytest.mark.parametrize("reply", LOST)
async def test_job_is_looked_for_before_it_is_created_again(api: FakeApi, bench: Bench, reply: Reply) -> None:
    bench.server.lose(reply, after=False)
    assert await bench.create() == Answer("done", 201)
    asked = [(seen.method, seen.path.rpartition("/")[2]) for seen in api.seen if "jobs" in seen.path]
    assert asked == [("POST", "jobs"), ("GET", NAME), ("POST", "jobs")]
    assert list(bench.server.jobs) == [NAME]


async def test_create_request_that_arrives_late_creates_no_second_job(api: FakeApi, bench: Bench) -> None:
    """The request was under way while the name was looked for: the second is refused, and the Job is ours."""
    bench.server.lose(drop, after=False)

    async def late(request: web.Request) -> web.StreamResponse:
        bench.server.keep(NAME)
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)

    api.on("GET", f"{JOBS}/{NAME}", late, bench.server.read)
    assert await bench.create() == Answer("done", 200, "1 had been created before")
    assert list(bench.server.jobs) == [NAME]


async def test_whoever_decides_the_same_again_creates_only_what_is_missing(bench: Bench) -> None:
    """A daemon died after two of five Jobs; the next one sees none of them yet and makes the same names."""
    for number in (1, 2):
        bench.server.keep(f"transcode-{HASH}-{number}")
    assert await bench.create(replace(ACTION, after=5)) == Answer("done", 201, "2 had been created before")
    assert sorted(bench.server.jobs) == [f"transcode-{HASH}-{number}" for number in range(1, 6)]
    assert len(bench.known()) == 5


async def test_retry_after_a_server_failure_uses_the_same_job_name(api: FakeApi, bench: Bench) -> None:
    bench.server.lose(drop, after=True)
    api.on("GET", f"{JOBS}/{NAME}", drop)
    answer = await bench.create()
    assert (answer.result, answer.code, answer.reason) == ("failed", 0, "NoReply")
    assert answer.message.endswith(f"whether {NAME} was created cannot be read back")
    assert bench.known() == []
    api.on("GET", f"{JOBS}/{NAME}", bench.server.read)
    assert (await bench.create()).result == "done"
    assert list(bench.server.jobs) == [NAME]


@pytest.mark.parametrize(
    ("there", "message"),
    [
        pytest.param({"set_name": "other"}, "is not of this set", id="another-set's"),
        pytest.param({"set_name": ""}, "is not of this set", id="nobody's"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is being deleted", id="going"),
    ],
)
async def test_name_that_is_taken_by_another_is_a_conflict(bench: Bench, there: dict[str, Any], message: str) -> None:
    bench.server.keep(NAME, **there)
    answer = await bench.create()
    assert (answer.result, answer.code) == ("conflict", 409)
    assert message in answer.message


@pytest.mark.parametrize("owner", ["other", ""])
async def test_the_next_try_passes_over_a_name_that_is_taken(bench: Bench, owner: str) -> None:
    for number in (1, 2):
        bench.server.keep(f"transcode-{HASH}-{number}", set_name=owner)
    results = []
    for _ in range(3):
        action = replace(grow(TEMPLATED, bench.store.get(TRANSCODE), 1, "queue", "decision"), manifest=MANIFEST)
        results.append((await bench.create(action)).result)
    assert results == ["conflict", "conflict", "done"]
    assert bench.known() == [f"transcode-{HASH}-3"]


async def test_job_being_deleted_is_known_and_reserves_its_number(bench: Bench) -> None:
    bench.server.keep(NAME, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    await bench.create()
    assert bench.known() == [NAME]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(status(403, "Forbidden", 'User "x" cannot create resource "jobs"'), "Forbidden", id="no-right"),
        pytest.param(status(404, "NotFound", 'namespaces "media" not found'), "NotFound", id="no-namespace"),
        pytest.param(status(422, "Invalid", "spec.template is invalid"), "Invalid", id="invalid"),
    ],
)
async def test_refusal_is_reported_and_ends_the_action(bench: Bench, reply: Say, reason: str) -> None:
    bench.server.lose(reply, after=False)
    answer = await bench.create(replace(ACTION, after=3))
    assert (answer.result, answer.code, answer.reason) == ("failed", reply.code, reason)
    assert reply.body["message"] in answer.message
    assert len(bench.server.posted) == 1


async def test_part_that_was_created_counts_and_the_rest_is_reported(bench: Bench) -> None:
    bench.server.faults += [lambda _: None, lambda _: None, lambda _: status(403, "Forbidden", "the quota is spent")]
    answer = await bench.create(replace(ACTION, before=4, after=9))
    assert (answer.result, answer.reason, answer.after) == ("done", "Partly", 6)
    assert answer.message.startswith("2 of 5 Jobs are there: 403 Forbidden: the quota is spent")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(status(409, "Conflict", "resourcequotas: the object has been modified"), id="quota-conflict"),
        pytest.param(status(429, "TooManyRequests", "slow down", retryAfterSeconds=1), id="429"),
    ],
)
async def test_what_passes_is_tried_again_under_the_same_name(bench: Bench, reply: Say) -> None:
    bench.server.lose(reply, after=False)
    assert await bench.create() == Answer("done", 201)
    assert bench.server.posted == [NAME, NAME]


async def test_what_does_not_pass_is_given_up_after_four_writes(bench: Bench) -> None:
    for _ in range(4):
        bench.server.lose(status(409, "Conflict", "the quota is busy"), after=False)
    assert (await bench.create()).result == "failed"
    assert bench.server.posted == [NAME] * 4


async def test_who_no_longer_leads_creates_no_more(bench: Bench) -> None:
    answers = iter([None, NOT_LEADING])
    answer = await bench.create(replace(ACTION, after=3), lambda: next(answers))
    assert (answer.result, answer.reason, answer.after) == ("done", "Partly", 1)
    assert await bench.create(replace(ACTION, after=3), lambda: NOT_LEADING) == NOT_LEADING


async def test_spent_budget_creates_nothing(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    server = Server(api)
    writer = Jobs(session, Budget(clock, 0.001, 1), clock, ServerTime(clock), JobStore(clock.now))
    answer = await writer.create(replace(ACTION, after=2), lambda: None)
    assert (answer.reason, answer.after, len(server.posted)) == ("Partly", 1, 1)


async def test_jobs_are_deleted_by_uid_and_their_pods_with_them(api: FakeApi, bench: Bench) -> None:
    await bench.create(replace(ACTION, after=2))
    api.on("DELETE", f"{JOBS}/{NAME}", {"status": "Success"})
    assert await bench.remove((NAME, f"uid-{NAME}")) == Answer("done", 200, "deleted 1 Jobs")
    (seen,) = api.asked("DELETE", f"{JOBS}/{NAME}")
    assert seen.body == {"preconditions": {"uid": f"uid-{NAME}"}, "propagationPolicy": "Background"}
    assert bench.known() == [f"transcode-{HASH}-2"]


@pytest.mark.parametrize("code", [404, 409], ids=["it-is-gone", "another-has-its-name"])
async def test_what_is_there_no_longer_counts_as_deleted(api: FakeApi, bench: Bench, code: int) -> None:
    api.on("DELETE", f"{JOBS}/{NAME}", status(code))
    assert (await bench.remove((NAME, "u1"))).result == "done"


@pytest.mark.parametrize(("before", "after", "left"), [(3, 1, 2), (3, 3, 3)], ids=["in-flight", "ended"])
async def test_deletion_that_breaks_off_says_how_far_it_came(
    api: FakeApi, bench: Bench, before: int, after: int, left: int
) -> None:
    api.on("DELETE", f"{JOBS}/a", {})
    api.on("DELETE", f"{JOBS}/b", status(403, "Forbidden", "no right"))
    answer = await bench.remove(("a", "u"), ("b", "v"), before=before, after=after)
    assert (answer.result, answer.reason, answer.after) == ("failed", "Forbidden", left)
    assert answer.message == "1 of 2 Jobs were deleted: 403 Forbidden: no right"


async def test_who_no_longer_leads_deletes_no_more(api: FakeApi, bench: Bench) -> None:
    action = Remove(TRANSCODE, str(TRANSCODE), 2, 0, "TemplateChanged", (("a", "u"), ("b", "v")))
    api.on("DELETE", f"{JOBS}/a", {})
    answers = iter([None, NOT_LEADING])
    answer = await bench.jobs.remove(action, lambda: next(answers))
    assert (answer.result, answer.reason, answer.after) == ("refused", "NotLeader", 1)
    assert not api.asked("DELETE", f"{JOBS}/b")


async def test_history_deletion_awaits_write_budget_but_template_deletion_does_not(
    api: FakeApi, session: Session, clock: HurriedClock
) -> None:
    writer = Jobs(session, Budget(clock, 0.01, 2), clock, ServerTime(clock), JobStore(clock.now))
    api.on("DELETE", f"{JOBS}/a", {})
    history = Remove(TRANSCODE, "", 1, 1, "HistoryLimit", (("a", "u"), ("a", "u")))
    assert (await writer.remove(history, lambda: None)).message.startswith("1 of 2 Jobs were deleted")
    old = Remove(TRANSCODE, "", 1, 0, "TemplateChanged", (("a", "u"),))
    assert (await writer.remove(old, lambda: None)).result == "done"
