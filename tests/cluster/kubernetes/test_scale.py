"""Scaling: once, and only what was judged, whatever the server answers."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from elasticd.base.tasks import cancel
from elasticd.cluster.kubernetes.session import Session
from elasticd.cluster.kubernetes.watch.discovery import Discovery
from elasticd.cluster.kubernetes.wire.objects import WireScale
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.cluster.kubernetes.write.scale import AT_ONCE, KEPT, Scaler
from elasticd.kit.surge import SURGE
from elasticd.model.actions import Answer, Evict, Scale
from elasticd.model.workload import Ref, Workload
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Say, connect, drop, hang, page, scale, status, until

PATH = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
WORKLOAD = PATH.removesuffix("/scale")
OBJECTS = "/apis/apps/v1/namespaces/shop/deployments"
ACTION = Scale(Ref("shop", "Deployment", "web"), "u", "5", before=3, after=6, reason="busy")
CONFLICT = status(409, "Conflict", "the object has been modified")


class Bench:
    """A scaler, what it was told to have been written, and its clock."""

    def __init__(self, session: Session, clock: HurriedClock, rate: float = 1000) -> None:
        self.clock = clock
        self.written: list[int] = []
        self.scaler = Scaler(session, Discovery(session), Budget(clock, rate, 2), clock, self._note)

    def _note(self, _: Scale, answer: WireScale) -> None:
        self.written.append(answer.replicas)

    async def scale(self, action: Scale = ACTION, allowed: Allowed = lambda: None) -> Answer:
        """Carry it out."""
        return await self.scaler.scale(action, allowed)


def marked(version: str = "8", **annotations: str) -> dict[str, Any]:
    """A list of the workload's metadata, which has these annotations of elasticd's."""
    notes = {f"elasticd.io/{name}": text for name, text in annotations.items()}
    return page({"metadata": {"name": "web", "namespace": "shop", "resourceVersion": version, "annotations": notes}})


@pytest.fixture
def bench(api: FakeApi, session: Session, clock: HurriedClock) -> Bench:
    """A scaler on the fake server."""
    api.on("GET", OBJECTS, marked())
    return Bench(session, clock)


async def test_count_is_patched_with_uid_and_version_as_precondition(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, scale(6))
    assert await bench.scale() == Answer("done", 200)
    (seen,) = api.asked("PATCH", PATH)
    assert seen.body == {"metadata": {"uid": "u", "resourceVersion": "5"}, "spec": {"replicas": 6}}
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
    assert bench.written == [6]


async def test_status_update_meanwhile_is_no_conflict(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, CONFLICT, scale(6))
    api.on("GET", PATH, scale(3, version="8"))
    assert await bench.scale() == Answer("done", 200)
    versions = [seen.body["metadata"]["resourceVersion"] for seen in api.asked("PATCH", PATH)]
    assert versions == ["5", "8"]


async def test_a_repeated_write_has_the_version_of_the_marks(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, CONFLICT, scale(6))
    api.on("GET", PATH, scale(3, version="9"))
    await bench.scale()
    assert api.asked("PATCH", PATH)[1].body["metadata"]["resourceVersion"] == "8"
    (listed,) = api.asked("GET", OBJECTS)
    assert listed.query == {"fieldSelector": "metadata.name=web"}
    assert "as=PartialObjectMetadataList" in listed.headers["Accept"]


UP, DOWN = ACTION, Scale(ACTION.workload, "u", "5", before=6, after=3, reason="calm")
MOVE = Scale(ACTION.workload, "u", "5", before=3, after=4, reason="elasticd.io/surge up")
ANEW = "it changed: whether it is being rolled out is judged anew"
LOWER = replace(DOWN, reason="elasticd.io/surge down", removes=Evict(Ref("shop", "Pod", "old", "v1"), "old", "a"))


@pytest.mark.parametrize(
    ("action", "marks", "message"),
    [
        pytest.param(UP, {"fenced": "by anna"}, "it is annotated elasticd.io/fenced: by anna", id="fence"),
        pytest.param(UP, {"freeze": "both"}, "it is annotated elasticd.io/freeze: both", id="freeze"),
        pytest.param(UP, {"freeze": "up; by anna"}, "it is annotated elasticd.io/freeze: up; by anna", id="freeze up"),
        pytest.param(UP, {"freeze": "??"}, "it is annotated elasticd.io/freeze: ??", id="unreadable"),
        pytest.param(UP, {"freeze": "down"}, "", id="up while it may not go down"),
        pytest.param(DOWN, {"freeze": "up"}, "", id="down while it may not go up"),
        pytest.param(DOWN, {"freeze": "down"}, "it is annotated elasticd.io/freeze: down", id="freeze down"),
        pytest.param(UP, {"freeze": "both; until 2001-01-01T00:00:00Z"}, "", id="a freeze that is over"),
        pytest.param(MOVE, {"surge": "{}", "freeze": "both"}, "", id="a pod that is being moved"),
        pytest.param(
            LOWER, {"surge": "{}", "freeze": "down"}, "it is annotated elasticd.io/freeze: down", id="its last step"
        ),
        pytest.param(LOWER, {"surge": "{}"}, ANEW, id="its last step, as a rollout may have begun"),
        pytest.param(
            replace(LOWER, removes=None), {"surge": "{}", "freeze": "down"}, ANEW, id="it is taken back, likewise"
        ),
        pytest.param(MOVE, {}, "somebody has removed its annotation elasticd.io/surge", id="a move without its note"),
    ],
)  # fmt: skip
async def test_a_mark_written_meanwhile_is_a_conflict(
    api: FakeApi, bench: Bench, action: Scale, marks: dict[str, str], message: str
) -> None:
    api.on("GET", OBJECTS, marked(**marks))
    api.on("PATCH", PATH, CONFLICT, scale(action.after))
    api.on("GET", PATH, scale(action.before))
    answer = await bench.scale(action)
    assert (answer.result, answer.message) == ("conflict" if message else "done", message)
    assert len(api.asked("PATCH", PATH)) == (1 if message else 2)


@pytest.mark.parametrize(
    ("counted", "now", "message"),
    [
        pytest.param(4, 4, "", id="as many"),
        pytest.param(4, 3, "", id="fewer"),
        pytest.param(4, 10, "its controller counts 10 pods, not 4", id="more"),
        pytest.param(None, 10, "", id="it is no fall"),
    ],
)
async def test_a_fall_is_judged_anew_where_more_pods_are_counted(
    api: FakeApi, bench: Bench, counted: int | None, now: int, message: str
) -> None:
    """All watches may have fallen silent in a growth: it was judged by some of the pods."""
    api.on("PATCH", PATH, CONFLICT, scale(DOWN.after))
    api.on("GET", PATH, scale(DOWN.before) | {"status": {"replicas": now}})
    answer = await bench.scale(replace(DOWN, counted=counted))
    assert (answer.result, answer.message) == ("conflict" if message else "done", message)


@pytest.mark.parametrize(("label", "message"), [("web", ""), ("api", "its labels have changed")])
async def test_a_label_that_was_changed_meanwhile_is_a_conflict(
    api: FakeApi, session: Session, clock: HurriedClock, label: str, message: str
) -> None:
    """A policy may have selected the workload by it."""
    listed = marked()
    listed["items"][0]["metadata"]["labels"] = {"app": "web"}
    api.on("GET", OBJECTS, listed)
    api.on("PATCH", PATH, CONFLICT, scale(DOWN.after))
    api.on("GET", PATH, scale(DOWN.before))
    known = Workload(DOWN.workload, "u", "5", 6, labels={"app": label})
    discovery, budget = Discovery(session), Budget(clock, 1000, 2)
    scaler = Scaler(session, discovery, budget, clock, lambda action, answer: None, lambda _: known)
    answer = await scaler.scale(DOWN, lambda: None)
    assert (answer.result, answer.message) == ("conflict" if message else "done", message)


async def test_a_fence_that_a_rollback_brought_back_is_none(api: FakeApi, bench: Bench) -> None:
    listed = marked(fenced="by anna")
    owned: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:elasticd.io/fenced": {}}}}
    listed["items"][0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    listed["items"][0]["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Update", "fieldsV1": owned}]
    api.on("GET", OBJECTS, listed)
    api.on("PATCH", PATH, CONFLICT, scale(ACTION.after))
    api.on("GET", PATH, scale(ACTION.before))
    assert (await bench.scale()).result == "done"


async def test_a_workload_that_vanished_from_its_list_is_gone(api: FakeApi, bench: Bench) -> None:
    api.on("GET", OBJECTS, page())
    api.on("PATCH", PATH, CONFLICT)
    api.on("GET", PATH, scale(3))
    assert await bench.scale() == Answer("conflict", 404, "it is gone", "NotFound")


@pytest.mark.parametrize(
    ("now", "code", "message"),
    [
        pytest.param(scale(4), 409, "it has 4 replicas, not 3", id="another count"),
        pytest.param(scale(0), 409, "it has 0 replicas, not 3", id="paused by a person"),
        pytest.param(scale(3, uid="other"), 409, "it was deleted and recreated", id="another uid"),
        pytest.param(status(404, "NotFound", "gone"), 404, "cannot be read again", id="gone"),
        pytest.param(status(500, "InternalError", "boom"), 500, "cannot be read again", id="unreadable"),
        pytest.param({"metadata": 7}, 500, "no Scale", id="garbage"),
    ],
)
async def test_conflict_is_reported_and_nothing_is_written_again(
    api: FakeApi, bench: Bench, now: Any, code: int, message: str
) -> None:
    api.on("PATCH", PATH, CONFLICT)
    api.on("GET", PATH, now)
    answer = await bench.scale()
    assert (answer.result, answer.code) == ("conflict", code)
    assert message in answer.message
    assert len(api.asked("PATCH", PATH)) == 1
    assert bench.written == []


async def test_a_conflict_with_the_count_that_was_wanted_is_ours(api: FakeApi, bench: Bench) -> None:
    """A proxy may have sent it twice, and given the second answer: rates and budgets count it."""
    api.on("PATCH", PATH, CONFLICT)
    api.on("GET", PATH, scale(6))
    answer = await bench.scale()
    assert (answer.result, answer.code, bench.written) == ("done", 409, [6])
    assert len(api.asked("PATCH", PATH)) == 1


async def test_a_count_there_before_any_write_is_a_conflict(api: FakeApi, bench: Bench) -> None:
    """Nothing of elasticd's was under way: what another has set counts in none of its budgets."""
    api.on("GET", PATH, scale(6))
    answer = await bench.scale(replace(ACTION, version=""))
    assert (answer.result, answer.message) == ("conflict", "it has 6 replicas, not 3")
    assert (bench.written, api.asked("PATCH", PATH)) == ([], [])


