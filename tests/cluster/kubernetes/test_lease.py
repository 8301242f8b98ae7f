"""Leader election: one leader at a time, by each candidate's own clock."""

import asyncio
import math
from typing import Any

import pytest
from aiohttp import web

from elasticd.base.clock import VirtualClock
from elasticd.cluster.kubernetes.lease import DISRUPTED, HOLDER, POLICIES, Elector, LeaseSettings
from elasticd.cluster.kubernetes.session import Session
from tests.cluster.kubernetes.fake import FakeApi, drop, status

LEASES = "/apis/coordination.k8s.io/v1/namespaces/home/leases"
LEASE = f"{LEASES}/elasticd"
SETTINGS = LeaseSettings(namespace="home")


class LeaseServer:
    """One Lease, kept as the API keeps it: with versions, and with conflicts."""

    def __init__(self, api: FakeApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.twice = False
        """Whether a proxy sends each write twice, and gives the second answer."""
        self._version = 0
        api.on("GET", LEASE, self._get)
        api.on("POST", LEASES, self.create)
        api.on("PUT", LEASE, self.update)

    @property
    def spec(self) -> dict[str, Any]:
        """What it says now."""
        assert self.lease is not None
        found: dict[str, Any] = self.lease["spec"]
        return found

    @property
    def annotations(self) -> dict[str, str]:
        """What is noted in it."""
        assert self.lease is not None
        return self.lease["metadata"].get("annotations") or {}

    def write(self, lease: dict[str, Any]) -> None:
        """Keep it, as a new version."""
        self._version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self._version)}}

    def steal(self, holder: str) -> None:
        """Let a stranger take it."""
        assert self.lease is not None
        self.write({**self.lease, "spec": {**self.spec, "holderIdentity": holder}})

    async def _get(self, _: web.Request) -> web.StreamResponse:
        if self.lease is None:
            return web.json_response({"kind": "Status", "reason": "NotFound"}, status=404)
        return web.json_response(self.lease)

    async def create(self, request: web.Request) -> web.StreamResponse:
        if self.lease is not None:
            return web.json_response({"kind": "Status", "reason": "AlreadyExists"}, status=409)
        self.write(await request.json())
        return await self.create(request) if self.twice else web.json_response(self.lease, status=201)

    async def update(self, request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        if self.lease is None:
            return web.json_response({"kind": "Status", "reason": "NotFound"}, status=404)
        if sent["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            return web.json_response({"kind": "Status", "reason": "Conflict"}, status=409)
        self.write(sent)
        return await self.update(request) if self.twice else web.json_response(self.lease)


class Pair:
    """Two candidates, each with a clock of its own."""

    def __init__(self, session: Session, server: LeaseServer) -> None:
        self.server = server
        self.clocks = [VirtualClock(1000.0), VirtualClock(999_000.0)]
        self.one, self.two = (
            Elector(session, clock, SETTINGS, name) for clock, name in zip(self.clocks, "ab", strict=True)
        )

    async def wait(self, seconds: float) -> None:
        """Let time pass for both."""
        for clock in self.clocks:
            await clock.sleep_until(clock.now() + seconds)

    @property
    def leading(self) -> tuple[bool, bool]:
        """Whether each leads."""
        return self.one.leading, self.two.leading


@pytest.fixture
async def pair(api: FakeApi, session: Session) -> Pair:
    """Two candidates, of whom the first leads and the second has seen it."""
    found = Pair(session, LeaseServer(api))
    assert found.leading == (False, False)
    await found.one.step()
    await found.two.step()
    assert found.leading == (True, False)
    return found


@pytest.mark.parametrize(
    ("passed", "leads"),
    [
        pytest.param(SETTINGS.renew - 0.1, True, id="a short pause"),
        pytest.param(SETTINGS.renew, False, id="others may lead by now"),
        pytest.param(-3600.0, True, id="the time was set back"),
    ],
)
async def test_who_was_paused_with_its_clock_leads_no_more(
    api: FakeApi, session: Session, passed: float, leads: bool
) -> None:
    """As a virtual machine that is moved or saved: only the time of day tells."""
    LeaseServer(api)
    time_of_day = 1e9
    elector = Elector(session, VirtualClock(1000.0), SETTINGS, "a", lambda: time_of_day)
    await elector.step()
    assert elector.leading
    time_of_day += passed
    assert elector.leading is leads
    await elector.step()
    assert elector.leading


@pytest.mark.parametrize("is_new", [False, True], ids=["renewed", "new"])
async def test_a_lease_that_is_written_twice_is_held(
    pair: Pair, caplog: pytest.LogCaptureFixture, *, is_new: bool
) -> None:
    """A proxy gives the second answer, 409: the first was carried out."""
    pair.server.twice = True
    if is_new:
        pair.server.lease = None
    for _ in range(10):
        await pair.wait(2)
        await pair.one.step()
        await pair.two.step()
        assert pair.leading == (True, False)
    assert "another elasticd" not in caplog.text


async def test_a_leader_that_sees_nothing_lets_another_lead(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.one.why_blind = lambda: "the API server does not answer about Pods"
    for _ in range(9):
        await pair.wait(2)
        await pair.one.step()
        await pair.two.step()
    assert (pair.leading, pair.two.abandoned) == ((False, True), -math.inf)
    assert pair.one.fault == "the API server does not answer about Pods"
    assert caplog.text.count("does not answer") == 1
    pair.one.why_blind = lambda: ""
    await pair.one.step()
    assert (pair.leading, pair.one.fault) == ((False, True), "")


async def test_who_sees_nothing_leads_again_where_no_other_does(pair: Pair) -> None:
    pair.one.why_blind = lambda: "the API server does not answer about Pods"
    await pair.wait(20)
    await pair.one.step()
    assert pair.leading == (False, False)
    pair.one.why_blind = lambda: ""
    await pair.one.step()
    assert (pair.leading, pair.one.abandoned) == ((True, False), -math.inf)


async def test_first_candidate_makes_the_lease(pair: Pair) -> None:
    assert pair.server.spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "1970-01-01T00:16:40.000000Z",
        "renewTime": "1970-01-01T00:16:40.000000Z",
        "leaseTransitions": 0,
    }
    assert (pair.one.leader, pair.two.leader) == ("a", "a")


async def test_leader_renews_with_one_request_and_keeps_its_acquire_time(api: FakeApi, pair: Pair) -> None:
    before = len(api.seen)
    await pair.wait(2)
    await pair.one.step()
    assert [seen.method for seen in api.seen[before:]] == ["PUT"]
    assert pair.server.spec["renewTime"] == "1970-01-01T00:16:42.000000Z"
    assert pair.server.spec["acquireTime"] == "1970-01-01T00:16:40.000000Z"
    assert pair.server.spec["leaseTransitions"] == 0


async def test_leader_that_cannot_renew_stops_before_others_may_start(api: FakeApi, pair: Pair) -> None:
    api.on("PUT", LEASE, status(500, "InternalError", "etcd is down"))
    await pair.wait(9.9)
    await pair.one.step()
    assert pair.leading == (True, False)
    await pair.wait(0.1)
    assert pair.leading == (False, False)
    assert pair.one.fault == "500 InternalError: etcd is down"


async def test_candidate_takes_over_a_lease_unrenewed_for_its_duration(pair: Pair) -> None:
    await pair.wait(14.9)
    await pair.two.step()
    assert pair.leading == (False, False)
    await pair.wait(0.1)
    await pair.two.step()
    assert pair.leading == (False, True)
    assert (pair.server.spec["holderIdentity"], pair.server.spec["leaseTransitions"]) == ("b", 1)
    await pair.one.step()
    assert pair.leading == (False, True)


async def test_candidate_waits_anew_after_each_renewal_of_the_leader(pair: Pair) -> None:
    for _ in range(10):
        await pair.wait(8)
        await pair.one.step()
        await pair.two.step()
        assert pair.leading == (True, False)


async def test_newcomer_waits_a_whole_duration_even_for_an_old_lease(session: Session, pair: Pair) -> None:
    await pair.wait(100)
    clock = VirtualClock(5e9)
    newcomer = Elector(session, clock, SETTINGS, "c")
    await newcomer.step()
    await clock.sleep_until(5e9 + 14)
    await newcomer.step()
    assert not newcomer.leading
    await clock.sleep_until(5e9 + 15)
    await newcomer.step()
    assert newcomer.leading


async def test_stolen_lease_ends_leading_at_the_next_renewal(pair: Pair) -> None:
    pair.server.steal("stranger")
    await pair.wait(2)
    await pair.one.step()
    assert pair.leading == (False, False)
    assert pair.one.leader == "stranger"


async def test_a_lease_that_ran_out_has_no_leader(api: FakeApi, pair: Pair) -> None:
    """As where the server does not answer: who led last does no more, and it may be this one."""
    api.on("GET", LEASE, status(503, "Unavailable", "no etcd"))
    api.on("PUT", LEASE, status(503, "Unavailable", "no etcd"))
    await pair.wait(14)
    assert (pair.one.leader, pair.two.leader) == ("a", "a")
    await pair.wait(1)
    assert (pair.leading, pair.one.leader, pair.two.leader) == ((False, False), "", "")


async def test_deleted_lease_goes_to_the_first_candidate_to_recreate_it(pair: Pair) -> None:
    pair.server.lease = None
    await pair.two.step()
    assert pair.two.leading
    await pair.one.step()
    assert pair.leading == (False, True)


async def test_deleted_lease_that_nobody_took_is_recreated_by_its_leader(pair: Pair) -> None:
    pair.server.lease = None
    await pair.one.step()
    assert pair.leading == (True, False)
    assert pair.server.spec["leaseTransitions"] == 0


async def test_leader_frozen_for_long_does_not_lead_when_it_wakes(pair: Pair) -> None:
    await pair.wait(30)
    assert not pair.one.leading
    await pair.two.step()
    await pair.one.step()
    assert pair.leading == (False, True)


async def test_renewal_counts_from_before_its_request(session: Session, api: FakeApi) -> None:
    clock = VirtualClock(1000.0)
    server = LeaseServer(api)

    async def slow(request: web.Request) -> web.StreamResponse:
        await clock.sleep_until(1004.0)
        return await server.create(request)

    api.on("POST", LEASES, slow)
    elector = Elector(session, clock, SETTINGS, "a")
    await elector.step()
    assert clock.now() == 1004
    await clock.sleep_until(1009.9)
    assert elector.leading
    await clock.sleep_until(1010)
    assert not elector.leading


async def test_renewal_whose_reply_was_lost_is_found_by_reading(api: FakeApi, pair: Pair) -> None:
    async def applied(request: web.Request) -> web.StreamResponse:
        await pair.server.update(request)
        return await drop(request)

    # A PUT whose connection broke is repeated by the HTTP client, and then conflicts with itself.
    api.on("PUT", LEASE, applied, applied, pair.server.update)
    await pair.wait(2)
    await pair.one.step()
    await pair.one.step()
    assert pair.leading == (True, False)
    assert pair.one.fault == ""
    await pair.wait(9)
    assert pair.one.leading


async def test_only_one_of_two_simultaneous_candidates_leads(pair: Pair) -> None:
    await pair.wait(20)
    await asyncio.gather(pair.one.step(), pair.two.step())
    assert sorted(pair.leading) == [False, True]
    holder = pair.server.spec["holderIdentity"]
    assert pair.leading == (holder == "a", holder == "b")


async def test_released_lease_is_taken_over_at_once(pair: Pair) -> None:
    await pair.one.release()
    assert not pair.one.leading
    assert "holderIdentity" not in pair.server.spec
    await pair.two.step()
    assert pair.leading == (False, True)
    assert pair.server.spec["leaseTransitions"] == 1


async def test_a_lease_is_released_even_after_an_interrupted_renewal(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    assert pair.server.lease is not None
    pair.server.write(pair.server.lease)
    with caplog.at_level("INFO"):
        await pair.one.release()
    assert "holderIdentity" not in pair.server.spec
    assert "not released" not in caplog.text


async def test_a_holder_knows_whether_another_held_the_lease_before(session: Session, pair: Pair) -> None:
    await pair.one.step()
    assert pair.one.taken_over == pair.clocks[0].now()  # nobody knows who may have acted before
    await pair.one.release()
    again = Elector(session, pair.clocks[0], SETTINGS, "a")
    await pair.wait(100)
    await again.step()
    assert (again.leading, again.taken_over) == (True, pair.one.taken_over)
    await again.release()
    await pair.two.step()
    assert pair.two.taken_over == pair.clocks[1].now()
    await pair.two.release()
    await again.step()
    assert again.taken_over == pair.clocks[0].now()


async def test_a_holder_knows_when_its_name_last_disturbed_a_pod(session: Session, pair: Pair) -> None:
    pair.one.note_disruption()
    last = pair.clocks[0].now()
    await pair.wait(2)
    await pair.one.step()
    again = Elector(session, pair.clocks[0], SETTINGS, "a")
    assert again.last_disruption == -math.inf
    await again.step()
    await pair.wait(16)
    await again.step()
    assert (again.leading, again.last_disruption) == (True, last)
    await pair.wait(2)
    again.note_disruption()  # after the last renewal
    await again.release()
    await pair.two.step()
    assert (pair.two.leading, pair.two.last_disruption) == (True, pair.clocks[1].now())
    await pair.two.release()
    third = Elector(session, pair.clocks[0], SETTINGS, "a")
    await third.step()
    assert (third.leading, third.last_disruption) == (True, again.last_disruption)


async def test_a_successor_knows_how_long_ago_a_pod_went(session: Session, pair: Pair) -> None:
    pair.one.note_disruption()
    await pair.wait(700)
    await pair.one.step()
    await pair.wait(2)
    await pair.one.release()
    await pair.wait(50)
    await pair.two.step()
    assert pair.two.last_disruption == pytest.approx(pair.clocks[1].now() - 702)  # or up to 50 s before that
    again = Elector(session, pair.clocks[1], SETTINGS, "b")
    await pair.wait(16)
    await again.step()
    await pair.wait(16)
    await again.step()
    assert (again.leading, again.last_disruption) == (True, pair.two.last_disruption)


@pytest.mark.parametrize("moved", [True, False])
async def test_a_leader_that_died_may_have_moved_until_then(pair: Pair, moved: bool) -> None:
    if moved:
        pair.one.note_disruption()
    await pair.wait(700)
    await pair.one.step()
    await pair.two.step()
    await pair.wait(16)
    await pair.two.step()
    assert (pair.two.leading, pair.two.last_disruption) == (True, pair.clocks[1].now() if moved else -math.inf)


@pytest.mark.parametrize(
    ("moved", "released", "abandoned"),
    [
        pytest.param(True, False, True, id="it died"),
        pytest.param(True, True, False, id="it released the lease"),
        pytest.param(False, False, False, id="it died, and had moved none"),
    ],
)
@pytest.mark.parametrize("name", ["a", "b"], ids=["itself, started again", "another"])
async def test_a_successor_knows_whether_a_lease_was_abandoned(
    session: Session, pair: Pair, name: str, moved: bool, released: bool, abandoned: bool
) -> None:
    if moved:
        pair.one.note_disruption()
    await pair.wait(2)
    await pair.one.step()
    if released:
        await pair.one.release()
    later = Elector(session, pair.clocks[1], SETTINGS, name)
    await later.step()
    await pair.wait(16)
    await later.step()
    began = pair.clocks[1].now()
    assert (later.leading, later.abandoned) == (True, began if abandoned else -math.inf)
    await pair.wait(2)
    await later.step()
    assert later.abandoned == (began if abandoned else -math.inf), "not by a renewal"


async def test_a_lease_that_was_deleted_is_taken_as_abandoned(pair: Pair) -> None:
    """What it said last need not have been seen."""
    pair.one.note_disruption()
    await pair.wait(2)
    await pair.one.step()
    pair.server.lease = None
    await pair.two.step()
    began = pair.clocks[1].now()
    assert (pair.two.leading, pair.two.abandoned, pair.two.last_disruption) == (True, began, began)
    await pair.wait(2)
    await pair.two.step()
    assert (pair.two.abandoned, pair.two.last_disruption) == (began, began)


async def test_the_first_lease_of_all_is_not_taken_as_abandoned(pair: Pair) -> None:
    assert (pair.one.leading, pair.one.abandoned, pair.one.last_disruption) == (True, -math.inf, -math.inf)


@pytest.mark.parametrize("note", ["a soon", "of a third 5.0"])
async def test_a_note_that_says_nothing_counts_as_just_now(pair: Pair, note: str) -> None:
    await pair.one.release()
    assert pair.server.lease is not None
    pair.server.lease["metadata"]["annotations"][DISRUPTED] = note
    await pair.two.step()
    assert (pair.two.leading, pair.two.last_disruption) == (True, pair.clocks[1].now())


async def test_the_first_disruption_is_told_before_it_is_done(pair: Pair) -> None:
    await pair.one.step()
    assert DISRUPTED not in pair.server.annotations
    assert await pair.one.foretell_disruption() == ""
    assert pair.server.annotations[DISRUPTED] == "a 1000.000"
    await pair.wait(1)
    assert await pair.one.foretell_disruption() == ""  # the renewals tell of later ones
    assert pair.server.annotations[DISRUPTED] == "a 1000.000"


async def test_a_disruption_during_a_renewal_is_told_of_too(pair: Pair, api: FakeApi) -> None:
    """The renewal that is under way does not say so, and the next one fails."""

    async def meanwhile(request: web.Request) -> web.StreamResponse:
        pair.one.note_disruption()
        return await pair.server.update(request)

    api.on("PUT", LEASE, meanwhile, status(500, "InternalError", "no etcd"))
    await pair.one.step()
    assert "no etcd" in await pair.one.foretell_disruption()
    assert DISRUPTED not in pair.server.annotations


async def test_no_first_disruption_without_a_lease_that_tells(pair: Pair) -> None:
    await pair.one.step()
    pair.server.steal("b")
    assert await pair.one.foretell_disruption() == "another daemon leads"
    assert DISRUPTED not in pair.server.annotations


@pytest.mark.parametrize("moved", [True, False])
async def test_after_a_restore_of_etcd_a_pod_may_have_gone(pair: Pair, moved: bool) -> None:
    """Who led after the backup may have moved it."""
    if moved:
        pair.one.note_disruption()
    await pair.one.step()
    await pair.wait(700)
    await pair.one.step()
    await pair.one.release()
    backup = pair.server.lease
    await pair.two.step()
    assert pair.two.last_disruption == (pair.clocks[1].now() - 700 if moved else -math.inf)
    await pair.two.release()
    pair.server.lease = backup
    await pair.wait(100)
    await pair.two.step()
    assert (pair.two.leading, pair.two.last_disruption) == (True, pair.clocks[1].now())


async def test_where_the_notes_are_gone_a_pod_may_have(pair: Pair) -> None:
    pair.one.note_disruption()
    await pair.one.step()
    await pair.wait(700)
    assert pair.server.lease is not None
    del pair.server.lease["metadata"]["annotations"]
    await pair.two.step()
    await pair.wait(16)
    await pair.two.step()
    assert (pair.two.leading, pair.two.last_disruption) == (True, -math.inf), "nobody has moved any, as far as it knows"
    await pair.two.release()
    await pair.one.step()
    assert (pair.one.leading, pair.one.last_disruption) == (True, pair.clocks[0].now())


async def test_a_predecessors_disruption_is_not_ahead_of_our_clock(pair: Pair) -> None:
    pair.one.note_disruption()
    await pair.one.step()
    await pair.one.release()
    assert pair.server.lease is not None
    pair.server.lease["metadata"]["annotations"][DISRUPTED] = "a 1e9"  # its clock was set back since
    await pair.two.step()
    assert (pair.two.leading, pair.two.last_disruption) == (True, pair.clocks[1].now())


async def test_a_disruption_is_never_ahead_of_the_clock(session: Session, pair: Pair) -> None:
    pair.one.note_disruption()
    await pair.one.step()
    await pair.one.release()
    again = Elector(session, VirtualClock(500.0), SETTINGS, "a")
    await again.step()
    assert (again.leading, again.last_disruption) == (True, 500.0)


async def test_a_takeover_is_never_ahead_of_the_clock(session: Session, pair: Pair) -> None:
    """Else budgets would count as spent until a clock that was set back has passed it."""
    await pair.one.step()
    began = pair.one.taken_over
    await pair.one.release()
    clock = VirtualClock(began - 5000)
    again = Elector(session, clock, SETTINGS, "a")
    await again.step()
    assert (again.leading, again.taken_over) == (True, clock.now())
    await clock.sleep_until(began - 4000)
    await again.step()
    assert again.taken_over == began - 5000


async def test_a_takeover_whose_reply_was_lost_is_remembered(api: FakeApi, pair: Pair) -> None:
    await pair.one.step()
    await pair.two.step()
    await pair.wait(20)

    async def applied(request: web.Request) -> web.StreamResponse:
        await pair.server.update(request)
        api.on("PUT", LEASE, pair.server.update)
        return await drop(request)

    api.on("PUT", LEASE, applied)
    await pair.two.step()
    began = pair.clocks[1].now()
    await pair.wait(1)
    await pair.two.step()
    assert (pair.two.leading, pair.two.taken_over) == (True, began)


@pytest.mark.parametrize("note", ["b 7", "a soon", "a nan", "a", "", "b"])
async def test_an_unknown_last_holder_counts_as_another(pair: Pair, note: str) -> None:
    await pair.one.step()
    await pair.one.release()
    lease = pair.server.lease
    assert lease is not None
    lease["metadata"]["annotations"][HOLDER] = note
    await pair.wait(50)
    await pair.one.step()
    assert pair.one.taken_over == pair.clocks[0].now()


async def test_a_lease_stolen_and_taken_back_was_another_s(pair: Pair) -> None:
    await pair.one.step()
    began = pair.one.taken_over
    pair.server.steal("stranger")
    await pair.one.step()
    for _ in range(2):
        await pair.wait(16)
        await pair.one.step()
    assert pair.one.leading
    assert pair.one.taken_over > began


async def test_lease_that_another_holds_by_now_is_not_released(pair: Pair) -> None:
    pair.server.steal("stranger")
    await pair.one.release()
    assert pair.server.spec["holderIdentity"] == "stranger"


async def test_candidate_that_does_not_lead_releases_nothing(api: FakeApi, pair: Pair) -> None:
    before = len(api.seen)
    await pair.two.release()
    assert len(api.seen) == before


async def test_release_that_fails_harms_nothing(api: FakeApi, pair: Pair) -> None:
    api.on("PUT", LEASE, status(500))
    await pair.one.release()
    assert not pair.one.leading


async def test_a_count_of_transitions_at_its_end_stays_there(pair: Pair) -> None:
    await pair.one.step()
    assert pair.server.lease is not None
    pair.server.write({**pair.server.lease, "spec": {**pair.server.spec, "leaseTransitions": 2**31 - 1}})
    await pair.two.step()
    await pair.wait(15.1)
    await pair.two.step()
    assert pair.leading == (False, True)
    assert pair.server.spec["leaseTransitions"] == 2**31 - 1


async def test_what_others_wrote_into_the_lease_is_kept(pair: Pair) -> None:
    assert pair.server.lease is not None
    spec = {**pair.server.spec, "strategy": "OldestEmulationVersion"}
    pair.server.write({"metadata": {"name": "elasticd", "labels": {"a": "b"}}, "spec": spec})
    await pair.one.step()
    assert pair.one.leading
    assert pair.server.lease["metadata"]["labels"] == {"a": "b"}
    assert pair.server.spec["strategy"] == "OldestEmulationVersion"


@pytest.mark.parametrize("answer", [b"garbage", {"spec": 7}, {"metadata": {}, "spec": {"holderIdentity": 3}}])
async def test_an_unreadable_lease_is_a_fault_and_nobody_leads(api: FakeApi, session: Session, answer: Any) -> None:
    api.on("GET", LEASE, answer)
    elector = Elector(session, VirtualClock(0), SETTINGS, "a")
    await elector.step()
    assert not elector.leading
    assert elector.fault


async def test_forbidden_lease_is_a_fault_and_nobody_leads(api: FakeApi, session: Session) -> None:
    api.on("GET", LEASE, status(403, "Forbidden", "leases is forbidden"))
    elector = Elector(session, VirtualClock(0), SETTINGS, "a")
    await elector.step()
    assert (elector.leading, elector.fault) == (False, "403 Forbidden: leases is forbidden")


async def test_a_missing_namespace_is_logged_once_with_a_remedy(
    api: FakeApi, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api.on("GET", LEASE, status(404, "NotFound", 'leases.coordination.k8s.io "elasticd" not found'))
    api.on("POST", LEASES, status(404, "NotFound", 'namespaces "home" not found', name="home", kind="namespaces"))
    clock = VirtualClock(0)
    elector = Elector(session, clock, SETTINGS, "a")
    for _ in range(3):
        await elector.step()
    told = (
        'namespace "home" must be there, is not: create it (kubectl create namespace home), name another one '
        "in [cluster.lease] namespace, or set [cluster.lease] enabled = false if no other elasticd acts here"
    )
    assert (elector.leading, elector.fault) == (False, told)
    assert [one.getMessage() for one in caplog.records] == [f"lease home/elasticd: {told}"]
    LeaseServer(api)
    await elector.step()
    assert (elector.leading, elector.fault) == (True, "")


@pytest.mark.parametrize("renewals", [pytest.param(2, id="seconds before"), pytest.param(40, id="long before")])
async def test_a_lease_restored_from_a_backup_runs_out_first(
    pair: Pair, caplog: pytest.LogCaptureFixture, renewals: int
) -> None:
    """Nobody is a twin then, and what was done since the backup is not known. Each tells that versions went back."""
    backup, told = pair.server.lease, list[tuple[str, str]]()
    pair.one.note_rollback = pair.two.note_rollback = lambda *versions: told.append(versions)
    for _ in range(renewals):
        await pair.wait(2)
        await pair.one.step()
        await pair.two.step()
    last, pair.server.lease = pair.server.lease, backup
    await pair.one.step()
    await pair.two.step()
    assert last is not None
    assert backup is not None
    assert told == [tuple(each["metadata"]["resourceVersion"] for each in (last, backup))] * 2
    assert pair.leading == (False, False)
    await pair.wait(14.9)
    await pair.one.step()
    assert pair.leading == (False, False)
    await pair.wait(0.1)
    await pair.one.step()
    await pair.two.step()
    assert pair.leading == (True, False)
    assert pair.one.taken_over == pair.clocks[0].now()
    assert (pair.one.fault, pair.two.fault) == ("", "")
    assert [record.message for record in caplog.records if record.levelname != "INFO"] == []
    await pair.wait(2)
    await pair.one.step()
    assert pair.one.taken_over == pair.clocks[0].now() - 2


class Twins(Pair):
    """Two processes that were given one identity."""

    def __init__(self, session: Session, server: LeaseServer) -> None:
        super().__init__(session, server)
        self.one, self.two = (Elector(session, clock, SETTINGS, "a") for clock in self.clocks)


@pytest.fixture
async def twins(api: FakeApi, session: Session) -> Twins:
    """Two of one identity, of whom the first leads and the second has seen it."""
    found = Twins(session, LeaseServer(api))
    await found.one.step()
    await found.two.step()
    return found


async def test_of_two_processes_with_one_identity_one_leads(twins: Twins, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):
        assert twins.leading == (True, False)
        await twins.wait(2)
        await twins.one.step()
        await twins.two.step()
    text = 'another elasticd leads as "a" too: give each process its own [cluster] identity, or leave it out'
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [text]
    assert (twins.one.fault, twins.two.fault) == ("", text)


async def test_a_twin_is_told_of_no_longer_when_another_leads(twins: Twins) -> None:
    await twins.wait(2)
    await twins.one.step()
    await twins.two.step()
    assert "another elasticd leads as" in twins.two.fault
    twins.server.steal("b")
    await twins.two.step()
    assert (twins.two.leading, twins.two.leader, twins.two.fault) == (False, "b", "")


async def test_a_twin_waits_until_the_lease_ends(twins: Twins) -> None:
    began = twins.one.taken_over
    await twins.wait(14.9)
    await twins.two.step()
    assert twins.leading == (False, False)
    await twins.wait(0.2)
    await twins.two.step()
    assert twins.leading == (False, True)
    assert twins.two.taken_over == began  # as after a restart: nobody else was seen


async def test_a_stopped_leader_wakes_beside_its_replacement(twins: Twins) -> None:
    await twins.wait(16)
    await twins.two.step()
    await twins.one.step()
    assert twins.leading == (False, True)
    assert "another elasticd leads as" in twins.one.fault


async def test_after_a_twin_it_is_unknown_what_was_done(twins: Twins) -> None:
    await twins.wait(16)
    await twins.two.step()
    await twins.one.step()
    await twins.two.release()
    await twins.one.step()
    assert twins.leading == (True, False)
    assert (twins.one.taken_over, twins.one.fault) == (twins.clocks[0].now(), "")


async def test_a_twin_does_not_release_what_it_does_not_hold(twins: Twins) -> None:
    await twins.wait(16)
    await twins.two.step()
    await twins.one.release()
    assert twins.server.spec["holderIdentity"] == "a"
    assert twins.two.leading


async def test_a_restart_under_its_name_waits_for_its_own_lease(session: Session, twins: Twins) -> None:
    again = Elector(session, twins.clocks[0], SETTINGS, "a")
    await again.step()
    assert twins.leading == (True, False)
    await twins.wait(15)
    await again.step()
    assert (again.leading, again.taken_over, again.fault) == (True, twins.one.taken_over, "")


ONE, OTHER = "00ff 1 1", "00fe 0 1"
"""What two daemons' policies come to."""


async def test_a_daemon_that_was_killed_is_no_other_leader(pair: Pair, session: Session) -> None:
    """What the Lease says of its policies is of before its restart."""
    pair.one.policies = OTHER
    await pair.wait(2)
    await pair.one.step()
    again = Elector(session, pair.clocks[0], SETTINGS, "a")
    again.policies = ONE
    await again.step()
    assert (again.leading, again.leader, again.other_policies) == (False, "a", "")


async def test_a_standby_tells_that_the_leader_has_other_policies(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pair.one.policies, pair.two.policies = OTHER, ONE
    for _ in range(3):
        await pair.wait(2)
        await pair.one.step()
        await pair.two.step()
    text = (
        "a leads with other policies than these: 0 of 1 act there, 1 of 1 here, and a digest of all their keys, "
        "defaults included, differs (compare the files, and the versions of elasticd and plugins); all that share the "
        "Lease home/elasticd need the same, and others a Lease of their own"
    )
    assert (pair.one.other_policies, pair.two.other_policies) == ("", text)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [text]
    pair.one.policies = ONE  # reloaded
    await pair.one.step()
    await pair.two.step()
    assert pair.two.other_policies == ""
    pair.one.policies = OTHER
    await pair.one.step()
    await pair.two.step()
    await pair.wait(16)
    assert pair.two.other_policies == ""  # nobody leads
    await pair.two.step()
    assert (pair.leading, pair.two.other_policies) == ((False, True), "")
    await pair.one.step()
    assert pair.one.other_policies.startswith(
        "b leads with other policies than these: 1 of 1 act there, 0 of 1 here, and "
    )


async def test_who_takes_over_and_loses_touch_is_no_other_leader(pair: Pair) -> None:
    pair.one.policies, pair.two.policies = OTHER, ONE
    await pair.one.step()
    await pair.two.step()
    await pair.wait(16)
    await pair.two.step()
    assert pair.leading == (False, True)
    await pair.wait(12)
    assert (pair.two.leading, pair.two.leader, pair.two.other_policies) == (False, "b", "")


@pytest.mark.parametrize(
    "note",
    [
        pytest.param(None, id="an earlier version leads"),
        pytest.param("z 00fe 0 1", id="of who led before"),
        pytest.param("a", id="no policies"),
        pytest.param("a 00fe 0", id="cut off"),
        pytest.param("a 00fe none all", id="no numbers"),
        pytest.param(f"a {ONE}", id="the same"),
    ],
)
async def test_a_leader_that_does_not_say_is_not_told_of(pair: Pair, note: str | None) -> None:
    assert pair.server.lease is not None
    pair.two.policies, meta = ONE, pair.server.lease["metadata"]
    annotations = {**meta.get("annotations", {}), **({} if note is None else {POLICIES: note})}
    pair.server.write({**pair.server.lease, "metadata": {**meta, "annotations": annotations}})
    await pair.two.step()
    assert (pair.two.leader, pair.two.other_policies) == ("a", "")
