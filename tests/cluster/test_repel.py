"""Which pods a pod keeps off nodes like its own."""

import pytest

from elasticd.model.pod_spec import Expression, Repel
from elasticd.model.workload import Pod
from tests.kit.pools import columns, node, pod

WEB = (Expression("app", "In", ("web",)),)
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("repel", "namespace", "labels", "kept"),
    [
        pytest.param(Repel(ZONE, WEB), "home", {"app": "web"}, True, id="one of its own namespace"),
        pytest.param(Repel(ZONE, WEB), "shop", {"app": "web"}, False, id="one of another"),
        pytest.param(Repel(ZONE, WEB, ("shop",)), "shop", {"app": "web"}, True, id="one of a named namespace"),
        pytest.param(Repel(ZONE, WEB, ("shop",)), "home", {"app": "web"}, False, id="its own is not named"),
        pytest.param(Repel(ZONE, WEB, None), "any", {"app": "web"}, True, id="any namespace"),
        pytest.param(Repel(ZONE, WEB), "home", {"app": "api"}, False, id="other labels"),
        pytest.param(Repel(ZONE, ()), "home", {}, True, id="all pods"),
        pytest.param(Repel(ZONE, None), "home", {"app": "web"}, False, id="no pods"),
    ],
)
def test_pods_are_kept_off_by_namespace_and_labels(
    repel: Repel, namespace: str, labels: dict[str, str], kept: bool
) -> None:
    assert repel.keeps_off("home", namespace, labels) is kept


def test_nodes_with_a_repelling_pod_are_found_without_a_scan() -> None:
    view = columns([node("a"), node("b")], [pod("p", on="b", repels=(Repel(ZONE, WEB),)), pod("q", on="a")])
    looked: list[str] = []

    def repels(one: Pod) -> bool:
        looked.append(one.name)
        return bool(one.needs.repels)

    assert view.holding("repels", repels).tolist() == [False, True]
    assert looked == ["p"]