async def test_conflict_that_never_ends_is_given_up_after_four_writes(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, CONFLICT)
    api.on("GET", PATH, scale(3, version="8"))
    assert await bench.scale() == Answer("conflict", 409, "it changed 4 times while it was being written", "Conflict")
    assert len(api.asked("PATCH", PATH)) == 4


async def test_workload_that_is_gone_is_a_conflict(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, status(404, "NotFound", "no such"))
    assert await bench.scale() == Answer("conflict", 404, "it is gone", "NotFound")


def lost(api: FakeApi, *, applied: bool, code: int | None) -> Any:
    """A write that is carried out or not, and whose reply does not arrive, or is a 5xx."""

    async def handle(request: web.Request) -> web.StreamResponse:
        api.on("GET", PATH, scale(6 if applied else 3, version="9"))
        if code is None:
            return await drop(request)
        return web.json_response({"kind": "Status", "reason": "Broken", "message": "oops"}, status=code)

    return handle


@pytest.mark.parametrize("code", [None, 500, 502, 504])
async def test_lost_reply_of_a_completed_write_is_read_back(api: FakeApi, bench: Bench, code: int | None) -> None:
    api.on("PATCH", PATH, lost(api, applied=True, code=code))
    answer = await bench.scale()
    assert (answer.result, answer.code) == ("done", code or 0)
    assert "but it was carried out" in answer.message
    assert bench.written == [6]
    assert len(api.asked("PATCH", PATH)) == 1


