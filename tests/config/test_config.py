"""TOML to settings and policies: every mistake is one line that says what to mend, and no mistake is anything else."""

import copy
import json
import os
import re
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
import tomli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.base.errors import ConfigError
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.simulated import Simulated
from elasticd.config import load_policy, load_settings, policy_files, read_policies
from elasticd.config.files import read_toml
from elasticd.config.settings import anchored
from elasticd.model.policy import Bounds, Policy, Select, Target
from elasticd.registry import Registry, discover
from elasticd.testing import registry as registry_of

REGISTRY = discover()
KNOWN = (
    "burst, cadence, double-threshold, event, forecast, hpa, jobs, schedule, spread, step-tolerance, vertical, victims"
)
WORKLOAD = '[workload]\nnamespace = "shop"\nname = "web"\n'
BOUNDS = "[replicas]\nmax = 5\n"
HPA = '[[strategy]]\ntype = "hpa"\n'
VALID = WORKLOAD + BOUNDS + HPA


def policy(tmp_path: Path, text: str | bytes, name: str = "web.toml", registry: Registry = REGISTRY) -> Any:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_policy(path, registry)


def problem_of(tmp_path: Path, text: str | bytes, registry: Registry = REGISTRY) -> str:
    with pytest.raises(ConfigError) as caught:
        policy(tmp_path, text, registry=registry)
    assert caught.value.exit_code == 78
    return str(caught.value).replace(f"{tmp_path}{os.sep}", "")


def test_a_policy_is_read_with_its_defaults(tmp_path: Path) -> None:
    found = policy(tmp_path, VALID)
    assert (found.name, found.mode, found.interval, found.jitter, found.max_age) == ("web", "observe", 30.0, 0.1, 120.0)
    assert (found.workload, found.select) == (Target("shop", "web"), None)
    assert (found.replicas, found.limits) == (Bounds(5, 1), ())
    assert found.strategies == (REGISTRY.strategies["hpa"].type(),)


def test_a_policy_is_read_as_it_is_written(tmp_path: Path) -> None:
    text = 'mode = "act"\ninterval = 5\n[select]\nnamespaces = ["a", "b"]\nlabels = { tier = "web" }\n' + BOUNDS + HPA
    found = policy(tmp_path, text + '[[limit]]\ntype = "cooldown"\nafter_up = 7\n')
    assert (found.mode, found.interval) == ("act", 5.0)
    assert found.select == Select(("a", "b"), {"tier": "web"})
    assert found.limits[0].after_up == 7


class Picky(Strategy, tag="picky", frozen=True):
    """Does not go with some policies."""

    says: str = ""

    def reads(self) -> tuple[str, ...]:
        return ()

    def check(self, policy: Policy) -> str | None:
        if self.says == "raise":
            raise KeyError("bounds")
        return f"{self.says}, max is {policy.replicas.max}" if self.says else None

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(1, "Picky")


@pytest.mark.parametrize(
    ("says", "line"),
    [
        ("says: must be other", "strategy[0].says: must be other, max is 5"),
        ("must be other", "strategy[0]: must be other, max is 5"),
        ("two: lines\\nare one", "strategy[0].two: lines are one, max is 5"),
        ("raise", "strategy[0]: must be something its type can check, raised KeyError: 'bounds'"),
    ],
)
def test_option_that_contradicts_the_rest_of_the_policy_is_refused(tmp_path: Path, says: str, line: str) -> None:
    plugin = ModuleType("picky")
    vars(plugin)["register_strategies"] = hookimpl(lambda: [Picky])
    text = WORKLOAD + BOUNDS + f'[[strategy]]\ntype = "picky"\nsays = "{says}"\n'
    assert problem_of(tmp_path, text, registry_of(plugin)) == f"web.toml: {line}"
    assert policy(tmp_path, text.replace(says, ""), registry=registry_of(plugin)).strategies == (Picky(),)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert policy(tmp_path, b"\xef\xbb\xbf" + VALID.encode()).name == "web"


RATE = '[[limit]]\ntype = "rate"\n'
TAIL = VALID  # what stands before it is at the top


