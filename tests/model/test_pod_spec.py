"""Rules about labels and names, as Kubernetes reads them."""

import pytest

from elasticd.model.pod_spec import (
    Expression,
    Needs,
    Operator,
    Taint,
    Term,
    Toleration,
    possible_key,
    possible_namespace,
)


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        pytest.param("In", ("a", "b"), "b", True, id="in"),
        pytest.param("In", ("a", "b"), "c", False, id="not among them"),
        pytest.param("In", ("a",), None, False, id="in, without the label"),
        pytest.param("In", ("a", "b c"), "a", False, id="in, beside what no label can be"),
        pytest.param("In", ("",), "", True, id="in, empty"),
        pytest.param("NotIn", ("a",), "b", True, id="not in"),
        pytest.param("NotIn", ("a",), "a", False, id="not in, but it is"),
        pytest.param("NotIn", ("a",), None, True, id="not in, without the label"),
        pytest.param("NotIn", ("-a",), "b", False, id="not in what no label can be"),
        pytest.param("NotIn", ("x" * 63,), "b", True, id="not in, as long as a label can be"),
        pytest.param("NotIn", ("x" * 64,), "b", False, id="not in what is longer than a label"),
        pytest.param("Exists", (), "", True, id="exists"),
        pytest.param("Exists", (), None, False, id="exists, without the label"),
        pytest.param("DoesNotExist", (), None, True, id="does not exist"),
        pytest.param("DoesNotExist", (), "a", False, id="does not exist, but it does"),
        pytest.param("Gt", ("5",), "6", True, id="greater"),
        pytest.param("Gt", ("5",), "5", False, id="greater, but equal"),
        pytest.param("Gt", ("5",), "06", True, id="greater, with a zero before it"),
        pytest.param("Gt", ("-5",), "6", False, id="greater than what no label can be"),
        pytest.param("Gt", ("+5",), "6", False, id="greater than what has a sign"),
        pytest.param("Gt", ("5",), "6.5", False, id="greater, not whole"),
        pytest.param("Gt", ("5",), "many", False, id="greater, no number"),
        pytest.param("Gt", ("5",), None, False, id="greater, without the label"),
        pytest.param("Gt", ("5", "6"), "7", False, id="greater than two"),
        pytest.param("Gt", ("9223372036854775806",), "9223372036854775807", True, id="greater, the largest"),
        pytest.param("Gt", ("5",), "9223372036854775808", False, id="greater than a number can be"),
        pytest.param("Gt", ("5",), "\u0666", False, id="greater, in other digits"),
        pytest.param("Lt", ("5",), "4", True, id="less"),
        pytest.param("Lt", ("5",), "5", False, id="less, but equal"),
    ],
)
def test_an_expression_holds_as_kubernetes_says(
    operator: Operator, values: tuple[str, ...], label: str | None, holds: bool
) -> None:
    labels = {"other": "a"} | ({} if label is None else {"key": label})
    assert Expression("key", operator, values).matches(labels) is holds


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        pytest.param(Expression("metadata.name", "In", ("node-1",)), True, id="this one"),
        pytest.param(Expression("metadata.name", "In", ("node-2",)), False, id="another"),
        pytest.param(Expression("metadata.name", "NotIn", ("node-2",)), True, id="any but another"),
        pytest.param(Expression("metadata.name", "NotIn", ("node-1",)), False, id="any but this one"),
        pytest.param(Expression("metadata.name", "In", ("node-1", "node-2")), False, id="of several"),
        pytest.param(Expression("metadata.name", "Exists"), False, id="any name"),
        pytest.param(Expression("metadata.uid", "NotIn", ("x",)), False, id="another field"),
    ],
)
def test_a_rule_about_a_name_has_one_value(rule: Expression, holds: bool) -> None:
    assert rule.names("node-1") is holds
    assert Term(fields=(rule,)).matches("node-1", {}) is holds


def test_a_name_may_be_longer_than_a_label() -> None:
    name = "x" * 200
    assert Term(fields=(Expression("metadata.name", "In", (name,)),)).matches(name, {})


def test_a_term_without_rules_holds_nowhere() -> None:
    assert not Term().matches("node-1", {"a": "b"})


