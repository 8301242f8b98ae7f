"""`elasticd check`: where settings and policies are looked for, and what is advised about pools."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from elasticd.api import Move, Nodes, Scores, Strategy, hookimpl
from elasticd.config.checking import advise, checked
from elasticd.kit import BindingRule
from elasticd.model.policy import MovesTable, PoolPolicy, PoolSelect, PoolTrust
from elasticd.ports.source import Source
from elasticd.sources.api_metrics import ExternalMetrics
from elasticd.sources.kubelet import Kubelet
from elasticd.sources.resource_metrics import ResourceMetrics
from elasticd_plugins.binding import BindingRules
from elasticd_plugins.preemption import Preemption
from elasticd_plugins.rebind import Rebind, RebindRule
from tests.kit.daemons import policy, write
from tests.kit.policies import settings_of

POOL = '[pool]\nnamespaces = ["batch"]\n[[strategy]]\ntype = "filters"\n'
NOWHERE = Path("/nonexistent/elasticd.toml")


def check(place: Path | None, config: Path | None, default: Path = NOWHERE) -> tuple[bool, list[str]]:
    """Whether all is right, and what is told of it."""
    report = checked(place, config, default)
    return not report.wrong, [*map(str, report.wrong)] or [*report.advice, report.fine]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Settings, and a policy of each kind."""
    write(tmp_path, web=policy(), pool=POOL)
    return tmp_path


@pytest.mark.parametrize(
    ("place", "config", "lines"),
    [
        pytest.param("", None, ["2 policies are fine"], id="a folder with settings"),
        pytest.param("policies", None, ["2 policies are fine"], id="a folder of policies"),
        pytest.param("policies/web.toml", None, ["1 policy is fine"], id="one policy about workloads"),
        pytest.param("policies/pool.toml", None, ["1 policy is fine"], id="one policy about pods"),
        pytest.param("elasticd.toml", None, ["2 policies are fine"], id="the settings themselves"),
        pytest.param(None, "elasticd.toml", ["2 policies are fine"], id="settings as other commands take them"),
        pytest.param("policies/pool.toml", "elasticd.toml", ["1 policy is fine"], id="one policy beside settings"),
    ],
)
def test_settings_and_policies_are_found(folder: Path, place: str | None, config: str | None, lines: list[str]) -> None:
    found = check(None if place is None else folder / place, folder / config if config else None)
    assert found == (True, lines)


def test_without_anything_the_default_settings_are_looked_at(folder: Path) -> None:
    assert check(None, None, folder / "elasticd.toml") == (True, ["2 policies are fine"])


@pytest.mark.parametrize(
    ("place", "config", "line"),
    [
        pytest.param(None, None, f"{NOWHERE}: must be readable, is not: No such file or directory", id="no settings"),
        pytest.param(
            "policies/x.toml", None, "{0}/policies/x.toml: must be readable, is not: No such file or directory", id="no"
        ),
        pytest.param("none", None, "{0}/none: must be a readable folder, is not: No such file or directory", id="dir"),
        pytest.param("empty", None, "{0}/empty: must hold policies (NAME.toml), has none", id="an empty folder"),
        pytest.param(
            "bad.toml", None, 'bad.toml: pool.namespace: no such key, did you mean "namespaces"?', id="one mistake"
        ),
        pytest.param(
            "trusting.toml",
            "elasticd.toml",
            'trusting.toml: trust.sources[0]: must be one of resource-metrics, is "prom"',
            id="one policy that names a source that settings do not have",
        ),
        pytest.param("policies", "bad.toml", "bad.toml: pool: no such key", id="wrong settings"),
    ],
)
def test_what_is_wrong_is_reported(folder: Path, place: str | None, config: str | None, line: str) -> None:
    (folder / "empty").mkdir()
    (folder / "bad.toml").write_text(POOL.replace("namespaces", "namespace"))
    (folder / "trusting.toml").write_text(POOL + '[trust]\nsources = ["prom"]\n')
    found = check(None if place is None else folder / place, folder / config if config else None)
    assert not found[0]
    assert found[1][0].removeprefix(f"{folder}/") == line.format(folder).removeprefix(f"{folder}/")


