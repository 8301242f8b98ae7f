"""What must still hold of a pod and its node when its turn has come, and what is known at once of what was done."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elasticd.cluster.kubernetes.session import ApiError
from elasticd.cluster.kubernetes.watch.store import NodeStore, PodStore
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING
from elasticd.cluster.kubernetes.write.budget import Allowed
from elasticd.cluster.kubernetes.write.pods import NOT_READY, TERMINATING, PodActions, PodWriter, Unfit
from elasticd.model.actions import Announce, Answer, Bind, Evict, Nominate, TryEvict
from elasticd.model.pod_spec import Taint, Toleration
from elasticd.model.workload import Node, Pod
from tests.kit.pools import node, pod

POD, RUNS = pod("p"), pod("r", on="n")
BIND = Bind(POD.ref, POD.uid, "n")
EVICT = Evict(RUNS.ref, RUNS.uid, "n", "is preempted for shop/p")
DONE = Answer("done", 201)


class Writer(PodWriter):
    """Writes nothing, and answers as told."""

    def __init__(self, answer: Answer = DONE) -> None:
        self.answer, self.asked = answer, list[object]()
        self.before: Callable[[], None] = lambda: None
        """What happens before its turn comes."""
        self.node: Callable[[str], Node | None] = lambda _: None
        """What the server says of a node."""
        self.judged = 2.0

    async def read_node(self, name: str) -> Node | None:
        return self.node(name)

    async def _say(self, action: object, allowed: Allowed) -> Answer:
        self.before()
        if stop := allowed():
            return stop
        self.asked.append(action)
        return self.answer

    async def bind(self, action: Bind, allowed: Allowed) -> Answer:
        return await self._say(action, allowed)

    async def nominate(self, action: Nominate, allowed: Allowed) -> Answer:
        return await self._say(action, allowed)

    async def evict(
        self, action: Evict, allowed: Allowed, unfit: Unfit | None = None, *, dry_run: bool = False
    ) -> Answer:
        return await self._say(TryEvict(action) if dry_run else action, allowed)

    async def why_budget_forbids(self, action: Evict, allowed: Allowed) -> Answer | None:
        return await self._say(TryEvict(action), allowed)

    async def try_out(self, action: Evict, allowed: Allowed) -> Answer:
        return await self._say(TryEvict(action), allowed)


class Scene:
    """Two pods and a node, and who writes."""

    def __init__(self, *pods: Pod, nodes: tuple[Node, ...] = (node("n"),), answer: Answer = DONE) -> None:
        self.pods, self.nodes, self.told, self.leads = PodStore(), NodeStore(), list[Announce](), True
        for one in pods or (POD, RUNS):
            self.pods.put(one, listed=True)
        for each in nodes:
            self.nodes.put(each, listed=True)
        self.writer, self.restorer = Writer(answer), Writer(answer)
        self.writer.node = self.nodes.get
        stores = (self.pods, self.nodes)
        self.now = 100.0
        self.actions = PodActions(stores, self.writer, self.restorer, self._allowed, self.told.append, lambda: self.now)

    def _allowed(self) -> Answer | None:
        return None if self.leads else NOT_LEADING


async def test_bound_pod_is_known_on_its_node_at_once() -> None:
    scene = Scene(replace(POD, waits=1.0))
    assert await scene.actions.act(BIND) == DONE
    assert scene.pods.get("shop", "p") == replace(POD, node="n")
    assert scene.pods.places().on_nodes().keys() == {"n"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer("conflict", 409, "", "Conflict"),
        Answer("failed", 0, "", "NoReply"),
        Answer("refused", 0, "", "NotLeader"),
    ],
    ids=lambda one: str(one.result),
)
async def test_of_what_was_not_done_nothing_is_assumed(answer: Answer) -> None:
    scene = Scene(answer=answer)
    for action in (BIND, Nominate(POD.ref, POD.uid, "n"), EVICT):
        assert await scene.actions.act(action) == answer
    assert (scene.pods.get("shop", "p"), scene.pods.get("shop", "r"), scene.told) == (POD, RUNS, [])


@pytest.mark.parametrize(
    ("became", "said"),
    [
        pytest.param(node("n", unschedulable=True), "", id="as it was"),
        pytest.param(node("n", unschedulable=True, cpu=3.0), "", id="nothing that moves pods"),
        pytest.param(node("n"), "Outdated", id="uncordoned"),
        pytest.param(node("n", unschedulable=True, labels={"tier": "b"}), "Outdated", id="labelled"),
        pytest.param(None, "Outdated", id="gone"),
    ],
)
@pytest.mark.parametrize("restore", [False, True])
async def test_no_pod_is_evicted_whose_node_has_changed(became: Node | None, said: str, *, restore: bool) -> None:
    """While the eviction waited for its turn."""
    scene = Scene(nodes=(node("n", unschedulable=True),))
    writer = scene.restorer if restore else scene.writer

    def change() -> None:
        scene.nodes.remove(node("n"))
        if became is not None:
            scene.nodes.put(became, listed=True)

    writer.before = change
    assert (await scene.actions.act(replace(EVICT, restore=restore))).reason == said
    assert len(writer.asked) == (said == "")


MOVES = {"reason": "n is cordoned"}


@pytest.mark.parametrize(("seconds", "reason"), [(2.0, ""), (2.1, "Outdated")])
async def test_a_pod_is_judged_anew_whose_node_was_long_read(seconds: float, reason: str) -> None:
    scene = Scene()

    def look(name: str) -> Node | None:
        scene.now += seconds
        return scene.nodes.get(name)

    scene.writer.node = look
    assert (await scene.actions.act(replace(EVICT, owner="rs", **MOVES))).reason == reason


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        pytest.param(node("n"), "a budget forbids it", id="as the watch shows it"),
        pytest.param(node("n", labels={"tier": "a"}), "n has changed", id="its node is another"),
    ],
)
async def test_a_pod_that_its_controller_removes_is_asked_about(shown: Node, message: str) -> None:
    """The server asks neither about its node nor about budgets."""
    scene = Scene(answer=Answer("refused", 429, "a budget forbids it", "Budget"))
    scene.writer.node = lambda _: shown
    stop = await scene.actions.why_kept(EVICT)
    assert stop is not None
    assert message in stop.message


@pytest.mark.parametrize(
    ("shown", "changes", "reason"),
    [
        pytest.param(node("n", labels={"tier": "a"}), {}, "Outdated", id="its label is right again"),
        pytest.param(None, {}, "Outdated", id="it is gone"),
        pytest.param(node("n", labels={"tier": "b"}, cpu=3.0), {}, "", id="as the watch shows it"),
        pytest.param(node("n", labels={"tier": "a"}), {"owner": "rs"}, "", id="its controller makes another"),
        pytest.param(node("n", labels={"tier": "a"}), {"restore": True}, "", id="elasticd makes another"),
        pytest.param(node("n", labels={"tier": "a"}), {**MOVES, "owner": "rs"}, "Outdated", id="it moves"),
        pytest.param(node("n", labels={"tier": "a"}), {**MOVES, "restore": True}, "Outdated", id="a bare one moves"),
        pytest.param(ApiError(503, "Busy", "busy"), {}, "ServerError", id="the server does not say"),
    ],
)
async def test_a_pod_leaves_only_by_the_present_node(shown: Any, changes: dict[str, Any], reason: str) -> None:
    """The watch of nodes may have fallen silent, or be answered from a cache that stands still."""
    scene = Scene(nodes=(node("n", labels={"tier": "b"}),))

    def look(_: str) -> Node | None:
        if isinstance(shown, ApiError):
            raise shown
        return cast("Node | None", shown)

    scene.writer.node = look
    answer = await scene.actions.act(replace(EVICT, **changes))
    assert answer.reason == reason
    assert bool(scene.writer.asked or scene.restorer.asked) == (reason == "")


CORDONED = node("n", unschedulable=True)
TOLERATES = pod("p", tolerations=(Toleration(operator="Exists"),))
SHORTLY = pod("p", tolerations=(Toleration("maint", "Exists", seconds=15.0),))
COPY = replace(SHORTLY, annotations={"elasticd.io/restored-from": "u"})
MAINTAINED = node("n", taints=(Taint("maint", "NoExecute", "x"),))


@pytest.mark.parametrize(
    ("known", "nodes", "message"),
    [
        pytest.param(POD, (), "n is gone", id="the node is gone"),
        pytest.param(POD, (replace(node("n"), ready=False),), "n is not ready", id="the node failed"),
        pytest.param(POD, (CORDONED,), "n is cordoned", id="the node was cordoned"),
        pytest.param(TOLERATES, (CORDONED,), "", id="it tolerates that"),
        pytest.param(
            POD,
            (node("n", taints=(Taint("full", "NoSchedule", "yes"),)),),
            "n has a taint by now that it does not tolerate, full: yes",
            id="the node got a taint",
        ),
        pytest.param(SHORTLY, (MAINTAINED,), "", id="it tolerates the taint for a time"),
        pytest.param(
            COPY,
            (MAINTAINED,),
            "n has a taint by now for which Kubernetes would delete it, maint: x",
            id="nothing would create it again",
        ),
        pytest.param(POD, (node("n", cpu=0.05),), "n is full by now: too little cpu is left", id="it was filled"),
        pytest.param(POD, (node("n", pods=0),), "n is full by now: too little pods is left", id="no more pods"),
        pytest.param(TOLERATES, (replace(node("n"), ready=False),), "", id="it tolerates a node that failed"),
        pytest.param(replace(POD, uid="other"), (node("n"),), "it is gone", id="another pod has its name"),
        pytest.param(pod("q"), (node("n"),), "it is gone", id="it was deleted"),
        pytest.param(replace(POD, node="m"), (node("n"),), "it is on m already", id="another was quicker"),
        pytest.param(replace(POD, node="n"), (node("n"),), "", id="the watch was quicker than the answer"),
    ],
)
async def test_outdated_plan_is_a_conflict_and_costs_no_request(
    known: Pod, nodes: tuple[Node, ...], message: str
) -> None:
    scene = Scene(known, nodes=nodes)
    answer = await scene.actions.act(BIND)
    assert (answer.result, answer.message) == (("conflict", message) if message else ("done", ""))
    assert len(scene.writer.asked) == (not message)


def test_toleration_of_failed_nodes_tolerates_the_not_ready_taint() -> None:
    assert Toleration("node.kubernetes.io/not-ready", "Exists").tolerates(NOT_READY)


async def test_preempted_pod_is_announced_once_and_not_evicted_again() -> None:
    scene = Scene()
    assert await scene.actions.act(EVICT) == DONE
    assert scene.pods.get("shop", "r") == replace(RUNS, deleted=True)
    assert scene.told == [Announce(RUNS.ref, RUNS.uid, "Preempted", "is preempted for shop/p, from n")]
    assert await scene.actions.act(EVICT) == TERMINATING
    assert scene.writer.asked == [EVICT]


async def test_moved_pod_is_announced_as_evicted_unless_already_gone() -> None:
    scene = Scene()
    await scene.actions.act(replace(EVICT, reason="LowLoad"))
    assert [one.reason for one in scene.told] == ["Evicted"]
    scene = Scene(answer=Answer("done", 404, "it was gone already", "NotFound"))
    await scene.actions.act(EVICT)
    assert (scene.told, scene.pods.get("shop", "r")) == ([], RUNS)


async def test_pod_to_be_restored_is_evicted_by_the_restorer() -> None:
    scene, action = Scene(), replace(EVICT, restore=True)
    assert await scene.actions.act(action) == DONE
    assert (scene.restorer.asked, scene.writer.asked) == ([action], [])


@pytest.mark.parametrize("restore", [True, False], ids=["bare", "of a controller"])
async def test_a_trial_asks_both_writers_and_changes_nothing(restore: bool) -> None:
    scene, trial = Scene(), TryEvict(replace(EVICT, restore=restore))
    assert await scene.actions.act(trial) == DONE
    assert (scene.restorer.asked, scene.writer.asked) == ([trial] if restore else [], [trial])
    assert (scene.told, scene.pods.get("shop", "r")) == ([], RUNS)


async def test_a_trial_ends_with_the_first_refusal() -> None:
    refused = Answer("refused", 403, "no", "NotRestorable")
    scene = Scene(answer=refused)
    assert await scene.actions.act(TryEvict(replace(EVICT, restore=True))) == refused
    assert scene.writer.asked == []


async def test_a_note_is_known_at_once() -> None:
    scene = Scene()
    assert await scene.actions.act(Nominate(POD.ref, POD.uid, "n")) == DONE
    assert scene.pods.get("shop", "p") == replace(POD, nominated="n")


@pytest.mark.parametrize("action", [BIND, EVICT, Nominate(POD.ref, POD.uid, "n")], ids=["bind", "evict", "nominate"])
async def test_without_the_lead_nothing_is_written(action: Bind | Evict | Nominate) -> None:
    scene = Scene()
    scene.leads = False
    assert await scene.actions.act(action) == NOT_LEADING
