"""What becomes of simulated pods that are given other requests."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.model.actions import Answer, Resize
from elasticd.model.workload import Pod
from tests.cluster.simulated.test_kit import WEB, Play, web

NODE = {"name": "a", "cpu": "4", "memory": "8Gi"}
ASKED = {"cpu": "1", "memory": "1Gi"}


def play(*more: dict[str, Any], **options: Any) -> Play:
    return Play(web(**{**ASKED, **options}), *more, nodes=[NODE])


async def first(play: Play, t: float) -> Pod:
    return next(iter((await play.pods(t)).values()))


async def resize(play: Play, t: float, **amounts: float) -> Answer:
    pod = await first(play, t)
    (container,) = pod.containers
    before = {name: container.requests[name] for name in amounts if name in container.requests}
    return await play.cluster.act(
        Resize(WEB, pod.uid, pod.name, {container.name: before}, {container.name: dict(amounts)})
    )


async def test_only_the_resized_pod_has_the_new_requests() -> None:
    shop = play(replicas=2)
    was = await first(shop, 50)
    assert await resize(shop, 50, cpu=2.0) == Answer("done", 200)
    changed, other = (await shop.pods(50)).values()
    assert changed.containers[0].requests == {"cpu": 2.0, "memory": 2**30}
    assert (changed.uid, changed.ready, changed.resize) == (was.uid, True, "")
    assert other.containers[0].requests == {"cpu": 1.0, "memory": 2**30}
    assert was.containers[0].requests["cpu"] == 1.0  # who has looked before sees what was


async def test_room_on_the_node_follows() -> None:
    late = {"name": "late", "cpu": "3", "memory": "1Gi"}
    shop = play(late, replicas=2)
    assert [pod.node for pod in (await shop.pods(50, "late")).values()] == [""]
    await resize(shop, 50, cpu=0.5)
    assert [pod.node for pod in (await shop.pods(51, "late")).values()] == [""]
    assert (await shop.scale(51, 1)).result == "done"
    assert [pod.node for pod in (await shop.pods(300, "late")).values()] == ["a"]


async def test_resize_is_infeasible_until_it_fits_on_the_node() -> None:
    shop = play()
    assert (await resize(shop, 50, cpu=5.0)).result == "done"
    pod = await first(shop, 50)
    assert (pod.resize, pod.containers[0].requests["cpu"], pod.counted["cpu"]) == ("Infeasible", 5.0, 1.0)
    assert (await resize(shop, 60, cpu=4.0)).result == "done"
    pod = await first(shop, 60)
    assert (pod.resize, pod.containers[0].requests["cpu"], pod.counted["cpu"]) == ("", 4.0, 4.0)


async def test_all_room_is_given_back_with_the_pod() -> None:
    shop = play({"name": "late", "cpu": "4", "memory": "1Gi"})
    await resize(shop, 50, cpu=3.0)
    await shop.scale(60, 0)
    assert [pod.node for pod in (await shop.pods(300, "late")).values()] == ["a"]


@pytest.mark.parametrize(
    ("change", "result", "reason"),
    [
        pytest.param({"uid": "other"}, "conflict", "NotFound", id="another pod"),
        pytest.param({"pod": "web-9"}, "conflict", "NotFound", id="no such pod"),
        pytest.param({"before": {"main": {"cpu": 9.0}}}, "conflict", "Conflict", id="changed by somebody"),
        pytest.param({"after": {"main": {"disk": 9.0}}, "before": {}}, "failed", "Invalid", id="nothing that can be"),
    ],
)
async def test_what_does_not_fit_what_was_judged_changes_nothing(
    change: dict[str, Any], result: str, reason: str
) -> None:
    shop = play()
    pod = await first(shop, 50)
    name = pod.containers[0].name
    named = {key: {name: value["main"]} if value else {} for key, value in change.items() if isinstance(value, dict)}
    good = Resize(WEB, pod.uid, pod.name, {name: {"cpu": 1.0}}, {name: {"cpu": 2.0}})
    answer = await shop.cluster.act(replace(good, **{**change, **named}))
    assert (answer.result, answer.reason) == (result, reason)
    assert await first(shop, 50) == pod
