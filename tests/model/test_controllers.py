"""Which controllers recreate an evicted pod."""

import pytest

from elasticd.model.controllers import controller_kind, names_controller, recreates


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("apps/v1", "ReplicaSet", "ReplicaSet"),
        ("apps/v1beta2", "StatefulSet", "StatefulSet"),
        ("v1", "ReplicationController", "ReplicationController"),
        ("batch/v1", "Job", "Job"),
        ("v1", "Node", "Node"),
        ("apps.kruise.io/v1alpha1", "DaemonSet", "DaemonSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet", "apps.kruise.io/v1beta1/StatefulSet"),
        ("batch.volcano.sh/v1alpha1", "Job", "batch.volcano.sh/v1alpha1/Job"),
        ("v1", "ReplicaSet", "v1/ReplicaSet"),
        ("", "ReplicationController", "/ReplicationController"),
    ],
)
def test_a_kind_of_another_group_is_another_kind(api_version: str, kind: str, expected: str) -> None:
    assert controller_kind(api_version, kind) == expected
    assert controller_kind(api_version, kind) is controller_kind(api_version, kind)  # one text for all pods


@pytest.mark.parametrize(
    ("kind", "allowed", "expected"),
    [
        ("ReplicaSet", (), True),
        ("StatefulSet", (), True),
        ("ReplicationController", (), True),
        ("apps.kruise.io/v1alpha1/CloneSet", (), True),
        ("apps.kruise.io/v1beta1/StatefulSet", (), True),
        ("apps.kruise.io/v1alpha1/BroadcastJob", (), False),
        ("example.com/v1/ReplicaSet", (), False),
        ("v1/CloneSet", (), False),
        ("CloneSet", (), False),
        ("example.com/v1/Foo", ("example.com/v1/Foo",), True),
        ("example.com/v1beta1/Foo", ("example.com/v1/Foo",), True),
        ("example.org/v1/Foo", ("example.com/v1/Foo",), False),
        ("example.com/v1/Bar", ("example.com/v1/Foo",), False),
    ],
)
def test_known_and_named_controllers_recreate_pods(kind: str, allowed: tuple[str, ...], expected: bool) -> None:
    assert recreates(kind, allowed) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.com/v1/Foo", True),
        ("Foo", False),
        ("v1/Foo", False),
        ("a/b/v1/Foo", False),
        ("example.com/v1/", False),
        ("example.com/v1/F oo", False),
    ],
)
def test_a_controller_is_named_by_group_version_and_kind(text: str, expected: bool) -> None:
    assert names_controller(text) is expected
