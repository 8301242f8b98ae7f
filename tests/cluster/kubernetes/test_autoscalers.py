"""Which workload an HPA scales, as objects come, change and go."""

import msgspec
import pytest

from elasticd.cluster.kubernetes.watch.store import Autoscaler, AutoscalerStore, to_autoscaler
from elasticd.cluster.kubernetes.wire.objects import WireAutoscaler
from elasticd.model.workload import Ref

WEB = Ref("shop", "Deployment", "web")


def hpa(name: str = "theirs", target: str = "web", namespace: str = "shop", version: str = "apps/v1") -> Autoscaler:
    wire = {
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
        "spec": {"scaleTargetRef": {"apiVersion": version, "kind": "Deployment", "name": target}, "maxReplicas": 9},
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
        pytest.param([hpa(namespace="other")], (), id="another namespace"),
        pytest.param([hpa("b"), hpa("a")], ("a", "b"), id="two by mistake"),
        pytest.param([hpa(), hpa()], ("theirs",), id="the same again"),
        pytest.param([hpa(), hpa(target="api")], (), id="turned to another"),
    ],
)
def test_who_scales_a_workload(found: list[Autoscaler], names: tuple[str, ...]) -> None:
    assert stored(*found).scaling(WEB) == names


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