@pytest.mark.parametrize("code", [None, 500, 502, 504])
async def test_lost_reply_of_an_uncompleted_write_is_a_failure(api: FakeApi, bench: Bench, code: int | None) -> None:
    api.on("PATCH", PATH, lost(api, applied=False, code=code))
    answer = await bench.scale()
    assert (answer.result, answer.code) == ("failed", code or 0)
    assert answer.message.endswith("it was not carried out")
    assert len(api.asked("PATCH", PATH)) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        pytest.param({}, "it was not carried out", id="who may"),
        pytest.param(
            status(403, "Forbidden", "no"),
            "it was not carried out, but may be later: 403 Forbidden: no",
            id="who may not",
        ),
    ],
)
async def test_a_lost_scale_in_is_given_up_for_good(
    api: FakeApi, bench: Bench, reply: dict[str, Any], message: str
) -> None:
    """As the workload is changed, a server refuses it, however late it comes."""
    api.on("PATCH", PATH, drop)
    api.on("GET", PATH, scale(6))
    api.on("PATCH", WORKLOAD, reply)
    answer = await bench.scale(DOWN)
    assert (answer.result, answer.code) == ("failed", 0)
    assert answer.message.endswith(message)
    (seen,) = api.asked("PATCH", WORKLOAD)
    assert seen.query == {"fieldManager": "elasticd"}
    assert seen.body is not None
    assert seen.body["metadata"]["uid"] == "u"
    assert seen.body["metadata"]["annotations"].keys() == {KEPT}


