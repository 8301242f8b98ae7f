"""Policies about pods: every mistake is one line that says what to mend."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from elasticd.api import Nodes, Refusal, Scores, Strategy, hookimpl
from elasticd.base.errors import ConfigError
from elasticd.config import load_policy, read_policies
from elasticd.registry import Registry, discover
from elasticd.testing import registry as registry_of

REGISTRY = discover()
FILTERS = '[[strategy]]\ntype = "filters"\n'
POOL = "[pool]\n"
GOOD = POOL + FILTERS
KNOWN = (
    "balanced-allocation, bald-eagle, bald-eagle-plain, binding, drain, filters, image-locality, least-requested, "
    "load-balance, node-affinity, pod-affinity, preemption, rebalance, rebind, static, subsets, taint-toleration, "
    "topology-spread, topsis"
)
HOLE = "strategy: must have one that keeps pods off nodes that cannot take them"


def problem_of(tmp_path: Path, text: str, registry: Registry = REGISTRY) -> str:
    """The one line by which a policy is refused; empty: it is not."""
    path = tmp_path / "batch.toml"
    path.write_text(text)
    try:
        load_policy(path, registry)
    except ConfigError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(GOOD, "", id="filters"),
        pytest.param(POOL + '[[strategy]]\ntype = "least-requested"\n', f"{HOLE} (filters), has none", id="a score"),
        pytest.param(
            POOL + '[[strategy]]\ntype = "binding"\n[[strategy]]\ntype = "preemption"\n',
            f"{HOLE} (filters), has none",
            id="bindings and preemption",
        ),
        pytest.param(
            GOOD + '[[strategy]]\ntype = "preemption"\nmin_run = 600\n' * 2,
            "strategy[2]: must differ from strategy[1], is the same",
            id="one and the same twice",
        ),
        pytest.param(
            GOOD + "".join(f'[[strategy]]\ntype = "preemption"\nmin_run = {run}\n' for run in (600, 0)),
            'strategy[2].type: must be the only "preemption" of a policy, is the second after strategy[1]',
            id="a careful and a careless preemption",
        ),
        pytest.param(GOOD + '[[strategy]]\ntype = "filters"\nkeep_free = { cpu = "1" }\n', "", id="filters twice"),
        *[
            pytest.param(
                GOOD + f'[moves]\nspared = ["vault", "{name}"]\n',
                f'moves.spared[1]: must be the name of a namespace, is "{name}"{more}',
                id=f"moves.spared, {name}",
            )
            for name, more in (("*", "; a policy without strategies that move pods spares all"), ("Kube_System", ""))
        ],
        *[
            pytest.param(
                GOOD + f'[moves]\ncontrollers = ["example.com/v1/Foo", "{kind}"]\n',
                f'moves.controllers[1]: must be GROUP/VERSION/KIND, as "example.com/v1/Foo", is "{kind}"',
                id=f"moves.controllers, {kind}",
            )
            for kind in ("Foo", "v1/Foo", "example.com//Foo")
        ],
        pytest.param(
            POOL + '[[strategy]]\ntype = "leest-requested"\n',
            f'strategy[0].type: must be one of {KNOWN}, is "leest-requested", did you mean "least-requested"?',
            id="a misspelt strategy: only those for pools are named",
        ),
        pytest.param(
            POOL + "[[strategy]]\nweight = 1\n",
            f"strategy[0].type: must be given (one of {KNOWN}), is missing",
            id="a strategy without a type",
        ),
        pytest.param(
            POOL + '[[strategy]]\ntype = "hpa"\nmetrics = [{ type = "External", series = "q", value = 1 }]\n',
            'strategy[0].type: must be one that places pods, is the strategy "hpa"',
            id="a strategy for workloads",
        ),
        *[
            pytest.param(GOOD + table, f"{key}: must not stand beside [pool], does", id=key)
            for key, table in (
                ("workload", '[workload]\nnamespace = "a"\nname = "b"\n'),
                ("select", '[select]\nnamespaces = ["a"]\n'),
                ("job", '[job]\nnamespace = "a"\nname = "b"\n'),
                ("replicas", "[replicas]\nmax = 2\n"),
                ("limit", '[[limit]]\ntype = "cooldown"\nafter_up = 60\n'),
                ("foreign", "[foreign]\nstrikes = 1\n"),
            )
        ],
        pytest.param('combine = "max"\n' + GOOD, "combine: must not stand beside [pool], does", id="combine"),
        pytest.param('mdoe = "act"\n' + GOOD, 'mdoe: no such key, did you mean "mode"?', id="a misspelt key"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert problem_of(tmp_path, text) == line


class Own(Strategy, tag="own", frozen=True):
    """A third party's filters."""

    keeps_off: ClassVar[bool] = True

    @hookimpl
    def filter_nodes(self, nodes: Nodes) -> Sequence[Refusal]:
        return []


