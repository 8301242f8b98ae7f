"""Label selectors: the grammar, and what they match."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.cluster.kubernetes.wire.objects import LabelSelector
from elasticd.cluster.kubernetes.wire.selector import SelectorError, parse_selector, to_text
from elasticd.model.pod_spec import Expression

WEB = {"app": "web", "tier": "front", "example.com/zone": "a"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="equal, written twice"),
        pytest.param("app = web , tier=front", True, id="spaces"),
        pytest.param("app=api", False, id="another value"),
        pytest.param("other=web", False, id="a label that is not there"),
        pytest.param("app!=api", True, id="unequal"),
        pytest.param("app!=web", False, id="unequal to its value"),
        pytest.param("other!=web", True, id="unequal, and not there"),
        pytest.param("app in (api,web)", True, id="in"),
        pytest.param("app in ( api , db )", False, id="not in"),
        pytest.param("other in (web)", False, id="in, and not there"),
        pytest.param("app notin (api,db)", True, id="notin"),
        pytest.param("app notin (web)", False, id="notin its value"),
        pytest.param("other notin (web)", True, id="notin, and not there"),
        pytest.param("app", True, id="exists"),
        pytest.param("other", False, id="does not exist"),
        pytest.param("!other", True, id="absent"),
        pytest.param("!app", False, id="absent, but it is there"),
        pytest.param("example.com/zone=a", True, id="a key with a prefix"),
        pytest.param("app=web,tier in (front,back),!canary,example.com/zone", True, id="all kinds together"),
        pytest.param("app=web,tier in (back),!canary", False, id="one of several fails"),
        pytest.param("app=", False, id="the empty value"),
    ],
)
def test_selector_matches(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(WEB) is matches


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        ",",
        "app=web,",
        "app in web",
        "app in (web",
        "app=we b",
        "-app=web",
        "app=web tier=front",
        "app > 1",
        "=web",
    ],
)
def test_what_is_no_selector_is_an_error(text: str) -> None:
    with pytest.raises(SelectorError, match="must"):
        parse_selector(text)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2", id="labels, in order"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}, "a in (x,y)", id="In"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, "a notin (x)", id="NotIn"
        ),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a", id="Exists"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": None}]}, "!a", id="DoesNotExist"
        ),
        pytest.param({}, "", id="empty"),
        pytest.param(None, "", id="none"),
    ],
)
def test_selector_object_becomes_text(selector: dict[str, Any] | None, text: str) -> None:
    assert to_text(msgspec.convert(selector, LabelSelector | None)) == text


def test_an_unknown_operator_of_a_selector_is_an_error() -> None:
    selector = {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "Near"}]}
    with pytest.raises(SelectorError, match="a Near"):
        parse_selector(to_text(msgspec.convert(selector, LabelSelector)))


def test_the_index_gets_only_pairs_that_every_match_carries() -> None:
    parsed = parse_selector("a=1,b in (2),c in (3,4),d!=5,e,!f")
    assert parsed.pairs == [("a", "1"), ("b", "2")]


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
RULES = st.one_of(
    st.builds(Expression, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, unique=True).map(tuple)),
    st.builds(Expression, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
)


def write(rule: Expression) -> str:
    """One rule as text."""
    if rule.operator in ("In", "NotIn"):
        return f"{rule.key} {rule.operator.lower()} ({','.join(rule.values)})"
    return rule.key if rule.operator == "Exists" else f"!{rule.key}"


def naive(labels: dict[str, str], rule: Expression) -> bool:
    """What Kubernetes' documentation says, word by word."""
    if rule.operator == "In":
        return rule.key in labels and labels[rule.key] in rule.values
    if rule.operator == "NotIn":
        return not (rule.key in labels and labels[rule.key] in rule.values)
    return (rule.key in labels) == (rule.operator == "Exists")


@given(st.lists(RULES, min_size=1, max_size=4), st.dictionaries(KEYS, VALUES))
def test_selectors_match_as_documented(rules: list[Expression], labels: dict[str, str]) -> None:
    parsed = parse_selector(",".join(map(write, rules)))
    assert parsed.rules == tuple(rules)
    assert parsed.matches(labels) is all(naive(labels, rule) for rule in rules)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        parse_selector(text).matches(WEB)
    except SelectorError as error:
        assert "must" in str(error)  # noqa: PT017
