"""Plans of faults come from their seeds, and are made shorter."""

import asyncio
from collections.abc import Sequence
from typing import get_args, get_type_hints

import pytest

from tests.faults.injector import resource_of
from tests.faults.plan import FEATURES, SECONDS, Blow, Fault, Packet, Request, Watch, drawn, features, shortest

SEEDS = range(300)


def test_the_same_seed_gives_the_same_faults() -> None:
    assert [drawn(seed) for seed in SEEDS] == [drawn(seed) for seed in SEEDS]
    assert len({tuple(drawn(seed)) for seed in SEEDS}) == len(SEEDS)


def test_every_kind_of_fault_is_drawn_and_ends_in_time() -> None:
    troubles = [one for seed in SEEDS for one in drawn(seed)]
    assert {one.kind for one in troubles if isinstance(one, Blow)} == set(get_args(get_type_hints(Blow)["kind"]))
    kinds = {"API server": {*get_args(Request), *get_args(Watch)}, "Prometheus": {*get_args(Request)}}
    for server, all_kinds in {**kinds, "MQTT": {*get_args(Packet)}}.items():
        assert {one.kind for one in troubles if isinstance(one, Fault) and one.server == server} == all_kinds
    assert all(one.begins + one.lasts <= SECONDS for one in troubles)


def test_every_set_of_features_is_drawn_with_its_own_faults() -> None:
    assert {*map(tuple, map(features, SEEDS))} >= {(), tuple(FEATURES), *((name,) for name in FEATURES)}
    for seed in SEEDS:
        kinds = {one.kind for one in drawn(seed)}
        assert "no prometheus" not in kinds or "Prometheus" in features(seed)
        assert "no broker" not in kinds or "MQTT" in features(seed)
        assert {one.server for one in drawn(seed) if isinstance(one, Fault)} <= {"API server", *features(seed)}
    assert {one.kind for seed in SEEDS for one in drawn(seed, among=())}.isdisjoint({"no prometheus", "no broker"})


MEETS = [
    pytest.param("GET", "pods", 5.0, True, id="its own"),
    pytest.param("POST", "pods", 5.0, False, id="another verb"),
    pytest.param("GET", "nodes", 5.0, False, id="another resource"),
    pytest.param("GET", "pods", 4.9, False, id="before"),
    pytest.param("GET", "pods", 8.0, False, id="after"),
]


@pytest.mark.parametrize(("verb", "resource", "at", "meets"), MEETS)
def test_a_fault_is_about_its_requests_for_its_time(verb: str, resource: str, at: float, meets: bool) -> None:
    assert Fault(0, "late", "GET", "pods", begins=5.0, lasts=3.0).meets(verb, resource, at) is meets


@pytest.mark.parametrize("needed", [[], [3], [0, 4], [1, 2, 3]], ids=str)
def test_only_what_shows_the_violation_is_left(needed: list[int]) -> None:
    async def shows(numbers: Sequence[int]) -> bool:
        return set(needed) <= set(numbers)

    assert asyncio.run(shortest(range(5), shows)) == needed


PATHS = [
    ("/api/v1/pods", ("pods", True)),
    ("/api/v1/nodes/a", ("nodes", False)),
    ("/api/v1/namespaces", ("namespaces", True)),
    ("/api/v1/namespaces/n", ("namespaces", False)),
    ("/api/v1/namespaces/n/pods", ("pods", True)),
    ("/api/v1/namespaces/n/pods/x", ("pods", False)),
    ("/api/v1/namespaces/n/pods/x/eviction", ("eviction", False)),
    ("/apis/apps/v1/namespaces/n/deployments/x/scale", ("scale", False)),
    ("/apis/coordination.k8s.io/v1/namespaces/n/leases/x", ("leases", False)),
    ("/version", ("", False)),
]


@pytest.mark.parametrize(("path", "resource"), PATHS)
def test_the_resource_of_a_request_is_read_from_its_path(path: str, resource: tuple[str, bool]) -> None:
    assert resource_of(path) == resource