def metrics(text: str) -> str:
    return f"{VALID}metrics = [{text}]\n"


CPU = 'type = "Resource", resource = "cpu"'
MISTAKES = [
    ("an-empty-file", "", "workload: must be given, or else [select], [job] or [pool], the file is empty"),
    (
        "a-file-of-comments",
        "# nothing yet\n",
        "workload: must be given, or else [select], [job] or [pool], the file is empty",
    ),
    (
        "a-mode-alone",
        'mode = "act"\n',
        (
            "workload: must be given, or else [select], [job] or [pool], none of them is\n"
            "web.toml: replicas: must be given, is missing\nweb.toml: strategy: must be given, is missing"
        ),
    ),
    ("a-misspelt-pool", '[pools]\nnamespaces = ["a"]\n', 'pools: no such key, did you mean "pool"?'),
    ("moves-of-a-workload", TAIL + "[moves]\nevery = 5\n", "moves: must stand beside [pool], does not"),
    ("a-key-of-two-lines", '"a\\nb" = 1\n' + TAIL, "a b: no such key"),
    ("no-strategy", WORKLOAD + BOUNDS, "strategy: must be given, is missing"),
    (
        "neither-workload-nor-select",
        BOUNDS + HPA,
        "workload: must be given, or else [select], [job] or [pool], none of them is",
    ),
    (
        "both",
        '[select]\nnamespaces = ["a"]\n' + VALID,
        "workload: must be given, or else [select], [job] or [pool], [workload] and [select] are",
    ),
    ("a-freeze-that-is-none", 'freeze = "left"\n' + TAIL, 'freeze: must be one of both, down, none, up, is "left"'),
    (
        "a-misspelt-yield",
        TAIL + '[foreign]\nautoscalers = "yeild"\n',
        'foreign.autoscalers: must be one of ignore, yield, is "yeild", did you mean "yield"?',
    ),
    ("strikes-below-none", TAIL + "[foreign]\nstrikes = -1\n", "foreign.strikes: must be >= 0, is -1"),
    ("too-many-strikes", TAIL + "[foreign]\nstrikes = 101\n", "foreign.strikes: must be <= 100, is 101"),
    ("strikes-at-once", TAIL + "[foreign]\nwithin = 0\n", "foreign.within: must be > 0, is 0"),
    ("strikes-for-hours", TAIL + "[foreign]\nwithin = 1801\n", "foreign.within: must be <= 1800, is 1801"),
    ("a-pause-of-nothing", TAIL + "[foreign]\npause = 0\n", "foreign.pause: must be > 0, is 0"),
    ("a-pause-of-hours", TAIL + "[foreign]\npause = 1801\n", "foreign.pause: must be <= 1800, is 1801"),
    ("a-misspelt-key", 'mdoe = "act"\n' + TAIL, 'mdoe: no such key, did you mean "mode"?'),
    ("a-key-like-none", "zzzz = 1\n" + TAIL, "zzzz: no such key"),
    ("a-misspelt-mode", 'mode = "atc"\n' + TAIL, 'mode: must be one of act, observe, is "atc", did you mean "act"?'),
    ("a-mode-that-is-a-number", "mode = 5\n" + TAIL, "mode: must be a string, is 5"),
    ("an-interval-with-a-unit", 'interval = "30s"\n' + TAIL, 'interval: must be a number, is "30s"'),
    ("an-interval-too-short", "interval = 0.05\n" + TAIL, "interval: must be >= 0.1, is 0.05"),
    ("an-interval-too-long", "interval = 4000\n" + TAIL, "interval: must be <= 3600, is 4000"),
    ("an-interval-that-is-true", "interval = true\n" + TAIL, "interval: must be a number, is true"),
    ("an-interval-that-is-a-date", "interval = 1979-05-27\n" + TAIL, "interval: must be a number, is 1979-05-27"),
    ("an-interval-that-is-nan", "interval = nan\n" + TAIL, "interval: must be finite, is nan"),
    ("too-much-jitter", "jitter = 0.6\n" + TAIL, "jitter: must be <= 0.5, is 0.6"),
    ("no-age", "max_age = 0\n" + TAIL, "max_age: must be > 0, is 0"),
    ("an-infinite-age", "max_age = inf\n" + TAIL, "max_age: must be finite, is inf"),
    ("a-workload-that-is-a-name", 'workload = "web"\n' + BOUNDS + HPA, 'workload: must be a table, is "web"'),
    (
        "a-workload-without-a-name",
        '[workload]\nnamespace = "a"\n' + BOUNDS + HPA,
        "workload.name: must be given, is missing",
    ),
    (
        "a-misspelt-key-of-the-workload",
        '[workload]\nnamespce = "a"\nname = "b"\n' + BOUNDS + HPA,
        'workload.namespce: no such key, did you mean "namespace"?',
    ),
    ("no-namespace", "[select]\nnamespaces = []\n" + BOUNDS + HPA, "select.namespaces: must not be empty, is []"),
    ("one-namespace", '[select]\nnamespaces = "a"\n' + BOUNDS + HPA, 'select.namespaces: must be an array, is "a"'),
    (
        "a-namespace-that-is-a-number",
        '[select]\nnamespaces = ["a", 2]\n' + BOUNDS + HPA,
        "select.namespaces[1]: must be a string, is 2",
    ),
    (
        "a-label-that-is-a-number",
        '[select]\nnamespaces = ["a"]\nlabels = { a = "b", tier = 1 }\n' + BOUNDS + HPA,
        "select.labels.tier: must be a string, is 1",
    ),
    ("no-max", WORKLOAD + "[replicas]\nmin = 1\n" + HPA, "replicas.max: must be given, is missing"),
    ("a-negative-min", WORKLOAD + "[replicas]\nmin = -1\nmax = 4\n" + HPA, "replicas.min: must be >= 0, is -1"),
    ("a-max-of-zero", WORKLOAD + "[replicas]\nmax = 0\n" + HPA, "replicas.max: must be >= 1, is 0"),
    ("min-above-max", WORKLOAD + "[replicas]\nmin = 6\nmax = 5\n" + HPA, "replicas.min: must be <= max = 5, is 6"),
    ("half-a-replica", WORKLOAD + "[replicas]\nmax = 5.5\n" + HPA, "replicas.max: must be a whole number, is 5.5"),
    ("quoted-replicas", WORKLOAD + '[replicas]\nmax = "5"\n' + HPA, 'replicas.max: must be a whole number, is "5"'),
    ("replicas-as-a-number", "replicas = 5\n" + WORKLOAD + HPA, "replicas: must be a table, is 5"),
    (
        "one-table-instead-of-an-array",
        WORKLOAD + BOUNDS + '[strategy]\ntype = "hpa"\n',
        "strategy: must be an array, is one table: write [[strategy]]",
    ),
    ("no-strategies", "strategy = []\n" + WORKLOAD + BOUNDS, "strategy: must not be empty, is []"),
    ("a-strategy-by-name", 'strategy = ["hpa"]\n' + WORKLOAD + BOUNDS, 'strategy[0]: must be a table, is "hpa"'),
    (
        "a-strategy-without-a-type",
        WORKLOAD + BOUNDS + "[[strategy]]\ntolerance = 0.1\n",
        f"strategy[0].type: must be given (one of {KNOWN}), is missing",
    ),
    (
        "a-misspelt-strategy",
        WORKLOAD + BOUNDS + '[[strategy]]\ntype = "hap"\n',
        f'strategy[0].type: must be one of {KNOWN}, is "hap", did you mean "hpa"?',
    ),
    (
        "a-strategy-that-is-an-array",
        WORKLOAD + BOUNDS + "[[strategy]]\ntype = []\n",
        f"strategy[0].type: must be one of {KNOWN}, is []",
    ),
    (
        "a-strategy-of-two-lines",
        WORKLOAD + BOUNDS + '[[strategy]]\ntype = "a\\nb"\n',
        f'strategy[0].type: must be one of {KNOWN}, is "a\\nb"',
    ),
    ("a-misspelt-option", VALID + "tolerence = 0.2\n", 'strategy[0].tolerence: no such key, did you mean "tolerance"?'),
    ("an-option-out-of-bounds", VALID + "tolerance = -0.2\n", "strategy[0].tolerance: must be >= 0, is -0.2"),
    ("the-same-strategy-twice", VALID + HPA, "strategy[1]: must differ from strategy[0], is the same"),
    (
        "a-limit-as-a-strategy",
        WORKLOAD + BOUNDS + '[[strategy]]\ntype = "stabilization"\n',
        'strategy[0].type: must be a strategy, is the limit "stabilization"',
    ),
    (
        "a-strategy-as-a-limit",
        VALID + '[[limit]]\ntype = "cadence"\n',
        'limit[0].type: must be a limit, is the strategy "cadence"',
    ),
    (
        "a-strategy-with-limits-of-its-own-as-a-limit",
        VALID + '[[limit]]\ntype = "hpa"\n',
        'limit[0].type: must be a limit, is the strategy "hpa"',
    ),
    ("a-limit-that-limits-nothing", VALID + RATE, "limit[0].up: must have a rate unless down has one, is empty"),
    (
        "a-misspelt-type-of-a-rate",
        VALID + RATE + 'up = [{ type = "Pod", value = 1, period = 60 }]\n',
        'limit[0].up[0].type: must be one of Percent, Pods, is "Pod", did you mean "Pods"?',
    ),
    (
        "a-misspelt-key-of-the-second-rate",
        VALID + RATE + 'up = [{ type = "Pods", value = 1, period = 60 }, { type = "Pods", valu = 1, period = 60 }]\n',
        'limit[0].up[1].valu: no such key, did you mean "value"?',
    ),
    (
        "a-window-too-long",
        VALID + '[[limit]]\ntype = "stabilization"\ndown = 3601\n',
        "limit[0].down: must be <= 3600, is 3601",
    ),
    ("no-metrics", metrics(""), "strategy[0].metrics: must not be empty, is []"),
    ("a-metric-without-a-type", metrics("{}"), "strategy[0].metrics[0].type: must be given, is missing"),
    (
        "a-misspelt-metric",
        metrics('{ type = "Resourc" }'),
        (
            "strategy[0].metrics[0].type: must be one of Resource, ContainerResource, Pods, Object, External, "
            'is "Resourc", did you mean "Resource"?'
        ),
    ),
    ("a-metric-by-name", metrics('"cpu"'), 'strategy[0].metrics[0]: must be a table, is "cpu"'),
    (
        "a-metric-without-a-resource",
        metrics('{ type = "Resource" }'),
        "strategy[0].metrics[0].resource: must be given, is missing",
    ),
    (
        "a-metric-without-a-target",
        metrics(f"{{ {CPU} }}"),
        "strategy[0].metrics[0].utilization: must be given, or average_value, is missing",
    ),
    (
        "a-metric-with-two-targets",
        metrics(f'{{ {CPU}, utilization = 50, average_value = "1" }}'),
        "strategy[0].metrics[0].utilization: must be left out beside average_value, is 50",
    ),
    (
        "british-spelling",
        metrics(f"{{ {CPU}, utilisation = 50 }}"),
        'strategy[0].metrics[0].utilisation: no such key, did you mean "utilization"?',
    ),
    (
        "a-percent-sign",
        metrics(f'{{ {CPU}, utilization = "50%" }}'),
        'strategy[0].metrics[0].utilization: must be a whole number, is "50%"',
    ),
    (
        "a-bad-quantity",
        metrics(f'{{ {CPU}, average_value = "5 Gi" }}'),
        "strategy[0].metrics[0].average_value: must be a quantity such as 250m, 2 or 1.5Gi, is '5 Gi'",
    ),
    (
        "the-second-metric",
        metrics(f'{{ {CPU}, utilization = 50 }}, {{ type = "External", series = "q" }}'),
        "strategy[0].metrics[1].value: must be given, or average_value, is missing",
    ),
    (
        "a-choice-deep-down",
        VALID + '[strategy.behavior.scale_up]\nselect = "Mox"\n',
        'strategy[0].behavior.scale_up.select: must be one of Disabled, Max, Min, is "Mox", did you mean "Max"?',
    ),
    (
        "a-period-too-long",
        VALID + '[strategy.behavior.scale_down]\npolicies = [{ type = "Percent", value = 1, period = 9999 }]\n',
        "strategy[0].behavior.scale_down.policies[0].period: must be <= 1800, is 9999",
    ),
    (
        "two-options-that-contradict",
        WORKLOAD + BOUNDS + '[[strategy]]\ntype = "cadence"\nalpha = 0.9\n',
        "strategy[0].beta: must be > alpha = 0.9, is 0.8",
    ),
    ("no-value", "mode = \n", "must be TOML: Invalid value (at line 1, column 8)"),
    ("a-key-twice", 'mode = "act"\nmode = "act"\n', "must be TOML: Cannot overwrite a value (at line 2, column 13)"),
    (
        "an-open-table",
        "[workload\n",
        "must be TOML: Expected ']' at the end of a table declaration (at line 1, column 10)",
    ),
    ("not-utf-8", b'mode = "\xff"\n', "must be UTF-8, is not at byte 9"),
]