async def test_a_former_leader_gives_up_no_lost_scale_in(api: FakeApi, bench: Bench) -> None:
    answers = iter([None, NOT_LEADING])
    api.on("PATCH", PATH, drop)
    api.on("GET", PATH, scale(6))
    answer = await bench.scale(DOWN, lambda: next(answers))
    assert answer.message.endswith("it was not carried out, but may be later: not the leader")
    assert not api.asked("PATCH", WORKLOAD)


@pytest.mark.parametrize(
    ("action", "allowed", "gives_up"),
    [
        pytest.param(DOWN, lambda: None, True, id="a scale-in"),
        pytest.param(ACTION, lambda: None, False, id="a scale-out"),
        pytest.param(DOWN, lambda: NOT_LEADING, False, id="another leads by now"),
    ],
)
@pytest.mark.parametrize("lost", [False, True], ids=["no answer yet", "being read back"])
async def test_a_scale_in_that_is_cut_off_is_given_up(
    api: FakeApi, bench: Bench, action: Scale, allowed: Allowed, gives_up: bool, lost: bool
) -> None:
    api.on("PATCH", PATH, drop if lost else hang)
    api.on("GET", PATH, hang)
    api.on("PATCH", WORKLOAD, {})
    answers = [None]
    writing = asyncio.create_task(bench.scale(action, lambda: answers.pop() if answers else allowed()))
    await until(lambda: api.asked("GET" if lost else "PATCH", PATH))
    await cancel(writing)
    assert writing.cancelled()
    assert bool(api.asked("PATCH", WORKLOAD)) is gives_up


@pytest.mark.parametrize(
    ("now", "result", "message"),
    [
        pytest.param(scale(9), "conflict", "it has 9 replicas, not 3", id="a third count"),
        pytest.param(scale(6, uid="other"), "conflict", "recreated", id="another uid"),
        pytest.param(status(404), "conflict", "it is gone", id="gone"),
        pytest.param(status(503, "Down", "down"), "failed", "cannot be read back", id="never readable"),
    ],
)
async def test_lost_reply_is_judged_by_what_is_there(
    api: FakeApi, bench: Bench, now: Any, result: str, message: str
) -> None:
    api.on("PATCH", PATH, drop)
    api.on("GET", PATH, now)
    answer = await bench.scale()
    assert answer.result == result
    assert message in answer.message


async def test_reading_back_is_tried_until_the_server_is_there_again(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, drop)
    api.on("GET", PATH, status(503), status(503), scale(6))
    assert (await bench.scale()).result == "done"


async def test_server_that_cannot_be_reached_has_not_been_written_to(
    api: FakeApi, session: Session, bench: Bench
) -> None:
    api.on("PATCH", PATH, scale(6))
    await bench.scale()
    await api.stop()
    answer = await bench.scale()
    assert (answer.result, answer.code, answer.reason) == ("failed", 0, "NoReply")


