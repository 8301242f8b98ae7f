"""What a node has left is given to pods once."""

import asyncio

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.resize_room import SHOWN, ResizeRoom
from elasticd.model.actions import Action, Answer, Bind, Evict, Resize, Scale
from elasticd.model.moves import Promise
from elasticd.model.workload import Container, Node, Pod, Ref, Room, Workload
from elasticd.ports.cluster import Kind
from tests.kit.clusters import Scripted, Shown
from tests.kit.pools import NOW

WEB = Workload(Ref("shop", "Deployment", "web"), "uid-web", "1", 3, 3)


def pod(name: str, cpu: float = 1.0, node: str = "n") -> Pod:
    return Pod("shop", name, f"uid-{name}", "Running", node, containers=(Container("main", {"cpu": cpu}),))


class _Rooms(Shown):
    left: tuple[Room, ...] = ()
    waiting: tuple[Pod, ...] = ()

    def pending(self) -> tuple[Pod, ...]:
        return self.waiting

    def on_nodes(self) -> dict[str, list[Pod]]:
        pods = self.pods(WEB)
        return {node: [pod for pod in pods if pod.node == node] for node in {pod.node for pod in pods}}

    def rooms(self) -> tuple[Room, ...]:
        return self.left


class _Behind(Scripted):
    """A cluster with two nodes, of which one has 1.5 cores left."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: tuple[Pod, ...] = (pod("a"), pod("b"), pod("c"), pod("far", node="other"))
        self.free = {"n": {"cpu": 1.5, "memory": 8.0}, "other": {"cpu": 0.0}}
        self.answer, self.done = Answer("done"), list[Action]()
        self.waiting: tuple[Pod, ...] = ()
        self.waits: asyncio.Event | None = None
        """What is to happen before it answers."""

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Shown:
        seen = _Rooms((WEB, self.pods))
        seen.waiting = self.waiting
        seen.left = tuple(Room(Node(name, name, True), free) for name, free in self.free.items())
        return seen

    async def act(self, action: Action) -> Answer:
        self.done.append(action)
        if self.waits is not None:
            await self.waits.wait()
        return self.answer


class _Door:
    def __init__(self) -> None:
        self.behind, self.clock = _Behind(), VirtualClock(NOW)
        self.promised: list[Promise] = []
        self.room = ResizeRoom(self.behind, self.clock, lambda snapshot, now: self.promised)

    async def look(self) -> None:
        await self.room.observe(self.clock.now(), frozenset())

    async def resize(self, name: str, after: float, before: float = 1.0) -> str:
        answer = await self.room.act(resize(name, after, before))
        return answer.reason or answer.result


def resize(name: str, after: float, before: float = 1.0) -> Resize:
    return Resize(WEB.ref, f"uid-{name}", name, {"main": {"cpu": before}}, {"main": {"cpu": after}})


async def test_what_is_left_is_given_once() -> None:
    """Each was judged by the same view, which shows what a pod requests only later."""
    door = _Door()
    await door.look()
    assert await door.resize("a", 2.0) == "done"
    refused = await door.room.act(resize("b", 2.0))
    assert (refused.result, refused.reason) == ("refused", "NoRoom")
    assert refused.message == ("n has 500m cpu left beside what moved pods, or others, are to have, it needs 1")
    assert await door.resize("b", 1.5) == "done"
    assert await door.resize("c", 1.001) == "NoRoom"
    assert [action.pod for action in door.behind.done if isinstance(action, Resize)] == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        pytest.param(Answer("refused"), "done", id="refused"),
        pytest.param(Answer("conflict", 409), "done", id="in conflict"),
        pytest.param(Answer("failed", 403), "done", id="a quota, or a policy of admission"),
        pytest.param(Answer("failed", 500), "NoRoom", id="perhaps done"),
        pytest.param(Answer("failed"), "NoRoom", id="without an answer"),
    ],
)
async def test_only_what_was_surely_not_done_is_free_again(answer: Answer, then: str) -> None:
    door = _Door()
    await door.look()
    door.behind.answer = answer
    await door.resize("a", 2.0)
    door.behind.answer = Answer("done")
    assert await door.resize("b", 2.0) == then


async def test_what_is_shown_before_its_answer_counts_once() -> None:
    door = _Door()
    await door.look()
    door.behind.waits = asyncio.Event()
    first = asyncio.create_task(door.room.act(resize("a", 2.0)))
    await asyncio.sleep(0)
    door.behind.pods, door.behind.free["n"]["cpu"] = (pod("a", 2.0), *door.behind.pods[1:]), 0.5
    await door.look()
    door.behind.waits.set()
    assert await door.resize("b", 1.5) == "done"
    await first


async def test_a_binding_without_an_answer_is_taken() -> None:
    door = _Door()
    door.behind.waiting = (replace(pod("new", 1.0, node=""), phase="Pending"),)
    await door.look()
    door.behind.answer = Answer("failed")
    await door.room.act(Bind(Ref("shop", "Pod", "new", "v1"), "uid-new", "n"))
    door.behind.answer = Answer("done")
    assert await door.resize("a", 2.0) == "NoRoom"


async def test_what_waits_for_its_turn_is_taken() -> None:
    """However long: an API server may ask for quiet. Its time begins with the answer."""
    door = _Door()
    await door.look()
    door.behind.waits = asyncio.Event()
    first = asyncio.create_task(door.room.act(resize("a", 2.0)))
    await door.clock.sleep_until(NOW + 3 * SHOWN)
    assert await door.resize("b", 2.0) == "NoRoom"
    door.behind.waits.set()
    await first
    await door.clock.sleep_until(NOW + 4 * SHOWN - 1)
    assert await door.resize("b", 2.0) == "NoRoom"


@pytest.mark.parametrize("asked", [2.0, 1.9999999999999996])
async def test_what_is_shown_counts_once(asked: float) -> None:
    """A quantity has thousandths."""
    door = _Door()
    await door.look()
    assert await door.resize("a", asked) == "done"
    door.behind.pods = (pod("a", 2.0), *door.behind.pods[1:])
    door.behind.free["n"]["cpu"] = 0.5
    await door.look()
    assert await door.resize("b", 1.5) == "done"


@pytest.mark.parametrize(("gone", "waited"), [(True, 0.0), (False, SHOWN)])
async def test_what_never_comes_about_is_free_again(gone: bool, waited: float) -> None:
    door = _Door()
    await door.look()
    assert await door.resize("a", 2.0) == "done"
    door.behind.pods = door.behind.pods[1:] if gone else door.behind.pods
    await door.clock.sleep_until(NOW + waited)
    await door.look()
    assert await door.resize("b", 2.0) == "done"


async def test_what_is_promised_to_a_moved_pod_is_kept() -> None:
    """It is on its way, and would wait for room for good."""
    door = _Door()
    replacement = replace(pod("moved", 1.2), node="")
    door.promised.append(Promise(replacement, "n", "uid-old", "m"))
    door.promised.append(Promise(replacement, "other", "uid-far", "m"))
    await door.look()
    assert await door.resize("a", 1.4) == "NoRoom"
    assert await door.resize("a", 1.3) == "done"
    door.promised.clear()
    assert await door.resize("b", 2.2) == "done"


async def test_what_a_pod_preempts_for_is_kept() -> None:
    door = _Door()
    waiting = replace(pod("vip", 1.2, node=""), phase="Pending")
    door.behind.waiting = (replace(waiting, nominated="n"),)
    await door.look()
    assert await door.resize("a", 1.4) == "NoRoom"
    door.promised.append(Promise(waiting, "n", "uid-old", "m"))
    assert await door.resize("a", 1.3) == "done", "it counts once"


@pytest.mark.parametrize(
    ("needed", "target", "given", "reason"),
    [
        pytest.param(0.5, "n", True, "", id="there is enough beside it"),
        pytest.param(0.6, "n", True, "NoRoom", id="there is not"),
        pytest.param(0.6, "n", False, "", id="as nothing was given away"),
        pytest.param(0.6, "", True, "", id="it is preempted"),
    ],
)
async def test_no_pod_moves_where_room_was_just_given_away(
    needed: float, target: str, given: bool, reason: str
) -> None:
    door = _Door()
    door.behind.pods = (*door.behind.pods, pod("x", needed, node="m"))
    await door.look()
    assert await door.resize("a", 2.0 if given else 1.0) == "done"
    move = Evict(Ref("shop", "Pod", "x", "v1"), "uid-x", "m", target=target)
    assert (await door.room.act(move)).reason == reason


@pytest.mark.parametrize(
    ("restore", "own", "others", "reason"),
    [
        pytest.param(True, 1.0, 0.5, "", id="there is room beside what is promised"),
        pytest.param(True, 1.0, 0.6, "NoRoom", id="there is none"),
        pytest.param(True, 1.6, 0.0, "NoRoom", id="its copy will request more"),
        pytest.param(False, 1.0, 0.6, "", id="its controller makes another, which goes wherever there is room"),
    ],
)
async def test_no_bare_pod_leaves_for_a_full_node(restore: bool, own: float, others: float, reason: str) -> None:
    """A resize may have begun, and be shown, since the move was planned."""
    door = _Door()
    door.behind.pods = (*door.behind.pods, pod("x", node="m"))
    door.promised = [
        Promise(pod("copy", own, node=""), "n", "uid-x", "m"),
        Promise(pod("other", others, node=""), "n", "uid-y", "m"),
    ]
    await door.look()
    move = Evict(Ref("shop", "Pod", "x", "v1"), "uid-x", "m", restore=restore, target="n")
    assert (await door.room.act(move)).reason == reason


@pytest.mark.parametrize("first", ["resize", "bind"])
async def test_a_binding_and_a_resize_get_different_room(first: str) -> None:
    """While neither is shown: a kubelet would reject the pod."""
    door = _Door()
    waiting = replace(pod("new", 1.0, node=""), phase="Pending")
    door.behind.waiting, door.behind.waits = (waiting,), asyncio.Event()
    await door.look()
    actions: list[Action] = [resize("a", 2.0), Bind(Ref("shop", "Pod", "new", "v1"), "uid-new", "n")]
    actions = actions if first == "resize" else actions[::-1]
    under_way = asyncio.create_task(door.room.act(actions[0]))
    await asyncio.sleep(0)
    door.behind.waits.set()
    assert (await door.room.act(actions[1])).reason == "NoRoom"
    await under_way


async def test_what_was_bound_counts_once() -> None:
    door = _Door()
    door.behind.waiting = (replace(pod("new", 1.0, node=""), phase="Pending"),)
    await door.look()
    assert (await door.room.act(Bind(Ref("shop", "Pod", "new", "v1"), "uid-new", "n"))).result == "done"
    door.behind.waiting, door.behind.free["n"]["cpu"] = (), 0.5
    await door.look()
    assert await door.resize("a", 1.5) == "done"


async def test_other_actions_pass() -> None:
    door = _Door()
    assert await door.resize("a", 99.0) == "done", "nothing is known before the first look"
    await door.look()
    assert await door.resize("far", 1.001) == "NoRoom"
    assert await door.resize("far", 0.5) == "done", "it requests less"
    assert await door.resize("stranger", 99.0) == "done", "its node is not known"
    assert await door.room.act(Scale(WEB.ref, WEB.uid, "1", 3, 4, "why")) == Answer("done")
    del door.behind.free["other"]
    await door.look()
    assert await door.resize("far", 99.0) == "done", "what its node has left is not known"
    memory = replace(resize("b", 1.0), after={"main": {"cpu": 1.0, "memory": 9.0}})
    assert (await door.room.act(memory)).reason == "NoRoom", "it requested none before"
