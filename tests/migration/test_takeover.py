"""A workload changes hands with one writer at a time, whatever is seen late and wherever the command is killed.

A world in memory: an API server with resource versions, an HPA controller and two daemons of which one leads, each of
which sees objects, and the files of policies, some steps late. One that begins to lead has decided nothing yet, or long
ago.
"""

import asyncio
import copy
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Literal, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Limit, Ref
from elasticd.base.errors import UnavailableError
from elasticd.cluster.kubernetes.objects import Objects
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.cluster.kubernetes.watch.discovery import Resource
from elasticd.cluster.kubernetes.watch.store import to_autoscaler
from elasticd.cluster.kubernetes.wire.objects import WireAutoscaler
from elasticd.decision.workload.zero import REVISION
from elasticd.kit.handover import AUTOSCALER, FENCE, FENCED, STOPPED
from elasticd.migration.takeover import Site, hand_back, is_fenced, take_over
from elasticd.model.policy import Select, Target
from elasticd.model.records import Decision
from elasticd.model.reports import PolicyInForce, StatusReport
from tests.kit.daemons import called
from tests.migration.api_servers import JsonHandler, served

REF = Ref("shop", "Deployment", "web")
THEIRS, OURS = 4, 8
Table = dict[str, Any]
Mode = Literal["act", "observe"] | None
"""Of the policy; None: it was removed."""
OTHER_POLICY = PolicyInForce("other", "act", workload=Target("shop", "other"))


def owned(manager: str) -> Table:
    """What a field manager owns: the fence."""
    return {
        "manager": manager,
        "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{FENCE}": {}}}},
    }


@pytest.mark.parametrize(
    ("meta", "fenced"),
    [
        pytest.param({}, False, id="no fence"),
        pytest.param({"annotations": {FENCE: "x"}}, True, id="a fence"),
        pytest.param({"annotations": {FENCE: "x"}, "managedFields": [owned("elasticd")]}, True, id="of elasticd"),
        pytest.param(
            {"annotations": {FENCE: "x", REVISION: "3"}, "managedFields": [owned("kubectl")]}, False, id="of a rollback"
        ),
    ],
)
def test_a_fence_that_came_with_a_rollback_is_written_anew(meta: Table, *, fenced: bool) -> None:
    assert is_fenced({"metadata": {"name": "web", **meta}}) == fenced


class KilledError(BaseException):
    """The command is killed."""