MANY = """
mode = "atc"
intervall = 5
[workload]
namespace = "shop"
[replicas]
min = -1
[[strategy]]
type = "hpa"
tolerance = -1
tolerence = 0.1
[[strategy]]
type = "hap"
[[strategy]]
type = "cadence"
alpha = 0.9
[[limit]]
type = "rate"
[[limit]]
type = "stabilization"
down = 9999
"""
TOLD = [
    'intervall: no such key, did you mean "interval"?',
    'mode: must be one of act, observe, is "atc", did you mean "act"?',
    "workload.name: must be given, is missing",
    "replicas.min: must be >= 0, is -1",
    "replicas.max: must be given, is missing",
    "strategy[0].tolerance: must be >= 0, is -1",
    'strategy[0].tolerence: no such key, did you mean "tolerance"?',
    f'strategy[1].type: must be one of {KNOWN}, is "hap", did you mean "hpa"?',
    "strategy[2].beta: must be > alpha = 0.9, is 0.8",
    "limit[0].up: must have a rate unless down has one, is empty",
    "limit[1].down: must be <= 3600, is 9999",
]


def test_all_mistakes_of_a_policy_are_told_at_once(tmp_path: Path) -> None:
    told = problem_of(tmp_path, MANY).split("\n")
    assert told == [f"web.toml: {line}" for line in TOLD]


