"""Every option of what is bundled: that it is told, and that nonsense in it is refused by `elasticd check` in one line.

The cases are made from the types, so that an option which comes later is tried too.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import inspect

from elasticd.cli import main
from elasticd.config import load_policy
from elasticd.config.tables import PLACING
from elasticd.registry import discover, implemented
from elasticd.ui.options import Option, options

pytestmark = pytest.mark.slow

REGISTRY = discover()
HOURS = {"start": "0 8 * * *", "duration": 60}
GUARDS = [{"series": "errors", "ratio": 1.5, "above": 0.1}]
RATES = [{"type": "Pods", "value": 1, "period": 60}]
DIRECTION = {"policies": RATES}

FOUR = {"cpu": 0.25, "memory": 0.25, "bandwidth": 0.25, "disk": 0.25}
KINDS = ("load", "compressible", "incompressible", "balanced")
TERM = {
    "labels": [{"key": "zone", "operator": "In", "values": ["a"]}],
    "fields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}],
}
EAGLE = {"peak": {"disk": "filled"}, **dict.fromkeys(KINDS, FOUR)}

# Of each type a table that is right, in which every table that an option may hold is given once. Where two options
# exclude each other there are two tables.
RIGHT: dict[str, list[dict[str, Any]]] = {
    "bald-eagle": [EAGLE],
    "bald-eagle-plain": [EAGLE],
    "binding": [
        {"rules": [{"expressions": [{"key": "tier", "operator": "in", "values": ["a"]}], "pods": {"app": "a"}}]}
    ],
    "blackout": [{"windows": [HOURS]}, {"windows": [{"start": "0 8 * * *", "end": "0 9 * * *"}]}],
    "event": [
        {"triggers": [{"series": "q", "average_value": 1}]},
        {"triggers": [{"series": "q"}], "formula": {"expression": "q", "value": 1}},
    ],
    "filters": [{"skip": ["disks"], "keep_free": {"cpu": "1"}, "added_affinity": [TERM]}],
    "forecast": [{"series": "f", "target": 1}],
    "hpa": [
        {
            "metrics": [
                {"type": "Resource", "resource": "cpu", "utilization": 50},
                {"type": "ContainerResource", "resource": "cpu", "container": "web", "utilization": 50},
                {"type": "Pods", "series": "p", "average_value": 1},
                {"type": "Object", "series": "o", "value": 1},
                {"type": "External", "series": "e", "value": 1},
            ],
            "behavior": {"scale_up": DIRECTION, "scale_down": DIRECTION},
        }
    ],
    "jobs": [{"queue": [{"series": "q"}]}],
    "node-affinity": [{"added": [{"weight": 1, "term": TERM}]}],
    "rate": [{"up": RATES, "down": RATES}],
    "rebind": [
        {
            "rules": [
                {
                    "expressions": [{"key": "tier", "operator": "in", "values": ["a"]}],
                    "pods": {"app": "a"},
                    "node_label_change": "kill",
                }
            ]
        }
    ],
    "rebalance": [{"by": "use", "marks": [{"resource": "cpu", "high": 0.8, "calm": 0.7, "low": 0.5}]}],
    "schedule": [{"windows": [{**HOURS, "replicas": 3}], "instants": [{"at": "0 8 * * *", "replicas": 3}]}],
    "scheduled-bounds": [{"windows": [{**HOURS, "max": 3}]}],
    "spread": [{"subsets": [{"name": "a", "labels": {"pool": "a"}, "max": 4}, {"name": "b"}]}],
    "subsets": [{"subsets": [{"name": "a", "labels": {"pool": "a"}, "max": 4}, {"name": "b"}]}],
    "staged": [{"up": {"percent": 50}, "down": {"percent": 50}, "guards": GUARDS}],
    "topsis": [
        {"weights": {"cpu": 0.2, "io": 0.2}, "use": {"io": "writes"}},
        {"pairwise": [[1.0] * 5] * 5},
    ],
    "vertical": [{"cpu": {"margin": 0.1}, "memory": {"margin": 0.1}}],
}

Way = tuple[str | int, ...]


class Case(NamedTuple):
    """A wrong value at one place of a table that is right, and how the line about it goes on after the key."""

    type: str
    table: dict[str, Any]
    where: Way
    value: Any
    problem: str

    @property
    def key(self) -> str:
        """As `elasticd check` writes it."""
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.where]
        return f"{'limit' if is_limit(self.type) else 'strategy'}[0]{''.join(steps)}"


def is_limit(name: str) -> bool:
    hooks = implemented(REGISTRY.strategies[name].type)
    return "limit" in hooks and not hooks & {"recommend_replicas", "rank_pods"}


def is_for_pools(name: str) -> bool:
    return bool(implemented(REGISTRY.strategies[name].type) & PLACING)


def bare(kind: inspect.Type) -> inspect.Type:
    """Without its metadata; of `something | None`, something."""
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    if isinstance(kind, inspect.UnionType):
        members = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return bare(members[0]) if len(members) == 1 else kind
    return kind


def places(kind: inspect.Type, table: Any, where: Way = ()) -> Iterator[tuple[Way, inspect.Type]]:
    """Every option of a table and of those in it, with its type."""
    kind = bare(kind)
    if isinstance(kind, inspect.VarTupleType | inspect.CollectionType):
        for index, entry in enumerate(table):
            yield from places(kind.item_type, entry, (*where, index))
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            if isinstance(member, inspect.StructType) and member.tag == table.get("type"):
                yield from places(member, table, where)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            name = field.encode_name
            yield (*where, name), field.type
            if isinstance(table, dict) and isinstance(table.get(name), dict | list):
                yield from places(field.type, table[name], (*where, name))


WRONG: dict[type, tuple[Any, str]] = {
    inspect.IntType: ("some", "must be a whole number"),
    inspect.FloatType: ("some", "must be a number"),
    inspect.BoolType: ("some", "must be true or false"),
    inspect.StrType: (7, "must be a string"),
    inspect.LiteralType: ("some", "must be one of "),
    inspect.VarTupleType: (7, "must be an array"),
    inspect.DictType: (7, "must be a table"),
    inspect.StructType: (7, "must be a table"),
    inspect.UnionType: (True, "must be "),
}


def nonsense(kind: inspect.Type) -> Iterator[tuple[Any, str]]:
    """A value of the wrong type, and one beyond each bound, with what must hold."""
    kind = bare(kind)
    yield WRONG[type(kind)]
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        yield from beyond(kind)
    if isinstance(kind, inspect.StrType | inspect.VarTupleType) and kind.min_length:
        few = f"must have at least {kind.min_length} entries"
        yield "" if isinstance(kind, inspect.StrType) else [], few if kind.min_length > 1 else "must not be empty"


def beyond(kind: inspect.IntType | inspect.FloatType) -> Iterator[tuple[Any, str]]:
    """A value beyond each bound. Of whole numbers > 0 is told as >= 1."""
    whole = isinstance(kind, inspect.IntType)
    if kind.gt is not None:
        yield kind.gt, f"must be >= {kind.gt + 1}" if whole else f"must be > {kind.gt:g}"
    if kind.ge is not None:
        yield kind.ge - 1, f"must be >= {plain(kind.ge)}"
    if kind.lt is not None:
        yield kind.lt, f"must be <= {kind.lt - 1}" if whole else f"must be < {kind.lt:g}"
    if kind.le is not None:
        yield kind.le + 1, f"must be <= {plain(kind.le)}"


def plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{number:.0f}"


def cases() -> Iterator[Case]:
    for name, installed in REGISTRY.strategies.items():
        if not installed.distribution.startswith("elasticd "):
            continue
        seen = set()
        for table in RIGHT.get(name, [{}]):
            for where, kind in places(inspect.type_info(installed.type), table):
                if where not in seen:
                    seen.add(where)
                    yield from (Case(name, table, where, *one) for one in nonsense(kind))


CASES = list(cases())


def toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + " }"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list | tuple) else json.dumps(value)


def with_value(table: Any, where: Way, value: Any) -> Any:
    if not where:
        return value
    step, rest = where[0], where[1:]
    if isinstance(step, int):
        return [with_value(one, rest, value) if index == step else one for index, one in enumerate(table)]
    return {**table, step: with_value(table.get(step), rest, value)}


def policy(name: str, table: dict[str, Any]) -> str:
    """A policy that has this table, of a strategy or a limit."""
    own = [{"type": name, **table}]
    if is_for_pools(name):
        others = [] if name == "filters" else [{"type": "filters"}]
        return f"strategy = {toml(own + others)}\n[pool]\n"
    counting = [] if "recommend_replicas" in implemented(REGISTRY.strategies[name].type) else [{"type": "hpa"}]
    tables = {"strategy": counting, "limit": own} if is_limit(name) else {"strategy": own + counting}
    about = '[workload]\nnamespace = "shop"\nname = "web"\n'
    if name == "jobs":
        pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
        manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
        about = f'[job]\nnamespace = "shop"\nname = "web"\ntemplate = {toml(manifest)}\n'
    lines = [f"{key} = {toml(value)}" for key, value in tables.items()]
    return "\n".join([*lines, "replicas = { min = 3, max = 9 }", about])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """What `elasticd check` says of a folder of policies each of which has one mistake, by the mistake's number."""
    folder = tmp_path_factory.mktemp("policies")
    out: list[str] = []
    for index, case in enumerate(CASES):
        text = policy(case.type, with_value(case.table, case.where, case.value))
        (folder / f"{index:04}.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda *words, **_: out.append(" ".join(map(str, words))))
        assert main(["check", str(folder)]) == 78
    assert all("\n" not in line for line in out)
    found: dict[int, list[str]] = {}
    for line in out:
        file, _, rest = line.removeprefix(f"{folder}/").partition(": ")
        found.setdefault(int(Path(file).stem), []).append(rest)
    return found


def by_option() -> dict[str, list[int]]:
    """The numbers of the mistakes that are made in each option."""
    found: dict[str, list[int]] = {}
    for number, case in enumerate(CASES):
        found.setdefault(f"{case.type}{case.key.partition(']')[2]}", []).append(number)
    return found


@pytest.mark.parametrize("numbers", [pytest.param(numbers, id=option) for option, numbers in by_option().items()])
def test_a_wrong_option_is_refused_with_place_rule_and_value(numbers: list[int], told: dict[int, list[str]]) -> None:
    for case, lines in ((CASES[number], told[number]) for number in numbers):
        (line,) = lines
        assert line.startswith(f"{case.key}: {case.problem}"), line
        assert f", is {json.dumps(case.value)}" in line, line


@pytest.mark.parametrize(
    ("name", "table"),
    [
        pytest.param(name, table, id=f"{name} {index}")
        for name in REGISTRY.strategies
        for index, table in enumerate(RIGHT.get(name, [{}]))
    ],
)
def test_what_nonsense_is_put_into_is_right_by_itself(name: str, table: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "right.toml").write_text(policy(name, table))
    assert load_policy(tmp_path / "right.toml", REGISTRY).name == "right"


FREE = {"priority", "guards[].above"}
"""Numbers that may have any sign and size."""

ALL = [
    pytest.param(options(installed.type), id=name)
    for name, installed in (*REGISTRY.strategies.items(), *REGISTRY.sources.items())
]


@pytest.mark.parametrize("of", ALL)
def test_every_option_is_described(of: list[Option]) -> None:
    assert [option.name for option in of if not option.description] == []


@pytest.mark.parametrize("of", ALL)
def test_every_number_has_a_bound(of: list[Option]) -> None:
    numbers = [one for one in of if one.kind.split(" ")[0] in ("integer", "number") and one.name not in FREE]
    assert [one.name for one in numbers if not {">", ">=", "<", "<="} & set(one.kind.split())] == []


def test_every_option_that_can_be_set_is_tried() -> None:
    for name, installed in REGISTRY.strategies.items():
        tried = {".".join(step for step in case.where if isinstance(step, str)) for case in CASES if case.type == name}
        shown = {".".join(part.partition("[")[0] for part in one.name.split(".")) for one in options(installed.type)}
        assert shown <= tried, name