class Score(Strategy, tag="score", frozen=True):
    """A third party's score."""

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores | None:
        return None


def plugin(*types: type[Strategy]) -> Registry:
    made = ModuleType("theirs")
    vars(made)["register_strategies"] = hookimpl(lambda: list(types))
    return registry_of(made)


@pytest.mark.parametrize(
    ("types", "used", "line"),
    [
        pytest.param([Own, Score], ["own"], "", id="their own filters suffice"),
        pytest.param([Own, Score], ["score"], f"{HOLE} (own), has none", id="what would do is named"),
        pytest.param([Score], ["score"], f"{HOLE}, has none", id="nothing would do"),
    ],
)
def test_own_filters_of_a_plugin_may_replace_the_bundled_ones(
    tmp_path: Path, types: list[type[Strategy]], used: list[str], line: str
) -> None:
    text = POOL + "".join(f'[[strategy]]\ntype = "{one}"\n' for one in used)
    assert problem_of(tmp_path, text, plugin(*types)) == line


def test_a_folder_tells_the_first_mistake_of_each_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(POOL)
    (tmp_path / "b.toml").write_text(GOOD + '[workload]\nname = "x"\n')
    (tmp_path / "c.toml").write_text(GOOD)
    pools, errors = read_policies(tmp_path, REGISTRY)
    assert [one.name for one in pools] == ["c"]
    assert [(Path(one.file).name, one.key) for one in errors] == [("a.toml", "strategy"), ("b.toml", "workload")]


def test_all_mistakes_of_a_pool_policy_are_reported_at_once(tmp_path: Path) -> None:
    text = 'interval = 0\nfreeze = "up"\n[pool]\norder = "lifo"\n[[strategy]]\ntype = "filter"\n[moves]\nevery = 0\n'
    path = tmp_path / "batch.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_policy(path, REGISTRY)
    assert [one.key for one in caught.value.each] == [
        "freeze",
        "interval",
        "pool.order",
        "moves.every",
        "strategy[0].type",
    ]
    assert len(read_policies(tmp_path, REGISTRY)[1]) == 5


def of(pods: str = "{}", nodes: str = "{}", namespaces: str = '["*"]', mode: str = "act") -> str:
    """A policy of pods with these labels on nodes with these."""
    return f'mode = "{mode}"\n[pool]\nlabels = {pods}\nnodes = {nodes}\nnamespaces = {namespaces}\n{FILTERS}'


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        pytest.param(of(), of(), True, id="the same pods on the same nodes"),
        pytest.param(of('{ team = "a" }'), of(), True, id="some of its pods"),
        pytest.param(of(nodes='{ pool = "a" }'), of(), True, id="some of its nodes"),
        pytest.param(of('{ team = "a" }'), of('{ team = "b" }'), False, id="other pods"),
        pytest.param(of('{ team = "a" }'), of('{ tier = "b" }'), False, id="labels that a pod may have both"),
        pytest.param(of(nodes='{ pool = "a" }'), of(nodes='{ pool = "b" }'), False, id="the same pods on other nodes"),
        pytest.param(of(namespaces='["a"]'), of(namespaces='["b"]'), False, id="other namespaces"),
        pytest.param(of(), of(mode="observe"), False, id="one only observes"),
    ],
)
def test_policies_that_no_label_tells_apart_are_refused(tmp_path: Path, one: str, other: str, clash: bool) -> None:
    (tmp_path / "a.toml").write_text(one)
    (tmp_path / "b.toml").write_text(other)
    _, errors = read_policies(tmp_path, REGISTRY)
    line = f"{tmp_path / 'b.toml'}: pool: must not be about pods that a.toml places on the same nodes"
    assert [str(error) for error in errors] == ([line] if clash else [])