def test_all_options_that_contradict_the_rest_are_reported(tmp_path: Path) -> None:
    marks = '[[strategy]]\ntype = "double-threshold"\nlow = 0.7\nhigh = 0.8\nseries = "{}"\n'
    told = problem_of(tmp_path, WORKLOAD + BOUNDS + marks.format("cpu") + marks.format("memory")).split("\n")
    assert [line.partition(": must")[0] for line in told] == ["web.toml: strategy[0].low", "web.toml: strategy[1].low"]


def test_a_misspelt_workload_is_looked_into_all_the_same(tmp_path: Path) -> None:
    told = problem_of(tmp_path, VALID.replace("[workload]", "[worklod]") + "tolerance = -1\n").split("\n")
    assert told == [
        'web.toml: worklod: no such key, did you mean "workload"?',
        "web.toml: strategy[0].tolerance: must be >= 0, is -1",
    ]


def test_all_mistakes_of_the_settings_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "elasticd.toml").write_text(
        'dry_runn = true\n[cluster]\ntype = "kubernetes"\npage = 0\n[http]\nport = -1\n[outlet]\nqos = 7\n'
        '[[source]]\ntype = "resource-metric"\n[[source]]\ntype = "resource-metrics"\nevery = -1\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path / "elasticd.toml", REGISTRY)
    keys = [one.key for one in caught.value.each]
    assert keys == ["http.port", "dry_runn", "cluster.page", "source[0].type", "source[1].every", "outlet.qos"]


@pytest.mark.parametrize(
    ("text", "problem"), [pytest.param(text, problem, id=name) for name, text, problem in MISTAKES]
)
def test_policy_mistake_is_one_line_that_tells_the_remedy(tmp_path: Path, text: str | bytes, problem: str) -> None:
    assert problem_of(tmp_path, text) == f"web.toml: {problem}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = " + "[" * 5000, id="nested-too-deep"),
        pytest.param("x = " + "9" * 5000, id="a-number-too-long"),
        pytest.param("x = 0000-00-00", id="no-such-day"),
        pytest.param("\0", id="nul"),
        pytest.param(b"\xfe\xff\x00a", id="utf-16"),
    ],
)
def test_what_the_toml_reader_chokes_on_is_one_line_too(tmp_path: Path, text: str | bytes) -> None:
    problem = problem_of(tmp_path, text)
    assert problem.startswith("web.toml: must be ")
    assert problem.isprintable()


