"""What a node has left is given to pods once."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.base.clock import VirtualClock
from elasticd.cluster.resize_room import SHOWN, ResizeRoom
from elasticd.model.actions import Action, Answer, Evict, Resize, Scale
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

    def rooms(self) -> tuple[Room, ...]:
        return self.left


class _Behind(Scripted):
    """A cluster with two nodes, of which one has 1.5 cores left."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: tuple[Pod, ...] = (pod("a"), pod("b"), pod("c"), pod("far", node="other"))
        self.free = {"n": {"cpu": 1.5, "memory": 8.0}, "other": {"cpu": 0.0}}
        self.answer, self.done = Answer("done"), list[Action]()

    async def observe(self, now: float, kinds: frozenset[Kind]) -> Shown:
        seen = _Rooms((WEB, self.pods))
        seen.left = tuple(Room(Node(name, name, True), free) for name, free in self.free.items())
        return seen

    async def act(self, action: Action) -> Answer:
        self.done.append(action)
        return self.answer


class _Door:
    def __init__(self) -> None:
        self.behind, self.clock = _Behind(), VirtualClock(NOW)
        self.promised: list[Promise] = []
        self.room = ResizeRoom(self.behind, self.clock, lambda: self.promised)

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


@pytest.mark.parametrize("result", ["refused", "conflict", "failed"])
async def test_only_what_was_surely_not_done_is_free_again(result: Any) -> None:
    door = _Door()
    await door.look()
    door.behind.answer = Answer(result)
    await door.resize("a", 2.0)
    door.behind.answer = Answer("done")
    assert await door.resize("b", 2.0) == ("NoRoom" if result == "failed" else "done")


async def test_what_is_shown_counts_once() -> None:
    door = _Door()
    await door.look()
    assert await door.resize("a", 2.0) == "done"
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


async def test_no_pod_moves_where_room_was_just_given_away() -> None:
    door = _Door()
    await door.look()
    move = Evict(Ref("shop", "Pod", "x", "v1"), "uid-x", "m", target="n")
    assert await door.resize("a", 2.0) == "done"
    refused = await door.room.act(move)
    assert (refused.result, refused.reason) == ("refused", "NoRoom")
    assert (await door.room.act(replace(move, target="other"))).result == "done"
    assert (await door.room.act(replace(move, target=""))).result == "done", "it is preempted"
    door.behind.pods = (pod("a", 2.0), *door.behind.pods[1:])
    await door.look()
    assert (await door.room.act(move)).result == "done"


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