def merged(table: Any, patch: Any) -> Any:
    """A JSON merge patch. Source: RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(table) if isinstance(table, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class World:
    """Objects with all their versions, and two controllers that see them late."""

    def __init__(self, random: Random) -> None:
        self.random, self.clock = random, 0
        metadata = {"namespace": "shop", "name": "web", "resourceVersion": "0"}
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"minReplicas": 2, "maxReplicas": 10, "scaleTargetRef": target}
        conditions = [{"type": "AbleToScale", "status": "True"}]
        self.versions: dict[str, list[Table]] = {
            "deployments": [{"metadata": metadata, "spec": {"replicas": THEIRS}}],
            "horizontalpodautoscalers": [{"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}],
        }
        self.seen = {(who, plural): 0 for who in ("hpa", "daemon a", "daemon b") for plural in self.versions}
        self.writers: list[str] = []
        self.writes, self.kill_at, self.moment = 0, -1, "after"
        self.latest: dict[str, Decision] = {}
        """The last decision of each daemon that has decided."""
        self.leader, self.in_flight = "daemon a", ""
        self.mode: Mode = "act"
        self.blind = False
        """Whether the daemons do not know what is needed."""
        self.modes: dict[str, Mode] = {"daemon a": "act", "daemon b": "act"}
        """What each daemon has read of it last."""
        self.decide()  # a daemon that has decided nothing yet does not yield, and is refused

    @property
    def decided(self) -> tuple[Limit, ...]:
        """The limits of the last decision of the daemon that leads."""
        return self.latest[self.leader].limits if self.leader in self.latest else ()

    def newest(self, plural: str) -> Table:
        return self.versions[plural][-1]

    def write(self, plural: str, patch: Table) -> None:
        table = merged(self.newest(plural), patch)
        table["metadata"] = {**table["metadata"], "resourceVersion": str(len(self.versions[plural]))}
        self.versions[plural].append(table)

    def view(self, who: str, plural: str) -> Table:
        """What a controller sees: never less than it has seen, perhaps not the newest."""
        newest = len(self.versions[plural]) - 1
        self.seen[who, plural] = self.random.randint(self.seen[who, plural], newest)
        return self.versions[plural][self.seen[who, plural]]

    def step(self) -> None:
        """Time passes: each controller may do something, and now and then a daemon reads the policy, or the other one
        leads."""
        for act in self.random.sample([self.control, self.decide], 2):
            if self.random.random() < 0.7:
                act()
        if self.random.random() < 0.2:
            self.modes[self.random.choice(sorted(self.modes))] = self.mode
        if self.random.random() < 0.1:
            self.lead()

    def control(self) -> None:
        """One pass of the HPA controller: it scales by the HPA that it sees, and then writes its status to that one."""
        hpa = self.view("hpa", "horizontalpodautoscalers")
        wire = msgspec.convert({**hpa, "metadata": {**hpa["metadata"]}}, WireAutoscaler)
        autoscaler = to_autoscaler(wire)
        active = not autoscaler.stopped and not autoscaler.half_stopped and _is_about_web(hpa)
        self.scale("hpa", THEIRS, active=active)
        if hpa is self.newest("horizontalpodautoscalers") and not (hpa.get("status") or {}).get("conditions"):
            self.write("horizontalpodautoscalers", {"status": {"conditions": [{"type": "AbleToScale"}]}})

    def delete_autoscaler(self) -> None:
        """A person deletes the HPA: what there is now is about another workload."""
        self.write("horizontalpodautoscalers", {"spec": {"scaleTargetRef": {"name": "other"}}})

    def scale(self, who: str, count: int, *, active: bool) -> None:
        if active and self.newest("deployments")["spec"]["replicas"] != count:
            self.write("deployments", {"spec": {"replicas": count}})
            self.writers.append(who)

    def lead(self) -> None:
        """The other daemon leads, whatever it has seen of workloads, and has read the HPAs. What the one before it had
        begun may have been carried out. Where it is new it has decided nothing; else what it decided last is old."""
        if self.random.random() < 0.5:
            self.finish()
        self.leader, self.in_flight = "daemon b" if self.leader == "daemon a" else "daemon a", ""
        plural = "horizontalpodautoscalers"
        self.seen[self.leader, plural] = len(self.versions[plural]) - 1
        if self.random.random() < 0.5:
            self.latest.pop(self.leader, None)

    def finish(self) -> None:
        """Carry out what the daemon has begun, unless the workload changed: then only if its count and marks are the
        same (elasticd/cluster/kubernetes/write/scale.py)."""
        version, self.in_flight = self.in_flight, ""
        if version:
            workload = self.newest("deployments")
            same = version == workload["metadata"]["resourceVersion"] or (
                workload["spec"] == self.versions["deployments"][int(version)]["spec"]
                and FENCE not in (workload["metadata"].get("annotations") or {})
            )
            self.scale("daemon", OURS, active=same)

    def decide(self) -> None:
        """One evaluation of the daemon that leads; the action of the one before has ended first. Without a policy there
        is none, and that action may still be under way."""
        mode = self.modes[self.leader]
        if mode is None:
            self.latest.pop(self.leader, None)
            if self.random.random() < 0.3:
                self.finish()
            return
        self.finish()
        workload, hpa = (self.view(self.leader, plural) for plural in ("deployments", "horizontalpodautoscalers"))
        annotations, limits = workload["metadata"].get("annotations") or {}, []
        if FENCE in annotations:
            message = f"the workload is annotated {FENCE}: {annotations[FENCE]}"
            limits.append(Limit("Fenced", message, 4, 4, name=FENCED))
        autoscaler = to_autoscaler(msgspec.convert(hpa, WireAutoscaler))
        if mode == "act" and not autoscaler.stopped and _is_about_web(hpa):
            reason = "HalfStopped" if autoscaler.half_stopped else "ForeignOwner"
            limits.append(Limit(reason, "HorizontalPodAutoscaler web", 4, 4, name=AUTOSCALER))
        replicas = workload["spec"]["replicas"]
        if not limits and replicas != OURS and mode == "act" and not self.blind:
            self.in_flight = workload["metadata"]["resourceVersion"]
        self.latest[self.leader] = Decision(
            "1", 1.0, "web", REF, mode, replicas, replicas, "hold", "", "", limits=tuple(limits), blind=self.blind
        )

    # What the command sees.

    def status(self) -> StatusReport:
        self.step()
        mode, decisions = self.modes[self.leader], [self.latest[self.leader]] if self.leader in self.latest else []
        policies = [OTHER_POLICY, *([PolicyInForce("web", mode, select=Select(("shop",)))] if mode else [])]
        under_way = (REF,) if self.in_flight else ()
        return StatusReport(True, True, False, tuple(decisions), tuple(policies), under_way=under_way)

    async def resource(self, kinds: Sequence[tuple[str, str]]) -> Resource:
        plural = f"{kinds[0][1].lower()}s"
        if plural not in self.versions:
            raise UnavailableError(f"no {plural}")
        return Resource("/apis/x/v1", plural)

    async def get(self, resource: Resource, namespace: str, name: str) -> Table:
        self.step()
        return copy.deepcopy(self.newest(resource.plural))

    async def list(self, resource: Resource, namespace: str) -> list[Table]:
        return [await self.get(resource, namespace, "")]

    async def patch(self, resource: Resource, namespace: str, name: str, body: Table, subresource: str = "") -> Table:
        self.step()
        self.writes += 1
        killed = self.writes == self.kill_at
        if killed and self.moment == "before":
            raise KilledError
        if body["metadata"]["resourceVersion"] != self.newest(resource.plural)["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it changed")
        self.write(resource.plural, body)
        if killed:
            raise KilledError
        self.step()
        return self.newest(resource.plural)


def _is_about_web(hpa: Table) -> bool:
    return bool(hpa["spec"]["scaleTargetRef"]["name"] == "web")


def run(world: World, *, back: bool, kill_at: int, moment: str) -> None:
    """Run the command, killed at one of its writes if it comes to that, and then again to its end."""
    world.writes, world.kill_at, world.moment = 0, kill_at, moment
    for _ in range(2):
        try:
            insist(world, back=back)
        except KilledError:
            world.kill_at = -1


NEW_LEADER = "must have a policy with mode act that has decided, has none|must yield to it now"


def insist(world: World, *, back: bool) -> str:
    """Run the command until no daemon is refused that has just begun to lead."""
    while True:
        try:
            return asyncio.run((hand_back if back else take_over)(site_of(world)))
        except UnavailableError as error:
            if not re.search(NEW_LEADER, str(error)):
                raise
            world.step()


def site_of(world: World, status: Callable[[], StatusReport] | None = None, patience: float = 30.0) -> Site:
    return Site(REF, cast(Objects, world), status or world.status, patience, lambda step: None, 0.0)


def settle(world: World, replicas: int) -> None:
    for _ in range(60):
        world.step()
    assert world.newest("deployments")["spec"]["replicas"] == replicas


MOMENT = st.sampled_from(["before", "after"])


@given(seed=st.integers(0, 10_000), kills=st.tuples(st.integers(0, 6), st.integers(0, 6)), moment=MOMENT)
def test_there_is_one_writer_wherever_it_is_killed(seed: int, kills: tuple[int, int], moment: str) -> None:
    world = World(Random(seed))
    spec = world.newest("horizontalpodautoscalers")["spec"]
    run(world, back=False, kill_at=kills[0], moment=moment)
    settle(world, OURS)
    assert world.writers == ["daemon"]
    run(world, back=True, kill_at=kills[1], moment=moment)
    settle(world, THEIRS)
    assert world.writers == ["daemon", "hpa"]
    assert world.newest("horizontalpodautoscalers")["spec"] == spec
    assert not {FENCE, STOPPED} & {*(world.newest("deployments")["metadata"].get("annotations") or {})}


APPLIED = [
    pytest.param({"maxReplicas": 10, "minReplicas": 2}, {}, id="the same manifest"),
    pytest.param({"maxReplicas": 9, "minReplicas": 3}, {"maxReplicas": 9, "minReplicas": 3}, id="other bounds"),
    pytest.param({"minReplicas": 3}, {"minReplicas": 3}, id="another minimum alone"),
    pytest.param(
        {"maxReplicas": 10, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}},
        {"minReplicas": 1},
        id="no minimum, and a part of behavior",
    ),
    pytest.param(
        {"maxReplicas": 10, "behavior": {"scaleUp": {"selectPolicy": "Min"}, "scaleDown": {"selectPolicy": "Max"}}},
        {"minReplicas": 1, "behavior": {"scaleUp": {"selectPolicy": "Min"}, "scaleDown": {"selectPolicy": "Max"}}},
        id="other policies",
    ),
]


def test_a_way_back_before_the_stop_comes_changes_the_hpa() -> None:
    """The stop of a command that was killed may come late: it names the version of before."""
    world, plural = World(Random(1)), "horizontalpodautoscalers"
    world.kill_at, world.moment = 2, "before"  # the fence is there, the stop is not
    with pytest.raises(KilledError):
        insist(world, back=False)
    before, spec = world.newest(plural)["metadata"]["resourceVersion"], world.newest(plural)["spec"]
    assert STOPPED not in (world.newest(plural)["metadata"].get("annotations") or {})
    world.kill_at = -1
    insist(world, back=True)
    assert world.newest(plural)["metadata"]["resourceVersion"] != before
    assert world.newest(plural)["spec"] == spec


@pytest.mark.parametrize("mends", [True, False], ids=["taken over again", "back at once"])
@pytest.mark.parametrize(("applied", "changes"), APPLIED)
def test_a_manifest_applied_after_a_takeover_is_mended(applied: Table, changes: Table, mends: bool) -> None:
    """What was applied since is what the HPA is in the end."""
    world, plural = World(Random(1)), "horizontalpodautoscalers"
    spec = world.newest(plural)["spec"]
    run(world, back=False, kill_at=-1, moment="after")
    settle(world, OURS)
    world.write(plural, {"spec": applied})
    while not world.decided:
        world.decide()
    if mends:
        run(world, back=False, kill_at=-1, moment="after")
        settle(world, OURS)
        assert to_autoscaler(msgspec.convert(world.newest(plural), WireAutoscaler)).stopped
    run(world, back=True, kill_at=-1, moment="after")
    settle(world, THEIRS)
    assert world.newest(plural)["spec"] == {**spec, **changes}
    assert STOPPED not in (world.newest(plural)["metadata"].get("annotations") or {})


def test_an_hpa_of_a_lower_case_kind_is_taken_over() -> None:
    """As Kubernetes maps it."""
    world, plural = World(Random(1)), "horizontalpodautoscalers"
    world.versions[plural][-1]["spec"]["scaleTargetRef"]["kind"] = "deployment"
    run(world, back=False, kill_at=-1, moment="after")
    settle(world, OURS)
    assert to_autoscaler(msgspec.convert(world.newest(plural), WireAutoscaler)).stopped


def test_without_an_autoscaler_nothing_changes() -> None:
    world = World(Random(1))
    world.versions["horizontalpodautoscalers"][-1]["spec"]["scaleTargetRef"]["name"] = "other"
    site = site_of(world)
    assert asyncio.run(take_over(site)) == "elasticd scales shop/Deployment/web already: no other autoscaler does"
    with pytest.raises(UnavailableError, match="must have an autoscaler to go back to, has none"):
        asyncio.run(hand_back(site))
    assert world.writes == 0


def fenced(world: World) -> bool:
    return FENCE in (world.newest("deployments")["metadata"].get("annotations") or {})


@pytest.mark.parametrize("mode", ["observe", None], ids=["it observes now", "its policy was removed"])
@given(seed=st.integers(0, 10_000), kill_at=st.integers(0, 6), moment=MOMENT, overwritten=st.booleans())
def test_the_way_back_is_open_without_an_acting_policy(
    mode: Mode, seed: int, kill_at: int, moment: str, *, overwritten: bool
) -> None:
    """Also where a daemon has not read yet that the policy changed, or has a write under way."""
    world, plural = World(Random(seed)), "horizontalpodautoscalers"
    spec = world.newest(plural)["spec"]
    run(world, back=False, kill_at=-1, moment="after")
    settle(world, OURS)
    if overwritten:
        world.write("deployments", {"spec": {"replicas": OURS + 1}})
        world.decide()
    world.mode = mode
    run(world, back=True, kill_at=kill_at, moment=moment)
    settle(world, THEIRS)
    assert world.writers in (["daemon", "hpa"], ["daemon", "daemon", "hpa"])
    assert (world.newest(plural)["spec"], fenced(world)) == (spec, False)


@given(seed=st.integers(0, 10_000), kill_at=st.integers(0, 6), moment=MOMENT)
def test_the_way_back_is_open_without_data(seed: int, kill_at: int, moment: str) -> None:
    world = World(Random(seed))
    run(world, back=False, kill_at=-1, moment="after")
    settle(world, OURS)
    world.blind = True
    world.latest.clear()
    run(world, back=True, kill_at=kill_at, moment=moment)
    settle(world, THEIRS)
    assert (world.writers, fenced(world)) == (["daemon", "hpa"], False)


def test_nothing_is_taken_over_without_data() -> None:
    world = World(Random(1))
    world.blind = True
    world.decide()
    with pytest.raises(UnavailableError, match="elasticd must know what is needed, does not"):
        insist(world, back=False)
    assert world.writes == 0


NOBODY = StatusReport(True, True, False, (), policies=(), under_way=())


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(replace(NOBODY, policies=None), id="which policies are in force"),
        pytest.param(replace(NOBODY, policies=(PolicyInForce("web", "act"),)), id="what a policy is about"),
        pytest.param(
            replace(NOBODY, policies=(PolicyInForce("web", "act", workload=Target("shop", "web")),)),
            id="what the policy that names it decides",
        ),
        pytest.param(
            replace(NOBODY, policies=(PolicyInForce("web", "act", select=Select(("*",))),)),
            id="what the policy that selects it decides",
        ),
        pytest.param(replace(NOBODY, under_way=None), id="what is under way"),
        pytest.param(replace(NOBODY, under_way=(REF,)), id="whether what is under way ends"),
    ],
)
def test_what_is_not_known_never_means_no_policy_acts(status: StatusReport) -> None:
    world = World(Random(1))
    run(world, back=False, kill_at=-1, moment="after")
    before = world.newest("horizontalpodautoscalers")["spec"]
    with pytest.raises(UnavailableError, match="has decided, or no policy acts on it must come within"):
        asyncio.run(hand_back(site_of(world, lambda: status, patience=0.01)))
    assert (world.newest("horizontalpodautoscalers")["spec"], fenced(world)) == (before, False)


def test_policies_about_others_do_not_keep_the_way_back_shut() -> None:
    world = World(Random(1))
    run(world, back=False, kill_at=-1, moment="after")
    about_others = [
        PolicyInForce("web", "observe", workload=Target("shop", "web")),
        PolicyInForce("other", "act", workload=Target("shop", "other")),
        PolicyInForce("labelled", "act", select=Select(("*",), {"tier": "front"})),
        PolicyInForce("pods", "act", pool=True),
    ]
    status = replace(NOBODY, policies=tuple(about_others))
    said = asyncio.run(hand_back(site_of(world, lambda: status)))
    assert said == "HorizontalPodAutoscaler web scales shop/Deployment/web again; no policy acts on it"


def test_a_decision_from_before_the_fence_ends_no_wait() -> None:
    """A new leader may tell first that it yields, as it decided when it led last."""
    world, asked = World(Random(1)), list[bool]()
    run(world, back=False, kill_at=-1, moment="after")
    settle(world, OURS)
    yielding = Limit("ForeignOwner", "HorizontalPodAutoscaler web", 4, 4, name=AUTOSCALER)
    before = Decision("1", 1.0, "web", REF, "act", OURS, OURS, "hold", "", "", limits=(yielding,))

    def status() -> StatusReport:
        report = world.status()
        restored = STOPPED not in (world.newest("horizontalpodautoscalers")["metadata"].get("annotations") or {})
        if not restored or len(asked) == 3:
            return report
        asked.append(fenced(world))
        return replace(report, decisions=(before,))

    asyncio.run(hand_back(site_of(world, status)))
    assert (asked, fenced(world)) == ([True, True, True], False)


@given(seed=st.integers(0, 10_000), kill_at=st.integers(1, 6), moment=MOMENT, back=st.booleans())
def test_a_fence_ends_once_its_autoscaler_is_deleted(seed: int, kill_at: int, moment: str, *, back: bool) -> None:
    world = World(Random(seed))
    if back:
        insist(world, back=False)
        settle(world, OURS)
    world.writes, world.kill_at, world.moment = 0, kill_at, moment
    with suppress(KilledError):
        insist(world, back=back)
    world.kill_at = -1
    world.delete_autoscaler()
    if fenced(world):
        with pytest.raises(UnavailableError, match=f"has none, and is fenced .{FENCE}.: `elasticd takeover` without"):
            asyncio.run(hand_back(site_of(world)))
        assert insist(world, back=False).endswith("it was fenced still, and no other autoscaler is there")
    assert not fenced(world)
    settle(world, OURS)


def restored(world: World) -> bool:
    return STOPPED not in (world.newest("horizontalpodautoscalers")["metadata"].get("annotations") or {})


def taken_over(world: World) -> bool:
    return not (restored(world) or fenced(world))


def unreadable(world: World) -> bool:
    """The API server goes with the daemon."""
    if fenced(world):
        world.versions.clear()
    return not world.versions


NO_DAEMON = "elasticd: must run, does not"
AGAIN = "run it again while a daemon leads; with --back the autoscaler scales it in the end"
STAYS = f"{NO_DAEMON}; shop/Deployment/web stays fenced ({FENCE})"
STOPPED_TOO = "HorizontalPodAutoscaler web stays stopped"


@pytest.mark.parametrize(
    ("back", "is_dead", "text"),
    [
        pytest.param(False, lambda _: True, NO_DAEMON, id="before the fence"),
        pytest.param(False, fenced, f"{STAYS}: {AGAIN}", id="after it"),
        pytest.param(
            False, unreadable, f"{NO_DAEMON}; shop/Deployment/web may stay fenced ({FENCE}): {AGAIN}", id="unreadable"
        ),
        pytest.param(False, taken_over, f"{NO_DAEMON}; {STOPPED_TOO}: {AGAIN}", id="when no fence is there any more"),
        pytest.param(True, fenced, f"{STAYS} and {STOPPED_TOO}: {AGAIN}", id="on the way back"),
        pytest.param(True, restored, f"{STAYS}: {AGAIN}", id="on the way back, later"),
    ],
)
def test_a_daemon_that_dies_leaves_word_of_the_fence(back: bool, is_dead: Callable[[World], bool], text: str) -> None:
    world = World(Random(1))
    if back:
        insist(world, back=False)
        settle(world, OURS)

    def status() -> StatusReport:
        if is_dead(world):
            raise UnavailableError(NO_DAEMON)
        return world.status()

    with pytest.raises(UnavailableError) as raised:
        asyncio.run((hand_back if back else take_over)(site_of(world, status)))
    assert str(raised.value) == text


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_takeover_without_patience_begins_nothing(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = called(capsys, "takeover", "shop/Deployment/web", "--patience", seconds)
    assert (code, error) == (78, f"--patience: must be > 0, is {seconds}\n")


class Undecided(JsonHandler):
    """A daemon whose policies are about nothing, and an API server that has a Deployment and no autoscaler."""

    def get(self) -> None:
        kinds = {"deployments": "Deployment", "horizontalpodautoscalers": "HorizontalPodAutoscaler"}
        deployments, autoscalers = (
            {"kind": "APIResourceList", "resources": [{"name": name, "kind": kind, "namespaced": True}]}
            for name, kind in kinds.items()
        )
        answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.2"},
            "/status": json.loads(msgspec.json.encode(StatusReport(True, True, False, ()))),
            "/apis/apps/v1": deployments,
            "/apis/apps/v1/namespaces/shop/deployments/web": {
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop"},
            },
            "/apis/autoscaling/v2": autoscalers,
        }
        path = self.path.partition("?")[0]
        empty: Any = {"kind": "List", "items": []} if path.endswith("horizontalpodautoscalers") else None
        found = answers.get(path, empty)
        self.answer(404 if found is None else 200, found or {"kind": "Status"})


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["shop/Deployment/web"], "must have a policy that has decided, has none", id="there"),
        pytest.param(["shop/Deployment/web", "--back"], "must have an autoscaler to go back to, has none", id="back"),
        pytest.param(
            ["shop/Game/web", "--back"], "must have a policy that has decided, has none", id="of a custom kind"
        ),
    ],
)
def test_only_the_way_back_needs_no_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    with served(Undecided, tmp_path) as config:
        code, _, error = called(capsys, "takeover", *words, "--config", config)
    assert (code, error) == (69, f"{words[0]}: {problem}\n")