NODE = '[cluster]\ntype = "simulated"\nnodes = [{ name = "n", cpu = "4", memory = "8Gi" }]\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('polcies = "x"', 'polcies: no such key, did you mean "policies"?', id="a-misspelt-key"),
        pytest.param("policies = 5", "policies: must be a string, is 5", id="a-path-that-is-a-number"),
        pytest.param('dry_run = "yes"', 'dry_run: must be true or false, is "yes"', id="yes"),
        pytest.param('cluster = "x"', 'cluster: must be a table, is "x"', id="a-cluster-by-name"),
        pytest.param(
            '[cluster]\ntype = "kuberntes"',
            'cluster.type: must be one of kubernetes, simulated, is "kuberntes", did you mean "kubernetes"?',
            id="a-misspelt-cluster",
        ),
        pytest.param(
            "[cluster]\ntype = {}", "cluster.type: must be one of kubernetes, simulated, is {}", id="a-table-for-a-type"
        ),
        pytest.param(
            '[cluster]\nkubeconfg = "x"', 'cluster.kubeconfg: no such key, did you mean "kubeconfig"?', id="kubernetes"
        ),
        pytest.param('[cluster]\ntype = "simulated"', "cluster.nodes: must be given, is missing", id="no-nodes"),
        pytest.param(
            NODE.replace('"4"', '"x"'),
            "cluster.nodes[0].cpu: must be a quantity such as 250m, 2 or 1.5Gi, is 'x'",
            id="a-bad-quantity-of-a-node",
        ),
        pytest.param(
            '[[source]]\ntype = "resource-metric"',
            None,
            id="a-misspelt-source",
        ),
        pytest.param("[[source]]\nevery = 1", None, id="a-source-without-a-type"),
        pytest.param(
            '[[source]]\ntype = "resource-metrics"\nevery = "x"',
            'source[0].every: must be a number, is "x"',
            id="every",
        ),
        pytest.param(
            '[source]\ntype = "x"', "source: must be an array, is one table: write [[source]]", id="one-source"
        ),
        pytest.param("[http]\nport = 70000", "http.port: must be <= 65535, is 70000", id="a-port-too-high"),
        pytest.param("[http]\nprot = 1", 'http.prot: no such key, did you mean "port"?', id="a-misspelt-port"),
        pytest.param("[journal]\nmegabytes = 0", "journal.megabytes: must be > 0, is 0", id="no-room"),
        pytest.param("[journal]\nmegabytes = inf", "journal.megabytes: must be finite, is inf", id="endless-room"),
        pytest.param("[journal]\nsegments = 1", "journal.segments: must be >= 2, is 1", id="one-segment"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line_too(tmp_path: Path, text: str, problem: str | None) -> None:
    path = tmp_path / "elasticd.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path, REGISTRY)
    known = ", ".join(sorted(REGISTRY.sources))
    end = 'is "resource-metric", did you mean "resource-metrics"?' if "metric" in text else "is missing"
    words = f"must be one of {known}, {end}" if "metric" in text else f"must be given (one of {known}), {end}"
    assert str(caught.value) == f"{path}: {problem or f'source[0].type: {words}'}"


def test_settings_have_defaults_and_paths_are_relative_to_their_folder(tmp_path: Path) -> None:
    path = tmp_path / "elasticd.toml"
    path.write_text("")
    found = load_settings(path, REGISTRY)
    assert isinstance(found.cluster, Kubernetes)
    assert (found.policies, found.state) == (tmp_path / "policies", Path("/var/lib/elasticd"))
    assert [source.__struct_config__.tag for source in found.sources] == ["resource-metrics"]
    path.write_text('state = "state"\npolicies = "/etc/p"\nsource = []\n' + NODE)
    found = load_settings(path, REGISTRY)
    assert isinstance(found.cluster, Simulated)
    assert (found.policies, found.state, found.sources) == (Path("/etc/p"), tmp_path / "state", ())
    path.write_text('[cluster]\nkubeconfig = "kube/config"\n')
    assert load_settings(path, REGISTRY).cluster == Kubernetes(kubeconfig=str(tmp_path / "kube/config"))


def test_table_with_an_old_name_works_and_reports_the_new(tmp_path: Path) -> None:
    file = tmp_path / "elasticd.toml"
    file.write_text("[broker]\nper_node = 3\n")
    loaded = load_settings(file, REGISTRY)
    assert loaded.disruption.per_node == 3
    assert loaded.renamed == (f"{file}: broker: is called [disruption] now; 0.2 refuses the old name",)
    file.write_text("[disruption]\nper_node = 3\n")
    assert load_settings(file, REGISTRY) == replace(loaded, renamed=())


def test_a_table_by_both_its_names_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "elasticd.toml"
    file.write_text("[broker]\nper_node = 3\n[disruption]\nper_node = 4\n")
    with pytest.raises(ConfigError, match=r"broker: must be left out beside \[disruption\], its new name, is given"):
        load_settings(file, REGISTRY)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("missing.toml", "must be readable, is not: No such file or directory", id="missing"),
        pytest.param("folder.toml", "must be a file of at most 1 MB", id="a-folder"),
        pytest.param("/dev/zero", "must be a file of at most 1 MB", id="a-device"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigError) as caught:
        read_toml(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {problem}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.touch(mode=0)
    with pytest.raises(ConfigError, match="must be readable, is not: Permission denied"):
        read_toml(path)


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        pytest.param("missing", "must be a readable folder, is not: No such file or directory", id="missing"),
        pytest.param("file", "must be a readable folder, is not: Not a directory", id="a-file"),
        pytest.param("a\0b", "must be a folder's path, is not: embedded null byte", id="no-path"),
    ],
)
def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, folder: str, problem: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        policy_files(tmp_path / folder)
    assert str(caught.value).endswith(f": {problem}")
    assert str(caught.value).isprintable()


