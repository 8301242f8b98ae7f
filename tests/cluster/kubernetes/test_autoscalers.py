"""Which workload an HPA scales, as objects come, change and go."""

import json
from typing import Any

import msgspec
import pytest

from elasticd.cluster.kubernetes.watch.store import BEHAVIOR, Autoscaler, AutoscalerStore, Target, to_autoscaler
from elasticd.cluster.kubernetes.wire.objects import WireAutoscaler
from elasticd.kit.handover import STOPPED
from elasticd.model.policy import MOST
from elasticd.model.workload import Ref

WEB = Ref("shop", "Deployment", "web")


def hpa(
    name: str = "theirs",
    target: str = "web",
    namespace: str = "shop",
    version: str = "apps/v1",
    kind: str = "Deployment",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Autoscaler:
    reference = {"apiVersion": version, "kind": kind, "name": target}
    wire = {
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1", "annotations": annotations},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 9, **spec},
        "status": {"currentReplicas": 3},
    }
    return to_autoscaler(msgspec.json.decode(msgspec.json.encode(wire), type=WireAutoscaler))


def stored(*found: Autoscaler) -> AutoscalerStore:
    store = AutoscalerStore()
    for one in found:
        store.put(one, listed=True)
    return store


@pytest.mark.parametrize(
    ("found", "names"),
    [
        pytest.param([], (), id="none"),
        pytest.param([hpa()], ("theirs",), id="one"),
        pytest.param([hpa(version="apps/v1beta2")], ("theirs",), id="another version of the group"),
        pytest.param([hpa(version="extensions/v1")], (), id="another group"),
        pytest.param([hpa(target="api")], (), id="another workload"),
        pytest.param([hpa(kind="deployment")], ("theirs",), id="its kind in lower case, which Kubernetes takes too"),
        pytest.param([hpa(kind="StatefulSet")], (), id="another kind"),
        pytest.param([hpa(kind="deployment"), hpa(kind="StatefulSet")], (), id="from its kind to another"),
        pytest.param([hpa(namespace="other")], (), id="another namespace"),
        pytest.param([hpa("b"), hpa("a")], ("a", "b"), id="two by mistake"),
        pytest.param([hpa(), hpa()], ("theirs",), id="the same again"),
        pytest.param([hpa(), hpa(target="api")], (), id="turned to another"),
    ],
)
def test_who_scales_a_workload(found: list[Autoscaler], names: tuple[str, ...]) -> None:
    assert stored(*found).scaling(WEB) == names


DISABLED = {"selectPolicy": "Disabled"}
BOTH = {"scaleUp": DISABLED, "scaleDown": DISABLED}
ENDED: dict[str, Any] = {"behavior": BOTH, "maxReplicas": MOST, "minReplicas": 1}
NOTED = {STOPPED: "{}"}
TARGET = ("shop", "apps", "Deployment", "web")
ANNOTATED = json.dumps({"ScaleUp": {"SelectPolicy": "Disabled"}, "ScaleDown": {"SelectPolicy": "Disabled"}})


@pytest.mark.parametrize(
    ("autoscaler", "names"),
    [
        pytest.param(hpa(behavior=BOTH, maxReplicas=MOST, minReplicas=1), (), id="stopped"),
        pytest.param(hpa(annotations={BEHAVIOR: ANNOTATED}, maxReplicas=MOST), (), id="stopped, by autoscaling/v1"),
        pytest.param(hpa(annotations={BEHAVIOR: "{"}, maxReplicas=MOST), ("theirs",), id="unreadable"),
        pytest.param(hpa(behavior=BOTH), ("theirs",), id="a maximum is applied all the same"),
        pytest.param(hpa(behavior=BOTH, maxReplicas=MOST, minReplicas=2), ("theirs",), id="and a minimum"),
        pytest.param(hpa(behavior={"scaleUp": DISABLED}, maxReplicas=MOST), ("theirs",), id="one direction alone"),
        pytest.param(hpa(maxReplicas=MOST), ("theirs",), id="no behavior"),
    ],
)
def test_a_stopped_hpa_scales_nothing(autoscaler: Autoscaler, names: tuple[str, ...]) -> None:
    assert stored(autoscaler).scaling(WEB) == names
    assert stored(hpa(), autoscaler).scaling(WEB) == names
    assert stored(autoscaler, hpa()).scaling(WEB) == ("theirs",)


@pytest.mark.parametrize(
    ("found", "half"),
    [
        pytest.param([hpa(behavior=BOTH)], True, id="a maximum"),
        pytest.param([hpa(behavior=BOTH, maxReplicas=MOST, minReplicas=2)], True, id="a minimum"),
        pytest.param([hpa(annotations={BEHAVIOR: ANNOTATED})], True, id="by autoscaling/v1"),
        pytest.param([hpa(behavior={"scaleUp": DISABLED})], False, id="one direction alone"),
        pytest.param([hpa()], False, id="it scales"),
        pytest.param([hpa("a"), hpa("b", behavior=BOTH)], False, id="another scales"),
        pytest.param(
            [hpa("a", behavior=BOTH), hpa("b", behavior=BOTH, maxReplicas=MOST)], True, id="another is stopped"
        ),
    ],
)
def test_an_hpa_with_bounds_and_nothing_else_is_half_stopped(found: list[Autoscaler], half: bool) -> None:
    store = stored(*found)
    assert store.scaling(WEB)
    assert store.half_stopped(WEB) is half


@pytest.mark.parametrize(
    ("found", "targets"),
    [
        pytest.param([hpa(annotations=NOTED, **ENDED)], [TARGET], id="stopped"),
        pytest.param([hpa(annotations=NOTED, behavior=BOTH)], [TARGET], id="half stopped"),
        pytest.param([hpa(**ENDED)], [], id="stopped by somebody else"),
        pytest.param([hpa(annotations=NOTED)], [], id="restored by hand"),
        pytest.param([hpa(annotations=NOTED, **ENDED), hpa()], [], id="restored"),
        pytest.param([hpa(), hpa(annotations=NOTED, **ENDED)], [TARGET], id="stopped later"),
    ],
)
def test_a_takeover_is_known_by_its_note(found: list[Autoscaler], targets: list[Target]) -> None:
    store = stored(*found)
    assert [*store.taken_over] == targets
    store.retain("", ())
    assert [*store.taken_over] == []


def test_what_is_gone_scales_nothing() -> None:
    store = stored(hpa("a"), hpa("b"), hpa("c", namespace="other"))
    store.remove(hpa("a"))
    store.remove(hpa("a"))
    assert store.scaling(WEB) == ("b",)
    store.retain("shop", ())
    assert store.scaling(WEB) == ()
    assert store.scaling(Ref("other", "Deployment", "web")) == ("c",)
    store.retain("", {("other", "c")})
    assert store.scaling(Ref("other", "Deployment", "web")) == ("c",)
    store.retain("", ())
    assert store.scaling(Ref("other", "Deployment", "web")) == ()
