"""The loop for pods whose claims wait for their first consumer: from the first plan to the binding."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from elasticd.api import StorageClass
from elasticd.cluster.dry_run import DryRun
from elasticd.journal import Journal
from elasticd.model.actions import Action, Answer, Bind, BindClaim, Nominate
from elasticd.model.listener import Notice
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Ref
from elasticd.runtime.pools.placer import Placer
from elasticd_plugins.filters import Filters
from tests.kit.pools import node, pod
from tests.kit.volumes import bound_to, claim, claiming, storage, volume
from tests.runtime.pools.test_placer_room import Bench

MADE = StorageClass("fast", "p", waits=True)
LOCAL = StorageClass("fast", "kubernetes.io/no-provisioner", waits=True)
FORBIDDEN = Answer("failed", 403, 'persistentvolumeclaims "data" is forbidden: cannot patch', "Forbidden")


class ClaimBench(Bench):
    """Two nodes and a pod with a claim that waits."""

    def __init__(self, made: StorageClass = MADE) -> None:
        self.heard: list[PodDecision] = []
        super().__init__([node("a"), node("b")], [claiming("web", "data")], Filters())
        self.board.storage = storage(claim("data"), made, volume("pv"))

    def on(self, record: Notice) -> None:
        """Keep decisions too."""
        super().on(record)
        if isinstance(record, PodDecision):
            self.heard.append(record)


def kinds(bench: Bench) -> list[str]:
    """What was asked of the cluster, in order."""
    return [type(action).__name__ for _, action in bench.board.done]


@pytest.mark.parametrize(
    ("made", "selected", "kept"),
    [
        pytest.param(MADE, "", ("shop", "data", "uid-data"), id="a volume is there"),
        pytest.param(StorageClass("slow", "p", waits=True), "a", None, id="one is provisioned"),
    ],
)
async def test_a_pod_is_bound_after_its_claim(
    made: StorageClass, selected: str, kept: tuple[str, str, str] | None
) -> None:
    it = ClaimBench()
    it.board.storage = storage(claim("data", class_name=made.name), made, volume("pv"))
    await it.tick()
    assert kinds(it) == ["Nominate", "BindClaim"]
    known = it.board.storage
    assert (known.claims["shop", "data"].node, known.volumes["pv"].claim) == (selected, kept)
    await it.tick(after=5)
    assert kinds(it) == ["Nominate", "BindClaim"]
    it.board.storage = bound_to(known, "data", volume("pv"))
    await it.tick(after=5)
    assert kinds(it) == ["Nominate", "BindClaim", "Bind"]
    assert it.board.pods["web"].node == "a"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", [Nominate, BindClaim, Bind])
async def test_another_daemon_goes_on_after_any_step(step: type[Action], moment: str) -> None:
    it, ended = ClaimBench(LOCAL), list[Action]()

    def refuse(action: Action) -> Answer | None:
        if ended or (isinstance(action, step) and moment == "before"):
            ended.append(action)
            return Answer("refused", reason="Stopped")
        if isinstance(action, step):
            ended.append(action)
        return None

    it.board.refuse = refuse
    await it.tick()
    if step is Bind:
        it.board.storage = bound_to(it.board.storage, "data", it.board.storage.volumes["pv"])
        await it.tick(after=11)
    it.board.refuse = lambda _: None
    heir = Bench([], [], Filters())
    heir.board = board = it.board
    heir.placer = Placer(board, board.observe, Journal(), heir.clock)
    heir.placer.apply([PoolPolicy(name="pool", pool=PoolSelect(), strategies=(Filters(),), mode="act")])
    await heir.tick(after=1)
    known = board.storage
    assert known.volumes["pv"].claim == ("shop", "data", "uid-data")
    board.storage = bound_to(known, "data", known.volumes["pv"])
    await heir.tick(after=11)
    await heir.tick(after=11)
    assert board.pods["web"].node == "a"


async def test_a_pod_waits_and_the_missing_right_is_named() -> None:
    it = ClaimBench(StorageClass("fast", "p", waits=True))
    it.board.refuse = lambda action: FORBIDDEN if isinstance(action, BindClaim) else None
    await it.tick()
    assert [(each.action, each.reason) for each in it.outcomes] == [("nominate", ""), ("claim", "Forbidden")]
    assert it.outcomes[1].message == FORBIDDEN.message
    assert it.board.pods["web"].node == ""


async def test_room_stays_a_waiting_pods_between_its_plans() -> None:
    it = ClaimBench()
    it.board.nodes = {"a": node("a", cpu=1)}
    it.board.pods["web"] = replace(claiming("web", "data", cpu=0.8))
    await it.tick()
    it.board.put(pod("other", cpu=0.8))
    await it.tick(after=3)
    assert (it.board.pods["web"].nominated, it.board.pods["other"].node) == ("a", "")


async def test_a_dry_run_shows_what_would_be_written_of_claims() -> None:
    it = ClaimBench()
    dry, data = DryRun(it.board), Ref("shop", "PersistentVolumeClaim", "data", "v1")
    select, keep = BindClaim(data, "uid-data", "1", "a"), BindClaim(data, "uid-data", "1", "a", "pv", "uid-pv")
    await dry.observe(0.0, frozenset())
    assert [(await dry.act(step)).result for step in (select, keep)] == ["done", "done"]
    shown = (await dry.observe(1.0, frozenset())).storage()
    assert (shown.claims["shop", "data"].node, shown.volumes["pv"].claim) == ("a", ("shop", "data", "uid-data"))
    assert it.board.done == []
    it.board.storage = storage(claim("data", version="2"), volume("pv", version="2"))
    assert (await dry.observe(2.0, frozenset())).storage() is it.board.storage
    assert [(await dry.act(step)).result for step in (select, keep)] == ["conflict", "conflict"]


async def test_a_place_is_given_up_when_no_provisioner_answers() -> None:
    """As kube-scheduler does after its bindTimeoutSeconds; and the pod is tried again."""
    it, made = ClaimBench(), StorageClass("slow", "csi.example.com", waits=True)
    it.board.nodes = {"a": node("a", cpu=1)}
    it.board.storage = storage(claim("data", class_name="slow"), made)
    it.board.pods["web"] = claiming("web", "data", cpu=0.8, priority=9)
    await it.tick()
    it.board.put(pod("other", cpu=0.8))
    for seconds in (1, *[11] * 5, 540):  # it was tried so often that it rests for 10 s
        await it.tick(after=seconds)
    assert (it.board.pods["web"].nominated, it.board.pods["other"].node) == ("a", "")
    for seconds in (5, 2, 4):  # the place is given up, is nobody's, and goes to the other pod
        await it.tick(after=seconds)
    assert (it.board.pods["web"].nominated, it.board.pods["other"].node) == ("", "a")
    text = "its claims were not bound for a in 600 s by csi.example.com, so others may take its place: data"
    assert text in [decision.message for decision in it.heard if decision.reason == "VolumesNotBoundInTime"]
    it.board.remove("other")
    await it.run(12)
    assert it.board.pods["web"].nominated == "a"
    await it.tick(after=580)
    assert it.board.pods["web"].nominated == "a", "for as long again"


async def test_a_place_is_kept_for_claims_bound_in_time() -> None:
    it = ClaimBench()
    for seconds in (0, 300, 290):
        await it.tick(after=seconds)
    it.board.storage = bound_to(it.board.storage, "data", volume("pv"))
    await it.tick(after=20)
    assert kinds(it) == ["Nominate", "BindClaim", "Bind"]


async def test_what_a_provisioner_refuses_is_asked_for_ever_later() -> None:
    slow = StorageClass("slow", "p", waits=True)
    it, asked = ClaimBench(slow), list[float]()
    it.board.nodes = {"a": node("a")}
    for second in range(60):
        it.board.storage = storage(claim("data", class_name="slow"), slow)
        before = len(it.board.done)
        await it.tick(after=1)
        asked += [second for _, action in it.board.done[before:] if isinstance(action, BindClaim)]
    pauses = [late - early for early, late in pairwise(asked)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert set(pauses[4:]) == {10}