def test_folder_gives_its_toml_files_by_name_and_no_others(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", ".hidden.toml", "a.toml~", "readme.md"):
        (tmp_path / name).touch()
    assert [path.name for path in policy_files(tmp_path)] == ["a.toml", "b.toml"]


def test_one_wrong_file_harms_no_other(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("mode = ")
    (tmp_path / "good.toml").write_text(VALID)
    policies, errors = read_policies(tmp_path, REGISTRY)
    assert [found.name for found in policies] == ["good"]
    assert [error.file for error in errors] == [str(tmp_path / "bad.toml")]


ACT = 'mode = "act"\n'
ALL = '[select]\nnamespaces = ["shop"]\n'


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        pytest.param(ACT + WORKLOAD, ACT + WORKLOAD, "workload", id="the-same-name"),
        pytest.param(ACT + WORKLOAD, WORKLOAD, None, id="one-only-observes"),
        pytest.param(WORKLOAD, WORKLOAD, None, id="both-only-observe"),
        pytest.param(ACT + WORKLOAD, ACT + WORKLOAD.replace("web", "api"), None, id="another-name"),
        pytest.param(ACT + WORKLOAD, ACT + WORKLOAD + 'kind = "StatefulSet"\n', None, id="another-kind"),
        pytest.param(ACT + WORKLOAD, ACT + ALL, "select", id="a-name-that-is-selected"),
        pytest.param(ACT + ALL, ACT + WORKLOAD, "workload", id="a-selection-that-has-the-name"),
        pytest.param(ACT + WORKLOAD, ACT + ALL.replace("shop", "*"), "select", id="any-namespace"),
        pytest.param(ACT + WORKLOAD, ACT + ALL.replace("shop", "test"), None, id="another-namespace"),
        pytest.param(ACT + WORKLOAD, ACT + ALL + 'labels = { a = "b" }\n', None, id="labels-only-the-cluster-knows"),
        pytest.param(ACT + ALL, ACT + ALL, "select", id="the-same-selection"),
        pytest.param(ACT + ALL, ACT + ALL.replace("shop", "test"), None, id="other-selections"),
    ],
)
def test_two_policies_that_would_act_on_one_workload_are_told(
    tmp_path: Path, one: str, other: str, clash: str | None
) -> None:
    (tmp_path / "a.toml").write_text(one + BOUNDS + HPA)
    (tmp_path / "b.toml").write_text(other + BOUNDS + HPA)
    policies, errors = read_policies(tmp_path, REGISTRY)
    assert len(policies) == 2
    line = f"{tmp_path / 'b.toml'}: {clash}: must not be one that a.toml acts on too"
    assert [str(error) for error in errors] == ([line] if clash else [])


