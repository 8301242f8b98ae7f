"""Any file is read or refused in one line."""

import copy
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elasticd.base.errors import ConfigError
from elasticd.config import load_policy, load_settings
from elasticd.config.settings import anchored
from tests.kit.configs import REGISTRY


def toml(value: Any) -> str:
    """Any value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(entry) for entry in value) + "]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool | float) else str(value)


TEXT = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF), max_size=8)
WORDS = st.sampled_from(
    re.findall(
        r"\w+",
        """
    mode act interval replicas min max workload select namespaces labels name namespace strategy limit type hpa cadence
    rate metrics Resource External resource cpu utilization average_value behavior scale_up policies value period
    cluster nodes simulated kubernetes source every http port journal memory
""",
    )
)
LEAVES = (
    st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | WORDS
    | st.dates(min_value=date(1, 1, 1))
    | st.sampled_from([0, 1, 5])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | TEXT, inner, max_size=4), max_leaves=12
)
GOOD: dict[str, Any] = {
    "mode": "act",
    "workload": {"namespace": "shop", "name": "web"},
    "replicas": {"min": 1, "max": 5},
    "strategy": [
        {
            "type": "hpa",
            "metrics": [
                {"type": "Resource", "resource": "cpu", "utilization": 50},
                {"type": "External", "series": "q", "value": "5"},
            ],
            "behavior": {"scale_up": {"policies": [{"type": "Pods", "value": 4, "period": 15}]}},
        },
        {"type": "cadence", "alpha": 0.5},
    ],
    "limit": [{"type": "rate", "up": [{"type": "Pods", "value": 4, "period": 15}]}, {"type": "cooldown"}],
}
GOOD_SETTINGS: dict[str, Any] = {
    "policies": "p",
    "cluster": {
        "type": "simulated",
        "nodes": [{"name": "n", "cpu": "4", "memory": "8Gi"}],
        "workloads": [{"name": "w", "namespace": "x", "replicas": 1}],
    },
    "source": [{"type": "resource-metrics", "every": 1.0}],
    "http": {"port": 1},
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in nested tables."""
    entries = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return [(value, key) for key, _ in entries] + [place for _, entry in entries for place in places(entry)]


@st.composite
def spoiled(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """A valid file with one or two things replaced, added or gone."""
    table = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 2))):
        container, key = draw(st.sampled_from(range(len(places(table)))).map(lambda index: places(table)[index]))
        change = draw(st.sampled_from(["replace", "add", "remove"]))
        if change == "replace":
            container[key] = draw(TREES)
        elif change == "add" and isinstance(container, dict):
            container[draw(WORDS | TEXT)] = draw(TREES)
        else:
            del container[key]
        if not places(table):
            break
    return table


def told_by(load: Any, path: Path) -> str:
    """What is wrong with a file, or an empty string."""
    try:
        load(path, REGISTRY)
    except ConfigError as error:
        return str(error)
    return ""


def decodes_or_is_one_line(path: Path, table: dict[str, Any], load: Any) -> None:
    path.write_text("\n".join(f"{json.dumps(key)} = {toml(entry)}" for key, entry in table.items()), encoding="utf-8")
    told = told_by(load, path)
    for line in told.split("\n") if told else ():
        assert line.isprintable()
        assert line.startswith(f"{path}: ")
    assert "must be TOML" not in told


FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@FUZZ
@given(table=st.dictionaries(WORDS | TEXT, TREES, max_size=5) | spoiled(GOOD))
def test_any_policy_is_read_or_refused_in_one_line(tmp_path: Path, table: dict[str, Any]) -> None:
    decodes_or_is_one_line(tmp_path / "web.toml", table, load_policy)


@FUZZ
@given(table=st.dictionaries(WORDS | TEXT, TREES, max_size=5) | spoiled(GOOD_SETTINGS))
def test_any_settings_are_read_or_refused_in_one_line(tmp_path: Path, table: dict[str, Any]) -> None:
    decodes_or_is_one_line(tmp_path / "elasticd.toml", table, load_settings)


@FUZZ
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "web.toml"
    path.write_bytes(content)
    assert told_by(load_policy, path).isprintable()


def test_what_is_spoiled_in_the_fuzz_was_good(tmp_path: Path) -> None:
    for name, table, load in (("a.toml", GOOD, load_policy), ("elasticd.toml", GOOD_SETTINGS, load_settings)):
        path = tmp_path / name
        path.write_text("\n".join(f"{key} = {toml(entry)}" for key, entry in table.items()))
        load(path, REGISTRY)


def test_labels_are_no_paths(tmp_path: Path) -> None:
    """Whatever their names: they are others'."""
    table = {"labels": {"file": "orders.go", "config_file": "b"}, "ca_file": "ca.pem", "tls": {"key_file": "key.pem"}}
    found = anchored(table, tmp_path)
    assert found == {
        "labels": {"file": "orders.go", "config_file": "b"},
        "ca_file": str(tmp_path / "ca.pem"),
        "tls": {"key_file": str(tmp_path / "key.pem")},
    }
