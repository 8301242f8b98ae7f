"""That templates say which topics are listened to, and what they name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from elasticd.sources.mqtt.payload import RefusedError
from elasticd.sources.mqtt.topics import Topic

LEVELS = st.text(st.characters(exclude_characters="/+#\0", exclude_categories=["Cs"]), max_size=4)


def topic(template: str = "sensors/{namespace}/{workload}/load", **options: Any) -> Topic:
    return Topic(**{"topic": template, "series": "load", "subject": "workload", **options})


def key(one: Topic, name: str) -> str | None:
    match = one.pattern.fullmatch(name)
    return one.key(match.groupdict()) if match else None


@pytest.mark.parametrize(
    ("one", "filters", "name", "expected"),
    [
        (topic(), ("sensors/+/+/load",), "sensors/shop/web/load", "shop/Deployment/web"),
        (topic(), ("sensors/+/+/load",), "sensors/shop/load", None),
        (topic(kind="StatefulSet"), ("sensors/+/+/load",), "sensors/shop/db/load", "shop/StatefulSet/db"),
        (topic("{kind}/{workload}", namespace="shop"), ("+/+",), "StatefulSet/db", "shop/StatefulSet/db"),
        (topic("a/+/{namespace}/{pod}/#", subject="pod"), ("a/+/+/+/#",), "a/b/shop/web-1/c/d", "shop/web-1"),
        (topic("a/+/{namespace}/{pod}/#", subject="pod"), ("a/+/+/+/#",), "a/b/shop/web-1", "shop/web-1"),
        (topic("nodes/{node}", subject="node"), ("nodes/+",), "nodes/n1.example.com", "n1.example.com"),
        (topic("load.cpu", namespace="shop", workload="web"), ("load.cpu",), "loadxcpu", None),
        (topic("load", namespace="shop", workload="web", offline="up"), ("load", "up"), "load", "shop/Deployment/web"),
        (topic("{node}/x", subject="node", offline="{node}/up"), ("+/x", "+/up"), "n1/x", "n1"),
    ],
)
def test_a_template_yields_filters_and_subjects(
    one: Topic, filters: tuple[str, ...], name: str, expected: str | None
) -> None:
    assert one.filters == filters
    assert key(one, name) == expected


@given(st.lists(st.sampled_from(["a", "+", "{node}"]) | LEVELS, min_size=1, max_size=4), st.booleans(), st.data())
def test_a_template_matches_what_its_filter_lets_through(parts: list[str], rest: bool, data: st.DataObject) -> None:
    parts = [part for index, part in enumerate(parts) if part != "{node}" or part not in parts[:index]]
    parts = [part for part in parts if part == "{node}" or not {*part} & {*"{}"}] + (["#"] if rest else [])
    if not "/".join(parts):
        return
    one = topic("/".join(parts), subject="node", node="n1")
    names = [data.draw(LEVELS) if part in ("+", "{node}", "#") else part for part in parts]
    for name in ("/".join(names), "/".join(names[:-1]), "/".join([*names, "x"])):
        if not name.startswith("$") and name:
            assert bool(one.pattern.fullmatch(name)) == topic_matches_sub(one.filters[0], name)


@pytest.mark.parametrize(
    "name",
    [
        "sensors/Shop/web/load",
        "sensors//web/load",
        "sensors/shop/we_b/load",
        "sensors/shop/-web/load",
        "sensors/shop/web\n/load",
        "sensors/shop/" + "w" * 254 + "/load",
        "sensors/" + "s" * 64 + "/web/load",
        "sensors/shop/{__class__}/load",
        "sensors/shop/../load",
    ],
    ids=repr,
)
def test_names_that_kubernetes_does_not_allow_are_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="name"):
        key(topic(), name)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"template": "sensors/{namespace}/load"}, "workload: must be given, or be a level of topic: {workload}"),
        ({"template": "load"}, "namespace: must be given"),
        ({"template": "a{namespace}/{workload}"}, "topic: must have whole levels"),
        ({"template": "a/b+/{namespace}/{workload}"}, "topic: must have whole levels"),
        ({"template": "#/{namespace}/{workload}"}, "topic: must have # only at the end"),
        ({"template": "{namespace}/{namespace}/{workload}"}, "topic: must have each name once"),
        ({"offline": "up/{agent}"}, "offline: must have only levels that topic has too, has {agent}"),
        ({"template": "load", "namespace": "Shop", "workload": "web"}, "namespace: must be a name that Kubernetes"),
        ({"time": "ts"}, "payload: must be a path where time, sequence or items is one"),
        ({"payload": "a..b"}, "payload: must be a path like"),
        ({"payload": "v", "time": "a["}, "time: must be a path like"),
        ({"names": {"pod": "name"}}, "items: must be given with names"),
        ({"consecutive": True}, "consecutive: must be true only with sequence, is true"),
        (
            {"consecutive": True, "payload": "v", "sequence": "n", "items": "i"},
            "consecutive: must be true only without items, is true",
        ),
        ({"payload": "v", "items": "i", "names": {"pot": "name"}}, "names: must name only"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem.replace('{', '[{]')}"):
        topic(**options)