@pytest.mark.parametrize("code", [429, 503])
async def test_write_is_repeated_once_after_the_retry_after_pause(api: FakeApi, bench: Bench, code: int) -> None:
    api.on("PATCH", PATH, Say(code, {"reason": "Busy"}, {"Retry-After": "7"}), scale(6))
    began = bench.clock.now()
    assert await bench.scale() == Answer("done", 200)
    assert bench.clock.now() - began >= 7
    assert api.asked("GET", PATH) == []


FALL = replace(ACTION, after=1)


@pytest.mark.parametrize(
    ("action", "code", "seconds", "reason"),
    [
        pytest.param(FALL, 429, 4, "", id="a short while"),
        pytest.param(FALL, 429, 7, "BudgetSpent", id="load may be back"),
        pytest.param(FALL, 503, 7, "", id="it may have been carried out"),
        pytest.param(ACTION, 429, 7, "", id="more replicas may be needed yet"),
        pytest.param(replace(FALL, reason=f"{SURGE} down"), 429, 7, "", id="it ends a surge"),
    ],
)
async def test_a_fall_that_waited_for_long_is_judged_anew(
    api: FakeApi, bench: Bench, action: Scale, code: int, seconds: int, reason: str
) -> None:
    """Where the server asks for quiet, or `writes_per_second` is small. It takes no turn from others."""
    quiet = Say(code, {"reason": "Busy"}, {"Retry-After": str(seconds)})
    api.on("PATCH", PATH, quiet, scale(action.after))
    answer = await bench.scale(action)
    assert answer.reason == reason
    assert len(api.asked("PATCH", PATH)) == (1 if reason else 2)


async def test_a_fall_that_took_long_to_read_is_judged_anew(api: FakeApi, bench: Bench) -> None:
    async def slow(_: web.Request) -> web.Response:
        await bench.clock.sleep_until(bench.clock.now() + 6)
        return web.json_response(scale(3, version="8"))

    api.on("PATCH", PATH, CONFLICT, scale(1))
    api.on("GET", PATH, slow)
    assert (await bench.scale(FALL)).reason == "Outdated"


async def test_falls_that_would_be_too_old_take_no_turns(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    """Else many at once would use up all turns of a small `writes_per_second`, and none be sent for good."""
    api.on("GET", OBJECTS, marked())
    api.on("PATCH", PATH, scale(1))
    bench = Bench(session, clock, rate=1)
    answers = await asyncio.gather(*(bench.scale(FALL) for _ in range(20)))
    told = Counter(answer.reason for answer in answers)
    assert told[""] == len(api.asked("PATCH", PATH))
    assert told["BudgetSpent"] >= 12, "but two at once, and one a second for five seconds"


async def test_a_write_carried_out_despite_a_503_is_done(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, Say(503, {"message": "busy"}, {"Retry-After": "1"}), CONFLICT)
    api.on("GET", PATH, scale(6, version="9"))
    answer = await bench.scale()
    assert (answer.result, answer.code) == ("done", 503)
    assert bench.written == [6]


async def test_count_set_by_somebody_during_the_pause_is_a_conflict(api: FakeApi, bench: Bench) -> None:
    quiet = Say(429, {"message": "busy"}, {"Retry-After": "1"})
    for refusal, count in ((quiet, 5), (Say(503, quiet.body, quiet.headers), 9)):
        api.on("PATCH", PATH, refusal, CONFLICT)
        api.on("GET", PATH, scale(count, version="9"))
        answer = await bench.scale()
        assert (answer.result, answer.message) == ("conflict", f"it has {count} replicas, not 3")


async def test_long_pause_is_kept_and_the_write_read_back(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, Say(503, {"message": "down"}, {"Retry-After": "3600"}))
    api.on("GET", PATH, scale(3))
    answer = await bench.scale()
    assert (answer.result, answer.code, answer.reason) == ("failed", 503, "ServerError")
    assert (await bench.scale()).reason == "TooManyRequests"
    assert len(api.asked("PATCH", PATH)) == 1


async def test_second_refusal_for_quiet_is_the_answer(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, Say(429, {"message": "slow down"}, {"Retry-After": "1"}))
    assert await bench.scale() == Answer("failed", 429, "slow down", "TooManyRequests")
    assert len(api.asked("PATCH", PATH)) == 2


async def test_pause_longer_than_a_write_may_wait_fails_at_once(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, Say(429, {"message": "slow down"}, {"Retry-After": "31"}))
    assert await bench.scale() == Answer("failed", 429, "slow down", "TooManyRequests")
    assert (await bench.scale()).result == "refused"  # the quiet that was asked for is kept
    assert len(api.asked("PATCH", PATH)) == 1


async def test_a_pause_of_a_day_is_about_one_object(api: FakeApi, bench: Bench) -> None:
    other = PATH.replace("/web/", "/api/")
    api.on("PATCH", PATH, Say(429, {"message": "slow down"}, {"Retry-After": "86400"}))
    api.on("PATCH", other, scale(6))
    assert await bench.scale() == Answer("failed", 429, "slow down", "TooManyRequests")
    began = bench.clock.now()
    answer = await bench.scale()
    assert (answer.result, answer.reason) == ("failed", "TooManyRequests")
    assert answer.message.startswith("the server asked not to repeat it for another ")
    assert await bench.scale(replace(ACTION, workload=Ref("shop", "Deployment", "api"))) == Answer("done", 200)
    assert bench.clock.now() - began < 30
    assert len(api.asked("PATCH", PATH)) == 1


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        pytest.param(403, "Forbidden", 'User "x" cannot patch deployments/scale', id="no right"),
        pytest.param(422, "Invalid", "spec.replicas: must be <= 5", id="refused by admission"),
        pytest.param(400, "BadRequest", "what?", id="not understood"),
    ],
)
async def test_refusal_is_reported_in_the_servers_words(
    api: FakeApi, bench: Bench, code: int, reason: str, message: str
) -> None:
    api.on("PATCH", PATH, status(code, reason, message))
    answer = await bench.scale()
    assert (answer.result, answer.code, answer.message, answer.reason) == ("failed", code, message, reason)
    assert len(api.asked("PATCH", PATH)) == 1