USUAL = 'policies/web.toml: mdoe: no such key, did you mean "mode"?'
NO_CLUSTER = 'elasticd.toml: cluster.type: must be one of kubernetes, simulated, is "k8s"'
UNREADABLE = "elasticd.toml: policies: must be a readable folder, {0} is not: "


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        pytest.param('policies = "x"', [UNREADABLE.format("{0}/x") + "No such file or directory"], id="no folder"),
        pytest.param(
            'policies = "policies/web.toml"',
            [UNREADABLE.format("{0}/policies/web.toml") + "Not a directory"],
            id="a file, which the daemon does not take",
        ),
        pytest.param(
            'policies = "x"\ncluster.type = "k8s"',
            [
                NO_CLUSTER,
                UNREADABLE.format("{0}/x") + "No such file or directory",
            ],
            id="no folder, beside another mistake",
        ),
        pytest.param(
            'policies = "good"\ncluster.type = "k8s"',
            [NO_CLUSTER],
            id="another folder than the usual one, beside a mistake",
        ),
        pytest.param(
            'polices = "x"', ['elasticd.toml: polices: no such key, did you mean "policies"?', USUAL], id="misspelt"
        ),
        pytest.param("policies = 7", ["elasticd.toml: policies: must be a string, is 7", USUAL], id="no text"),
        pytest.param(
            "policies = ", ["elasticd.toml: must be TOML: Invalid value (at end of document)", USUAL], id="no TOML"
        ),
    ],
)
def test_a_mistake_about_the_folder_names_elasticd_toml(tmp_path: Path, settings: str, lines: list[str]) -> None:
    for name, mistake in (("policies", "mdoe = 1\n"), ("good", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "web.toml").write_text(mistake + policy())
    (tmp_path / "elasticd.toml").write_text(settings)
    wrong = [str(mistake).removeprefix(f"{tmp_path}/") for mistake in checked(tmp_path, None, NOWHERE).wrong]
    assert wrong == [line.format(tmp_path) for line in lines]


def test_a_policy_alone_is_not_compared_with_those_beside_it(folder: Path) -> None:
    (folder / "policies" / "twin.toml").write_text('mode = "act"\n' + POOL)
    (folder / "policies" / "pool.toml").write_text('mode = "act"\n' + POOL)
    assert check(folder / "policies" / "twin.toml", None)[0]
    assert not check(folder / "policies", None)[0]


def test_a_score_by_load_that_nobody_measures_is_reported(folder: Path) -> None:
    (folder / "policies" / "pool.toml").write_text(POOL + '[[strategy]]\ntype = "load-balance"\n')
    told = (
        'pool.toml: load-balance: nobody of resource-metrics has a series "{0}" of nodes; resource-metrics has it with '
        "nodes = true"
    )
    assert check(folder, None) == (True, [told.format("cpu"), told.format("memory"), "2 policies are fine"])
    settings = folder / "elasticd.toml"
    settings.write_text(settings.read_text() + '[[source]]\ntype = "resource-metrics"\nnodes = true\n')
    assert check(folder, None) == (True, ["2 policies are fine"])


@pytest.mark.parametrize(
    ("pool", "web", "place"),
    [
        pytest.param(POOL, "", "pool.toml: pool", id="a pool"),
        pytest.param("", '[[limit]]\ntype = "capacity"\n', "web.toml: limit[0]", id="a limit that looks at nodes"),
        pytest.param("", "", "", id="what looks at no nodes"),
    ],
)
def test_who_needs_all_pods_of_a_node_is_refused_some(tmp_path: Path, pool: str, web: str, place: str) -> None:
    write(tmp_path, web=policy().replace('"queue"', '"cpu"') + web, **({"pool": pool} if pool else {}))
    settings = tmp_path / "elasticd.toml"
    settings.write_text('policies = "policies"\n[cluster]\ntype = "kubernetes"\nnamespaces = ["batch"]\n')
    problem = "needs all pods on its nodes: cluster.namespaces in elasticd.toml must be empty, names batch"
    wrong = [str(mistake) for mistake in checked(tmp_path, None, NOWHERE).wrong]
    assert wrong == ([f"{tmp_path}/policies/{place}: {problem}"] if place else [])


# Advice


class Load(Strategy, tag="load", frozen=True):
    """Looks at what nodes use."""

    series: tuple[str, ...] = ("cpu",)

    def reads_of_nodes(self) -> tuple[str, ...]:
        return self.series

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores | None:
        return None


class Mover(Strategy, tag="mover", frozen=True):
    """Moves pods."""

    @hookimpl
    def rebalance_nodes(self) -> list[Move]:
        return []


class Anything(Source, tag="anything", frozen=True):
    """Cannot say what it has."""


class Rates(Source, tag="rates", frozen=True):
    """Has one series, of nodes."""

    def offers(self) -> tuple[str, ...]:
        return ("pull_rate",)


def pool(*strategies: Strategy, **more: Any) -> PoolPolicy:
    return PoolPolicy(**{"name": "p", "pool": PoolSelect(), "strategies": strategies, **more})


OF_PODS, OF_BOTH = ResourceMetrics(), ResourceMetrics(nodes=True)
NOBODY = (
    'p.toml: load: nobody of resource-metrics has a series "cpu" of nodes; resource-metrics has it with nodes = true'
)


@pytest.mark.parametrize(
    ("policy", "sources", "simulated", "lines"),
    [
        pytest.param(pool(Load()), [OF_PODS], False, [NOBODY], id="of pods alone"),
        pytest.param(pool(Load()), [OF_PODS], True, [NOBODY], id="of pods alone, simulated"),
        pytest.param(pool(Load()), [OF_BOTH], False, [], id="of nodes too"),
        pytest.param(pool(Load()), [OF_PODS, OF_BOTH], False, [], id="by one of two"),
        pytest.param(pool(Load()), [Kubelet()], False, [], id="by kubelets"),
        pytest.param(pool(Load()), [Anything()], False, [], id="who knows"),
        pytest.param(pool(Load()), [OF_PODS, Anything()], False, [], id="one of whom nobody knows"),
        pytest.param(
            pool(Load()),
            [ExternalMetrics(series=())],
            False,
            [NOBODY.replace("of resource-metrics has a", "of external-metrics has a")],
            id="of workloads alone",
        ),
        pytest.param(pool(Load()), [], False, [NOBODY.replace("nobody of resource-metrics", "no source")], id="none"),
        pytest.param(
            pool(Load(), trust=PoolTrust(sources=("rates",))),
            [OF_BOTH, Rates()],
            False,
            [NOBODY.replace("resource-metrics", "rates", 1)],
            id="not by the one that is trusted",
        ),
        pytest.param(
            pool(Load(("pul_rate",))),
            [Rates()],
            False,
            ['p.toml: load: nobody of rates has a series "pul_rate" of nodes, did you mean "pull_rate"?'],
            id="a misspelt one",
        ),
        pytest.param(pool(Load(("disk",))), [OF_BOTH], True, [], id="a simulated cluster may have more"),
        pytest.param(pool(Mover()), [], False, [], id="who reads none"),
    ],
)
def test_who_asks_for_what_nobody_measures_is_reported(
    policy: PoolPolicy, sources: list[Source], simulated: bool, lines: list[str]
) -> None:
    assert [*advise([policy], settings_of(sources, simulated=simulated))] == lines


BOTH = 'p.toml: pool.scheduler: kube-scheduler places the pods of "default-scheduler" too, and both would act'


class Chooser(Strategy, tag="chooser", frozen=True):
    """Lets others are preempted."""

    @hookimpl
    def select_victims(self) -> None:
        return None


class Follower(Strategy, tag="follower", frozen=True):
    """Follows labels."""

    @hookimpl
    def rebind_pods(self) -> list[Move]:
        return []


def bind(*expressions: tuple[str, str], **more: Any) -> BindingRules:
    return BindingRules(rules=(ruled(*expressions, **more),))


def ruled(*expressions: tuple[str, str], **more: Any) -> BindingRule:
    return msgspec.convert({"expressions": written(*expressions or [("a", "exists")]), **more}, BindingRule)


def rebind(*expressions: tuple[str, str]) -> Rebind:
    return Rebind(
        rules=(msgspec.convert({"expressions": written(*expressions), "node_label_change": "kill"}, RebindRule),)
    )


def written(*expressions: tuple[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "operator": operator} for key, operator in expressions]


IN_VAIN = "brings nothing: no strategy here"
BOUND = PoolSelect(namespaces=("shop", "blog"))
NEVER = "expressions: no node ever matches: a must exist and must not"


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param(pool(bind()), [], id="a plain rule"),
        pytest.param(
            pool(bind(resource_not_fit="force")),
            [
                f"strategy[0].rules[0].resource_not_fit: force {IN_VAIN} preempts others (preemption)",
            ],
            id="force without preemption",
        ),
        pytest.param(pool(bind(resource_not_fit="force"), Chooser()), [], id="force with one that preempts others"),
        pytest.param(
            pool(Load(), bind(node_label_change="kill")),
            [f"strategy[1].rules[0].node_label_change: kill {IN_VAIN} does that (rebind)"],
            id="a label change without rebind",
        ),
        pytest.param(pool(bind(node_label_change="kill"), Follower()), [], id="a label change with one that does it"),
        pytest.param(pool(Preemption(only_forced=True), bind()), [], id="only by force, and something binds"),
        pytest.param(
            pool(Preemption(only_forced=True)),
            ["strategy[0].only_forced: no pod is ever preempted: no strategy here binds pods"],
            id="only by force, and nothing binds",
        ),
        pytest.param(pool(Preemption()), [], id="for all, and nothing binds"),
        pytest.param(pool(bind(namespaces=["shop", "*"]), pool=BOUND), [], id="namespaces of the pool, and any"),
        pytest.param(pool(bind(namespaces=["bank"])), [], id="a namespace of a pool for any"),
        pytest.param(
            pool(bind(namespaces=["shop", "bank", "vault"]), pool=BOUND),
            ["strategy[0].rules[0].namespaces: brings nothing for bank, vault: not in pool.namespaces"],
            id="namespaces outside the pool",
        ),
        pytest.param(
            pool(bind(("a", "exists"), ("b", "exists"), ("a", "doesNotExist"))),
            [f"strategy[0].rules[0].{NEVER}"],
            id="a label that must be there and must not",
        ),
        pytest.param(pool(bind(("a", "exists"), ("b", "doesNotExist"))), [], id="of two labels one must be there"),
        pytest.param(
            pool(rebind(("a", "exists"), ("a", "doesNotExist"))),
            [f"strategy[0].rules[0].{NEVER}"],
            id="the same in rebind",
        ),
    ],
)
def test_what_rules_say_and_nothing_comes_of_is_reported(policy: PoolPolicy, lines: list[str]) -> None:
    assert [*advise([policy], None)] == [f"p.toml: {line}" for line in lines]


