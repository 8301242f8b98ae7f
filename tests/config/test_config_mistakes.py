"""Each mistake of a policy or of the settings is one line that tells the remedy."""

from pathlib import Path

import pytest

from elasticd.base.errors import ConfigError
from elasticd.config import load_settings
from tests.kit.configs import BOUNDS, HPA, NODE, REGISTRY, VALID, WORKLOAD, problem_of

KNOWN = (
    "burst, cadence, double-threshold, event, forecast, hpa, jobs, schedule, spread, step-tolerance, vertical, victims"
)


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


def test_all_mistakes_of_a_policy_are_reported_at_once(tmp_path: Path) -> None:
    told = problem_of(tmp_path, MANY).split("\n")
    assert told == [f"web.toml: {line}" for line in TOLD]


def test_all_options_that_contradict_the_rest_are_reported(tmp_path: Path) -> None:
    marks = '[[strategy]]\ntype = "double-threshold"\nlow = 0.7\nhigh = 0.8\nseries = "{}"\n'
    told = problem_of(tmp_path, WORKLOAD + BOUNDS + marks.format("cpu") + marks.format("memory")).split("\n")
    assert [line.partition(": must")[0] for line in told] == ["web.toml: strategy[0].low", "web.toml: strategy[1].low"]


WRITTEN = """interval = 30
max_age = 60
workload = { namespace = "shop", name = "web" }
replicas = { min = 1, max = 5 }
strategy = [{ type = "hpa", metrics = [{ type = "Resource", resource = "cpu", utilization = 60 }] }]
limit = [{ type = "cooldown", after_up = 60 }]
"""


@pytest.mark.parametrize(
    ("key", "misspelt", "place"),
    [
        ("utilization", "utilisation", "strategy[0].metrics[0]."),
        ("utilization", "averageUtilization", "strategy[0].metrics[0]."),
        ("resource", "ressource", "strategy[0].metrics[0]."),
        ("min", "min_replica", "replicas."),
        ("min", "minReplicas", "replicas."),
        ("max", "max_replicas", "replicas."),
        ("interval", "intervall", ""),
        ("max_age", "age", ""),
        ("namespace", "name-space", "workload."),
        ("replicas", "replica", ""),
        ("strategy", "strategies", ""),
        ("limit", "limits", ""),
        ("after_up", "up", "limit[0]."),
    ],
)
def test_a_misspelt_key_is_one_line_with_the_right_one(tmp_path: Path, key: str, misspelt: str, place: str) -> None:
    text = WRITTEN.replace(f"{key} =", f"{misspelt} =", 1)
    assert problem_of(tmp_path, text) == f'web.toml: {place}{misspelt}: no such key, did you mean "{key}"?'


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("target", "web.toml: target: no such key"),
        ("ns", "web.toml: ns: no such key"),
        ('""', "web.toml: no such key"),
    ],
)
def test_no_key_is_guessed_for_one_like_none(tmp_path: Path, key: str, line: str) -> None:
    assert problem_of(tmp_path, f"{key} = 1\n{WRITTEN}") == line


def test_a_misspelt_workload_is_looked_into_all_the_same(tmp_path: Path) -> None:
    told = problem_of(tmp_path, VALID.replace("[workload]", "[worklod]") + "tolerance = -1\n").split("\n")
    assert told == [
        'web.toml: worklod: no such key, did you mean "workload"?',
        "web.toml: strategy[0].tolerance: must be >= 0, is -1",
    ]


def test_all_mistakes_of_the_settings_are_reported_at_once(tmp_path: Path) -> None:
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