async def test_leadership_lost_while_a_write_waits_stops_the_write(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, scale(6))
    assert await bench.scale(allowed=lambda: NOT_LEADING) == NOT_LEADING
    assert api.asked("PATCH", PATH) == []


async def test_leadership_is_asked_before_a_repeated_write_too(api: FakeApi, bench: Bench) -> None:
    api.on("PATCH", PATH, CONFLICT)
    api.on("GET", PATH, scale(3, version="8"))
    answers = iter([None, NOT_LEADING])
    assert (await bench.scale(allowed=lambda: next(answers))).result == "refused"
    assert len(api.asked("PATCH", PATH)) == 1


async def test_spent_budget_refuses(api: FakeApi, session: Session, clock: HurriedClock) -> None:
    api.on("PATCH", PATH, scale(6))
    bench = Bench(session, clock, rate=0.01)
    answers = [(one.result, one.reason) for one in [await bench.scale() for _ in range(3)]]
    assert answers == [("done", ""), ("done", ""), ("refused", "BudgetSpent")]


async def test_kind_that_cannot_be_scaled_has_failed_with_the_reason(bench: Bench) -> None:
    action = Scale(Ref("shop", "Deploymant", "web"), "u", "5", 3, 6, "")
    assert await bench.scale(action) == Answer(
        "failed", 404, 'apps/v1 has no kind "Deploymant", did you mean "Deployment"?', "UnknownKind"
    )


async def test_action_without_a_version_reads_one_as_its_precondition(api: FakeApi, bench: Bench) -> None:
    api.on("GET", PATH, scale(3, version="8"))
    api.on("PATCH", PATH, scale(6))
    action = Scale(ACTION.workload, "u", "", 3, 6, "")
    assert (await bench.scale(action)).result == "done"
    assert api.asked("PATCH", PATH)[0].body["metadata"]["resourceVersion"] == "8"


class Busy:
    """A server that answers when it is let, and counts who asks at a time."""

    def __init__(self) -> None:
        self.gate, self.full = asyncio.Event(), asyncio.Event()
        self.asking = self.most = 0

    async def __call__(self, _: web.Request) -> web.StreamResponse:
        self.asking += 1
        self.most = max(self.most, self.asking)
        if self.asking == AT_ONCE:
            self.full.set()
        await self.gate.wait()
        self.asking -= 1
        return web.json_response(scale(6))