IDLE = "p.toml: moves: brings nothing: no strategy here moves pods"


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param(pool(Load()), [], id="nothing"),
        pytest.param(pool(mode="act", pool=PoolSelect(scheduler="default-scheduler")), [BOTH], id="kube-scheduler's"),
        pytest.param(pool(pool=PoolSelect(scheduler="default-scheduler")), [], id="kube-scheduler's, observed"),
        pytest.param(pool(Load(), moves=MovesTable(every=5)), [IDLE], id="moves of nobody"),
        pytest.param(pool(Mover(), moves=MovesTable(every=5)), [], id="moves of one"),
        pytest.param(
            pool(Mover(), moves=MovesTable(surge_within=5)),
            ["p.toml: moves.surge_within: brings nothing: surge is false"],
            id="a time for no surge",
        ),
        pytest.param(pool(Mover(), moves=MovesTable(surge_within=5, surge=True)), [], id="a time for a surge"),
        pytest.param(
            pool(Load(priority=1)),
            ["p.toml: strategy[0].priority: brings nothing: no strategy of a [pool] goes before another"],
            id="a priority",
        ),
    ],
)
def test_what_a_pool_says_in_vain_is_reported(policy: PoolPolicy, lines: list[str]) -> None:
    assert [*advise([policy], None)] == lines