class Odd(Strategy, tag="odd", frozen=True):
    """Cannot say what it reads, or be checked."""

    how: str = "raises"

    def __post_init__(self) -> None:
        if self.how == "broken":
            raise KeyError("how")
        if self.how == "leaves":
            raise SystemExit(3)

    def reads(self) -> Any:
        if self.how == "raises":
            raise RuntimeError("no\nidea")
        return "cpu"

    @hookimpl(specname="recommend_replicas")
    def advise(self) -> Recommendation:
        return Recommendation(1, "Odd")


def odd() -> Registry:
    made = Registry()
    made.add("odd", type("plugin", (), {"register_strategies": staticmethod(hookimpl(lambda: [Odd]))}))
    made.problems.append("plugin rotten: ImportError: no licence")
    return made


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(
            'type = "odd"', "reads() must give names of series, or None, raised RuntimeError: no idea", id="raises"
        ),
        pytest.param(
            'type = "odd"\nhow = "word"', 'reads() must give names of series, or None, gave "cpu"', id="a-word"
        ),
        pytest.param(
            'type = "odd"\nhow = "broken"', "must be something its type can check, raised KeyError: 'how'", id="check"
        ),
    ],
)
def test_an_unusable_strategy_is_reported_like_a_mistake(tmp_path: Path, table: str, problem: str) -> None:
    found = problem_of(tmp_path, WORKLOAD + BOUNDS + f"[[strategy]]\n{table}\n", odd())
    assert found == f"web.toml: strategy[0]: {problem}"