async def test_simultaneous_writes_are_limited_to_a_few_at_a_time(api: FakeApi, tmp_path: Path) -> None:
    busy = Busy()
    api.on("PATCH", PATH, busy)
    clock = HurriedClock()
    async with connect(api, tmp_path, timeout=30.0) as session:
        scaler = Scaler(session, Discovery(session), Budget(clock, 1e4, 10_000), clock, lambda action, answer: None)
        writing = [asyncio.create_task(scaler.scale(ACTION, lambda: None)) for _ in range(100)]
        await busy.full.wait()
        busy.gate.set()
        assert set(await asyncio.gather(*writing)) == {Answer("done", 200)}
    assert busy.most == AT_ONCE


async def test_leadership_lost_while_a_write_waits_for_others_stops_it(api: FakeApi, tmp_path: Path) -> None:
    busy, leading = Busy(), True
    api.on("PATCH", PATH, busy)
    clock = HurriedClock()
    async with connect(api, tmp_path, timeout=30.0) as session:
        scaler = Scaler(session, Discovery(session), Budget(clock, 1e4, 10_000), clock, lambda action, answer: None)
        writing = [
            asyncio.create_task(scaler.scale(ACTION, lambda: None if leading else NOT_LEADING))
            for _ in range(AT_ONCE + 5)
        ]
        await busy.full.wait()
        leading = False
        busy.gate.set()
        answers = await asyncio.gather(*writing)
    assert answers.count(NOT_LEADING) == 5
    assert len(api.asked("PATCH", PATH)) == AT_ONCE


async def test_counts_that_hang_leave_slots_to_other_namespaces(api: FakeApi, tmp_path: Path) -> None:
    busy, clock = Busy(), HurriedClock()
    api.on("PATCH", PATH, busy)
    api.on("PATCH", PATH.replace("shop", "other"), scale(6))
    async with connect(api, tmp_path, timeout=30.0) as session:
        scaler = Scaler(session, Discovery(session), Budget(clock, 1e4, 10_000), clock, lambda action, answer: None)
        writing = [asyncio.create_task(scaler.scale(ACTION, lambda: None)) for _ in range(100)]
        await busy.full.wait()
        elsewhere = replace(ACTION, workload=replace(ACTION.workload, namespace="other"))
        assert await scaler.scale(elsewhere, lambda: None) == Answer("done", 200)
        assert busy.asking == AT_ONCE
        busy.gate.set()
        await asyncio.gather(*writing)


async def test_through_an_hour_of_errors_each_outcome_is_true(api: FakeApi, bench: Bench) -> None:
    """A change every 15 s; errors come before, or after, what was asked for has been done."""
    chance, count, version, carried = Random(21), 3, 5, 0

    def fails() -> bool:
        return chance.random() < 0.025

    def error() -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Trouble"}, status=chance.choice((500, 502, 503, 504)))

    async def write(request: web.Request) -> web.StreamResponse:
        nonlocal count, version, carried
        asked = await request.json()
        if fails():
            return error()
        if asked["metadata"]["resourceVersion"] != str(version):
            return web.json_response({"kind": "Status", "reason": "Conflict"}, status=409)
        count, version, carried = asked["spec"]["replicas"], version + 1, carried + 1
        return error() if fails() else web.json_response(scale(count, version=str(version)))

    async def read(_: web.Request) -> web.StreamResponse:
        return error() if fails() or fails() else web.json_response(scale(count, version=str(version)))

    async def annotations(_: web.Request) -> web.StreamResponse:
        return web.json_response(marked(version=str(version)))

    api.on("PATCH", PATH, write)
    api.on("GET", PATH, read)
    api.on("GET", OBJECTS, annotations)
    results = Counter[str]()
    for number in range(240):
        wanted = 1 + number % 9
        before, judged = count, replace(ACTION, version=str(version), before=count, after=wanted)
        answer = await bench.scale(judged)
        results[answer.result] += 1
        assert count == (wanted if answer.result == "done" else before)
    assert len(api.asked("PATCH", PATH)) > carried, "there were errors"
    assert results == {"done": carried, "failed": 240 - carried}, "what failed is decided anew"
    assert 225 < carried < 240
