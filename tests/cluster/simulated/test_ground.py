"""Simulated nodes that differ, and change while the simulation runs."""

from typing import Any

import pytest

from elasticd.model.pod_spec import Taint
from tests.cluster.simulated.test_kit import START, web
from tests.cluster.simulated.test_placing import Placed, ours

NODE = {"name": "n", "cpu": "4", "memory": "8Gi"}


def changing(*changes: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """One node n with these changes."""
    return [{**NODE, "changes": list(changes), **options}]


async def test_a_node_shows_what_its_table_says() -> None:
    table = {
        **NODE,
        "labels": {"pool": "batch"},
        "taints": [{"key": "gpu", "effect": "NoSchedule", "value": "yes"}],
        "unschedulable": True,
        "ready": False,
        "resources": {"ephemeral-storage": "10Gi", "example.com/bandwidth": 40},
    }
    (node,) = (await Placed(nodes=[table]).look(0)).nodes()
    assert node.labels == {"kubernetes.io/hostname": "n", "pool": "batch"}
    assert node.taints == (Taint("gpu", "NoSchedule", "yes"),)
    assert (node.unschedulable, node.ready) == (True, False)
    assert node.allocatable == {
        "cpu": 4.0, "memory": 2.0**33, "pods": 110.0, "ephemeral-storage": 10 * 2.0**30, "example.com/bandwidth": 40.0,
    }  # fmt: skip


async def test_labels_and_taints_of_a_node_change_at_their_times() -> None:
    nodes = changing(
        {"at": 60, "labels": {"tier": "backend", "zone": "a"}},
        {"at": 70, "unlabel": ["zone"], "taints": [{"key": "a", "effect": "NoExecute"}]},
        {"at": 80, "unschedulable": True, "taints": []},
        labels={"tier": "frontend"},
    )
    play = Placed(nodes=nodes)
    before = (await play.look(59.9)).nodes()
    assert (await play.look(50)).nodes() is before
    found = [(await play.look(t)).nodes()[0] for t in (59.9, 60, 70, 80)]
    shown = [{key: value for key, value in node.labels.items() if "/" not in key} for node in found]
    assert shown == [
        {"tier": "frontend"},
        {"tier": "backend", "zone": "a"},
        {"tier": "backend"},
        {"tier": "backend"},
    ]
    assert [node.taints for node in found] == [(), (), (Taint("a", "NoExecute"),), ()]
    assert [node.unschedulable for node in found] == [False, False, False, True]
    assert before[0].labels["tier"] == "frontend", "an older snapshot stays as it was"


@pytest.mark.parametrize(
    ("node", "pod", "placed"),
    [
        pytest.param({}, {}, True, id="open"),
        pytest.param({"unschedulable": True}, {}, False, id="cordoned"),
        pytest.param({"ready": False}, {}, False, id="not ready"),
        pytest.param({"taints": [{"key": "a", "effect": "NoSchedule"}]}, {}, False, id="tainted"),
        pytest.param({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, {}, True, id="tainted by preference"),
        pytest.param(
            {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            True,
            id="tainted, and tolerated",
        ),
        pytest.param({}, {"node_selector": {"pool": "x"}}, False, id="a selector"),
        pytest.param({"labels": {"pool": "x"}}, {"node_selector": {"pool": "x"}}, True, id="a selector that matches"),
        pytest.param({}, {"node_affinity": []}, False, id="terms, but none"),
        pytest.param(
            {},
            {"node_affinity": [{"fields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
            True,
            id="by its name",
        ),
        pytest.param({}, {"resources": {"example.com/gpu": 1}}, False, id="a resource it does not have"),
        pytest.param(
            {"resources": {"example.com/gpu": 2}},
            {"resources": {"example.com/gpu": 1}},
            True,
            id="a resource it has",
        ),
    ],
)
async def test_simulated_scheduler_heeds_whatever_keeps_pods_off_a_node(
    node: dict[str, Any], pod: dict[str, Any], placed: bool
) -> None:
    play = Placed(web(**pod), nodes=[{**NODE, **node}])
    (found,) = (await play.pods(5)).values()
    assert (found.node, found.waits) == (("n", None) if placed else ("", START))


async def test_simulated_scheduler_gives_a_port_or_disk_only_once() -> None:
    disk = {"kind": "gce", "name": "d"}
    for asks in ({"ports": [{"number": 80}]}, {"disks": [disk]}, {"resources": {"example.com/gpu": 2}}):
        play = Placed(web(replicas=2, **asks), nodes=[{**NODE, "resources": {"example.com/gpu": 3}}])
        assert sorted(pod.node for pod in (await play.pods(5)).values()) == ["", "n"]
        await play.scale(10, 1)
        await play.scale(20, 2)
        pods = {name: pod.node for name, pod in (await play.pods(30)).items()}
        assert sorted(pods.values()) == ["", "n"], "what went has given it back, and what runs has it"


async def test_waiting_pod_goes_to_a_node_that_becomes_suitable() -> None:
    play = Placed(web(node_selector={"pool": "x"}), nodes=changing({"at": 30, "labels": {"pool": "x"}}))
    assert [(await play.pods(t))["web-000001"].node for t in (29, 30)] == ["", "n"]


async def test_pods_of_a_silent_node_are_unready_until_it_answers() -> None:
    play = Placed(web(demand={"formula": "1"}), nodes=changing({"at": 20, "ready": False}, {"at": 60, "ready": True}))
    states = [(pod.ready, pod.ready_changed - START) for t in (19, 20, 60) for pod in (await play.pods(t)).values()]
    assert states == [(True, 5.0), (False, 20.0), (True, 60.0)]
    nodes = [dict((await play.cluster.node_usage(START + t)).nodes["cpu"]) for t in (61,)]
    assert list(nodes[0]) == ["n"]


async def test_nobody_says_what_a_silent_node_uses() -> None:
    play = Placed(nodes=changing({"at": 20, "ready": False}, cpu_used="1"))
    assert (await play.cluster.node_usage(START + 19)).nodes["cpu"].keys() == {"n"}
    assert (await play.cluster.node_usage(START + 20)).nodes["cpu"].keys() == set()


async def test_nothing_starts_or_disappears_on_a_node_while_silent() -> None:
    changes = ({"at": 3, "ready": False}, {"at": 60, "ready": True})
    play = Placed(ours(replicas=3, start_seconds=5, stop_seconds=2), nodes=changing(*changes))
    await play.bind(0, "web-000001", "n")
    await play.bind(0, "web-000003", "n")
    await play.bind(10, "web-000002", "n")
    await play.evict(10, "web-000003")
    seen = await play.pods(59)
    assert [(pod.phase, pod.started) for pod in seen.values()][:2] == [("Pending", START), ("Pending", None)]
    assert seen["web-000003"].deleted
    seen = await play.pods(60)
    assert [(pod.phase, pod.started) for pod in seen.values()][:2] == [("Running", START), ("Pending", START + 60)]
    assert "web-000003" not in seen
    assert (await play.pods(65))["web-000002"].ready is True


async def test_lost_node_takes_its_pods_and_their_controllers_replace_them() -> None:
    play = Placed(
        ours(), {**ours("p"), "bare": True}, nodes=changing({"at": 20, "gone": True}, {"at": 90, "gone": False})
    )
    await play.bind(0, "web-000001", "n")
    await play.bind(0, "p", "n")
    assert (await play.look(20)).nodes() == ()
    assert [pod.ready for pod in (await play.pods(20)).values()] == [False]
    assert await play.waiting(59.9) == []
    assert await play.waiting(60) == ["web-000002"]
    back = await play.look(90)
    assert [node.name for node in back.nodes()] == ["n"]
    assert back.rooms()[0].free["pods"] == 110.0


async def test_a_node_that_comes_back_soon_has_its_pods_still() -> None:
    play = Placed(ours(), nodes=changing({"at": 20, "gone": True}, {"at": 50, "gone": False}))
    await play.bind(0, "web-000001", "n")
    assert [(await play.pods(t))["web-000001"].ready for t in (20, 50, 99)] == [False, True, True]


async def test_restored_pod_survives_the_loss_of_its_node_while_stopping() -> None:
    play = Placed({**ours("p", stop_seconds=500), "bare": True}, nodes=changing({"at": 20, "gone": True}))
    await play.bind(0, "p", "n")
    await play.evict(10, "p", restore=True)
    assert [await play.waiting(t) for t in (59, 60)] == [[], ["p"]]


async def test_usage_of_a_node_sums_its_pods_and_other_processes() -> None:
    nodes = [
        {**NODE, "cpu_used": "500m", "memory_used": "1Gi"},
        {**NODE, "name": "m", "cpu_used": {"formula": "t/10"}},
    ]
    play = Placed(ours(demand={"formula": "2"}, memory_per_pod="100Mi"), nodes=nodes)
    await play.bind(0, "web-000001", "n")
    said = await play.cluster.node_usage(START + 20)
    assert {node: one[0].value for node, one in said.nodes["cpu"].items()} == {"m": 2.0, "n": 2.5}
    assert {node: one[0].value for node, one in said.nodes["memory"].items()} == {"m": 0.0, "n": 1124 * 2.0**20}
    assert {one[0].measured for one in said.nodes["cpu"].values()} == {START + 20}


async def test_undefined_values_of_further_node_series_have_no_sample() -> None:
    table = {
        **NODE,
        "count": 2,
        "series": [
            {"name": "image_pull_rate", "demand": {"formula": "1e6 + t"}},
            {"name": "data_rate", "demand": {"formula": "5 + 0 / (t - 5)"}},
        ],
    }
    play = Placed(nodes=[table, {**NODE, "name": "bare"}], metrics={"resolution": 5.0})
    early, late = [(await play.cluster.node_usage(START + t)).nodes for t in (7, 12)]
    assert {node: one[0].value for node, one in early["image_pull_rate"].items()} == {"n-1": 1e6 + 5, "n-2": 1e6 + 5}
    assert dict(early["data_rate"]) == {}
    assert {node: one[0].value for node, one in late["data_rate"].items()} == {"n-1": 5.0, "n-2": 5.0}
