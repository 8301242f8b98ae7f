"""What is installed: what kind each plugin is, and all of one."""

import pytest

from elasticd.base.errors import UnavailableError
from elasticd.registry import discover
from elasticd.ui.installed import called, described, everything, listed, shown
from tests.ui.test_decisions import text

REGISTRY = discover()


@pytest.mark.parametrize(
    ("name", "kinds", "does"),
    [
        ("hpa", ["strategy"], "says how many replicas"),
        ("cadence", ["strategy"], "sets how often to look"),
        ("spread", ["strategy"], "chooses which pods go first"),
        ("vertical", ["strategy"], "says what containers request"),
        ("cooldown", ["limit"], "limits counts"),
        ("filters", ["pool strategy"], "filters nodes"),
        ("topsis", ["pool strategy"], "scores nodes"),
        ("preemption", ["pool strategy"], "preempts pods"),
        ("rebalance", ["pool strategy"], "moves pods off nodes"),
        ("prometheus", ["source"], ""),
        ("forecast", ["strategy", "source"], "says how many replicas"),
    ],
)
def test_the_list_says_what_kind_each_is(name: str, kinds: list[str], does: str) -> None:
    found = [described(one, REGISTRY) for one in called(REGISTRY, name)]
    assert [one["kind"] for one in found] == kinds
    assert not does or does in found[0]["does"]
    for kind in kinds:
        row = next(
            line for line in text(listed(REGISTRY), 80).splitlines() if line.split()[:1] == [name] and kind in line
        )
        assert len(row) <= 80


def test_every_plugin_is_described_with_kind_effect_and_file() -> None:
    for one in everything(REGISTRY):
        said = described(one, REGISTRY)
        assert said["kind"] == "source" or said["does"]
        assert said["file"].endswith(".py")
        assert said["doc"]


def test_one_is_shown_with_its_options_defaults_bounds_and_file() -> None:
    (cadence,) = called(REGISTRY, "cadence")
    lines = text(shown(cadence, REGISTRY), 80).splitlines()
    assert lines[0].rstrip() == "cadence  strategy: sets how often to look"
    assert "plugin cadence of elasticd " in lines[1]
    assert "cadence.py" in " ".join(lines[1:3])
    assert any(line.split()[:4] == ["slow", "number", ">=", "0.1,"] and "30.0" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_name_that_nothing_has_is_reported_with_the_nearest() -> None:
    with pytest.raises(UnavailableError, match=r'^nothing installed is called "cadense", did you mean "cadence"\?$'):
        called(REGISTRY, "cadense")