def test_plugin_that_exits_while_decoding_options_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text(WORKLOAD + BOUNDS + '[[strategy]]\ntype = "odd"\nhow = "leaves"\n')
    policies, errors = read_policies(tmp_path, odd())
    assert (policies, [str(error) for error in errors]) == (
        [],
        [f"{tmp_path}: a plugin must decode its options, raised SystemExit: 3"],
    )


def test_each_policy_file_is_read_and_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "web.toml").write_text(VALID)
    (tmp_path / "pool.toml").write_text('[pool]\n[[strategy]]\ntype = "filters"\n')
    (tmp_path / "bad.toml").write_text('mdoe = "act"\n' + VALID)
    (tmp_path / "broken.toml").write_text("mode = \n")
    parsing = Mock(wraps=tomli.loads)
    monkeypatch.setattr(tomli, "loads", parsing)
    policies, errors = read_policies(tmp_path, REGISTRY)
    assert [policy.name for policy in policies] == ["web", "pool"]
    assert len(errors) == 2
    assert sorted(call.args[0] for call in parsing.call_args_list) == sorted(
        path.read_text() for path in policy_files(tmp_path)
    )


def test_missing_plugin_is_reported_with_its_reason_where_used(tmp_path: Path) -> None:
    found = problem_of(tmp_path, WORKLOAD + BOUNDS + '[[strategy]]\ntype = "rotten"\n', odd())
    assert found == (
        'web.toml: strategy[0].type: must be one of odd, is "rotten"; plugin rotten: ImportError: no licence'
    )


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