def test_a_term_holds_where_all_its_rules_do() -> None:
    zone, name = Expression("zone", "In", ("a",)), Expression("metadata.name", "NotIn", ("node-1",))
    term = Term((zone,), (name,))
    assert term.matches("node-2", {"zone": "a"})
    assert not term.matches("node-2", {"zone": "b"})
    assert not term.matches("node-1", {"zone": "a"})


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Toleration("dedicated", "Equal", "batch"), True, id="equal"),
        pytest.param(Toleration("dedicated", "Equal", "web"), False, id="another value"),
        pytest.param(Toleration("dedicated", "Exists"), True, id="whatever the value"),
        pytest.param(Toleration("other", "Exists"), False, id="another key"),
        pytest.param(Toleration("", "Exists"), True, id="any key"),
        pytest.param(Toleration("", "Exists", "", "NoExecute"), False, id="any key, another effect"),
        pytest.param(Toleration("dedicated", "Exists", "", "NoSchedule"), True, id="this effect"),
        pytest.param(Toleration("dedicated", "Equal"), False, id="no value"),
    ],
)
def test_a_toleration_matches_key_value_and_effect(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates(Taint("dedicated", "NoSchedule", "batch")) is tolerated


GPU, OLD = Taint("gpu", "NoExecute"), Taint("old", "NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "taints", "limit"),
    [
        pytest.param((Toleration("gpu", "Exists"),), (GPU,), None, id="for ever"),
        pytest.param((Toleration("gpu", "Exists", seconds=12.0),), (GPU,), (GPU, 12.0), id="for a time"),
        pytest.param((Toleration("gpu", "Exists", seconds=0.0),), (GPU,), (GPU, 0.0), id="for no time"),
        pytest.param((Toleration("gpu", "Exists", seconds=12.0),), (OLD,), None, id="another taint"),
        pytest.param(
            (Toleration("", "Exists", seconds=12.0),), (Taint("gpu", "NoSchedule"),), None, id="another effect"
        ),
        pytest.param(
            (Toleration("gpu", "Exists", seconds=12.0), Toleration("", "Exists")),
            (GPU,),
            (GPU, 12.0),
            id="first of two",
        ),
        pytest.param(
            (Toleration("", "Exists"), Toleration("gpu", "Exists", seconds=12.0)), (GPU,), None, id="the other"
        ),
        pytest.param(
            (Toleration("gpu", "Exists", seconds=12.0), Toleration("old", "Exists", seconds=3.0)),
            (GPU, OLD),
            (OLD, 3.0),
            id="the shortest",
        ),
    ],
)
def test_a_toleration_for_a_time_limits_no_execute(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], limit: tuple[Taint, float] | None
) -> None:
    """As the taint manager of Kubernetes has it."""
    assert Needs(tolerations=tolerations).time_limit(taints) == limit


@pytest.mark.parametrize(
    ("key", "holds"),
    [
        pytest.param("disk", True, id="a name"),
        pytest.param("a_b.C-d", True, id="of all there may be"),
        pytest.param("example.com/disk", True, id="of a domain"),
        pytest.param("x" * 63, True, id="as long as may be"),
        pytest.param("x" * 64, False, id="too long"),
        pytest.param("", False, id="nothing"),
        pytest.param("example.com/", False, id="a domain alone"),
        pytest.param("/disk", False, id="no domain before the slash"),
        pytest.param("Example.com/disk", False, id="a domain in capitals"),
        pytest.param("a/b/c", False, id="two slashes"),
        pytest.param("a b", False, id="a space"),
        pytest.param("-a", False, id="begins with a dash"),
        pytest.param(f"{'x' * 254}/a", False, id="a domain that is too long"),
        pytest.param("a\n", False, id="ends in a new line"),
    ],
)
def test_a_labels_key_is_one_that_kubernetes_takes(key: str, holds: bool) -> None:
    assert possible_key(key) is holds


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("kube-system", True),
        ("a", True),
        ("9", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("", False),
        ("*", False),
        ("Kube_System", False),
        ("a.b", False),
        ("-a", False),
        ("a-", False),
        ("a\n", False),
    ],
)
def test_what_a_namespace_can_be_called(name: str, holds: bool) -> None:
    assert possible_namespace(name) is holds
