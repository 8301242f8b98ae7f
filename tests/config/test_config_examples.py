"""That what is shipped in config/ is right: every setting at its default, and every example loads."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli
import yaml
from msgspec.structs import replace

from elasticd.cli import main
from elasticd.config import Settings, load_settings, read_policies
from elasticd.registry import Registry, discover
from elasticd.sources.tls import Tls
from elasticd.telemetry.mqtt_publisher import PublisherSettings
from elasticd.ui.options import options
from tests.kit.policies import load_pool, load_workloads, read_right
from tests.kube.rights import FOLDER as KUSTOMIZE
from tests.kube.rights import shipped

CONFIG = Path(__file__).resolve().parents[2] / "config"
SETTINGS = CONFIG / "elasticd.toml"
EXAMPLES = [
    "burst",
    "double-threshold",
    "event",
    "forecast",
    "hpa",
    "hpa-baseline",
    "hpa-external",
    "jobs",
    "limits",
    "schedule",
    "spread",
    "step-tolerance",
    "vertical",
    "victims",
]
# Those about the pods of a pool.
POOLS = [
    "bald-eagle",
    "binding-strong",
    "binding-weak",
    "drain",
    "kube-scheduler",
    "least-requested",
    "load-balance",
    "placing",
    "preemption",
    "rebind",
    "rebalance",
    "static",
    "subsets",
    "topsis",
]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return discover()


def with_examples(text: str) -> dict[str, Any]:
    """The tables of a TOML text, with the settings in it that are only shown, `# key = value` and `# [table]`."""
    return tomli.loads(re.sub(r"^# (\w+ = .*|\[\w+\])$", r"\1", text, flags=re.MULTILINE))


def missing(value: Any, table: dict[str, Any], where: str = "") -> list[str]:
    """The settings of a record, and of the records in it, that its TOML table does not name."""
    faults = []
    for field in msgspec.structs.fields(value):
        name, inner = field.encode_name, getattr(value, field.name)
        if name not in table:
            faults.append(f"{where}{name}")
        elif isinstance(inner, msgspec.Struct):
            faults += missing(inner, table[name], f"{where}{name}.")
    return faults


def test_shipped_settings_are_the_defaults(registry: Registry, tmp_path: Path) -> None:
    bare = tmp_path / "elasticd.toml"
    bare.write_text("")
    defaults = load_settings(bare, registry)
    assert load_settings(SETTINGS, registry) == replace(defaults, policies=CONFIG / "policies")


def test_shipped_settings_name_every_setting(registry: Registry) -> None:
    tables, settings = with_examples(SETTINGS.read_text()), load_settings(SETTINGS, registry)
    tables["sources"], tables["renamed"] = tables.pop("source"), ()  # nothing that is written: what old names it has
    assert missing(settings, tables) == []
    for table, source in zip(tables["sources"], settings.sources, strict=True):
        assert missing(source, table, "source.") == []
        assert table["type"] == source.__struct_config__.tag
    assert tables["cluster"]["type"] == "kubernetes"


def test_shipped_settings_show_the_outlet_at_its_defaults() -> None:
    shown = with_examples(SETTINGS.read_text())["outlet"]
    assert msgspec.convert(shown, PublisherSettings) == PublisherSettings(tls=Tls())
    assert set(shown) == {field.encode_name for field in msgspec.structs.fields(PublisherSettings)}
    assert set(shown["tls"]) == {field.encode_name for field in msgspec.structs.fields(Tls)}


def test_every_shipped_setting_has_a_comment_above_it() -> None:
    lines = SETTINGS.read_text().splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"[\w\[]", line) and not re.match(r"[#\w\[]", before)
    ]
    assert bare == []


def test_all_examples_are_tested() -> None:
    assert sorted(path.stem for path in (CONFIG / "policies").glob("*.toml")) == sorted(EXAMPLES + POOLS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_loads_and_acts(name: str, registry: Registry) -> None:
    policy = load_workloads(CONFIG / "policies" / f"{name}.toml", registry)
    assert (policy.name, policy.mode) == (name, "act")


def test_examples_are_about_different_workloads(registry: Registry) -> None:
    policies, _ = read_right(CONFIG / "policies", registry)
    assert len(policies) == len(EXAMPLES)


@pytest.mark.parametrize("name", POOLS)
def test_example_of_a_pool_loads_and_acts(name: str, registry: Registry) -> None:
    policy = load_pool(CONFIG / "policies" / f"{name}.toml", registry)
    assert (policy.name, policy.mode) == (name, "act")


def test_examples_of_pools_are_about_different_pods(registry: Registry) -> None:
    _, pools = read_right(CONFIG / "policies", registry)
    assert len(pools) == len(POOLS)


def test_placing_example_names_every_key_of_pool_policy_and_filters(registry: Registry) -> None:
    table = tomli.loads((CONFIG / "policies" / "placing.toml").read_text())
    policy = load_pool(CONFIG / "policies" / "placing.toml", registry)
    table["strategies"] = table.pop("strategy")
    assert missing(policy, table | {"name": "placing"}) == ["moves"]  # for policies that move pods
    (shown,) = [one for one in table["strategies"] if one["type"] == "filters"]
    (filters,) = [one for one in policy.strategies if one.__struct_config__.tag == "filters"]
    assert missing(filters, shown) == ["priority"]


@pytest.mark.parametrize(
    ("example", "kind"),
    [
        ("binding-weak", "binding"),
        ("least-requested", "least-requested"),
        ("least-requested", "balanced-allocation"),
        ("kube-scheduler", "topology-spread"),
        ("kube-scheduler", "pod-affinity"),
        ("kube-scheduler", "node-affinity"),
        ("kube-scheduler", "taint-toleration"),
        ("kube-scheduler", "image-locality"),
        ("load-balance", "load-balance"),
        ("preemption", "preemption"),
        ("rebind", "rebind"),
        ("drain", "drain"),
        ("rebalance", "rebalance"),
        ("static", "static"),
        ("subsets", "subsets"),
        ("bald-eagle", "bald-eagle"),
        ("topsis", "topsis"),
    ],
)
def test_example_of_a_pod_strategy_names_all_its_options(example: str, kind: str, registry: Registry) -> None:
    path = CONFIG / "policies" / f"{example}.toml"
    (table,) = [one for one in tomli.loads(path.read_text())["strategy"] if one["type"] == kind]
    (strategy,) = [one for one in load_pool(path, registry).strategies if one.__struct_config__.tag == kind]
    assert missing(strategy, table) == ["priority"]


def test_hpa_example_names_every_key_of_a_policy(registry: Registry) -> None:
    table = with_examples((CONFIG / "policies" / "hpa.toml").read_text())
    policy = load_workloads(CONFIG / "policies" / "hpa.toml", registry)
    table["strategies"], table["limits"] = table.pop("strategy"), []
    assert missing(policy, table | {"name": "hpa", "select": None, "job": None}) == []


@pytest.mark.parametrize("name", ["burst", "double-threshold", "step-tolerance"])
def test_example_of_a_single_strategy_names_all_its_meaningful_options(name: str, registry: Registry) -> None:
    path = CONFIG / "policies" / f"{name}.toml"
    (table,) = tomli.loads(path.read_text())["strategy"]
    (strategy,) = load_workloads(path, registry).strategies
    assert (table["type"], strategy.__struct_config__.tag) == (name, name)
    elsewhere = {"priority"} | ({"target"} if name == "double-threshold" else set())  # one strategy; mode "paper"
    assert set(missing(strategy, table)) == elsewhere


@pytest.mark.parametrize(("example", "missed"), [("spread", set()), ("victims", {"priority"})])
def test_example_of_a_pod_choosing_strategy_names_all_its_options(
    example: str, missed: set[str], registry: Registry
) -> None:
    path = CONFIG / "policies" / f"{example}.toml"
    (table,) = [one for one in tomli.loads(path.read_text())["strategy"] if one["type"] == example]
    (strategy,) = [one for one in load_workloads(path, registry).strategies if one.__struct_config__.tag == example]
    assert set(missing(strategy, table)) == missed


def test_limits_example_has_every_limit(registry: Registry) -> None:
    policy = load_workloads(CONFIG / "policies" / "limits.toml", registry)
    limits = {name for name, one in registry.strategies.items() if one.plugin == "limits"}
    assert {str(limit.__struct_config__.tag) for limit in policy.limits} == limits


def test_schedule_example_has_every_limit_that_knows_the_calendar(registry: Registry) -> None:
    policy = load_workloads(CONFIG / "policies" / "schedule.toml", registry)
    limits = {name for name, one in registry.strategies.items() if one.plugin == "timed-limits"}
    assert {str(limit.__struct_config__.tag) for limit in policy.limits} == limits


def test_schedule_example_shows_every_key_of_its_strategy(registry: Registry) -> None:
    table = tomli.loads((CONFIG / "policies" / "schedule.toml").read_text())
    (shown,) = [one for one in table["strategy"] if one["type"] == "schedule"]
    known = {option.name for option in options(registry.strategies["schedule"].type)}
    keys = {f"{name}[].{key}" for name in ("windows", "instants") for entry in shown[name] for key in entry}
    assert known - {"windows", "instants", "default", "priority"} - keys == {"instants[].except"}
    assert "default" in shown


def in_cluster(registry: Registry) -> Settings:
    return load_settings(KUSTOMIZE / "elasticd.toml", registry)


def test_settings_in_the_cluster_differ_only_where_they_must(registry: Registry) -> None:
    settings, defaults = in_cluster(registry), load_settings(SETTINGS, registry)
    http = replace(defaults.http, host="0.0.0.0")
    assert settings == replace(defaults, http=http, policies=Path("/etc/elasticd/policies"))


def test_policies_in_the_cluster_only_observe(registry: Registry) -> None:
    policies, errors = read_policies(KUSTOMIZE / "policies", registry)
    assert errors == []
    assert {policy.mode for policy in policies} == {"observe"}


def test_deployment_mounts_what_the_settings_name(registry: Registry) -> None:
    settings = in_cluster(registry)
    (deployment,) = [one for one in shipped() if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted["policies"] == str(settings.policies)
    assert mounted["state"] == str(settings.state)
    assert container["args"] == ["run", "--config", mounted["config"]]
    assert container["ports"] == [{"name": "http", "containerPort": settings.http.port}]


KUBECTL = shutil.which("kubectl")


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl, which has kustomize in it, is not on this machine")
def test_kustomize_makes_what_the_tests_read() -> None:
    assert KUBECTL is not None
    done = subprocess.run([KUBECTL, "kustomize", KUSTOMIZE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # The settings' name has a hash of their content.
    made = yaml.safe_load_all(re.sub(r"(name: elasticd-settings)-\w{10}$", r"\1", done.stdout, flags=re.MULTILINE))
    assert by_name(list(made)) == by_name(shipped())


COMPONENTS = sorted(path.name for path in (KUSTOMIZE / "components").iterdir())
OVERLAY = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [base]
components: [{component}]
"""


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl, which has kustomize in it, is not on this machine")
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_adds_its_own_objects_and_no_other(component: str, tmp_path: Path) -> None:
    shutil.copytree(KUSTOMIZE, tmp_path / "base")
    folder = f"base/components/{component}"
    (tmp_path / "kustomization.yaml").write_text(OVERLAY.format(component=folder))
    assert KUBECTL is not None
    done = subprocess.run([KUBECTL, "kustomize", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    own = [path for path in (tmp_path / folder).iterdir() if path.name != "kustomization.yaml"]
    added = [one for path in own for one in yaml.safe_load_all(path.read_text()) if one]
    made = {(kind, name): one for (kind, name), one in by_name(list(yaml.safe_load_all(done.stdout))).items()}
    # Also in their own namespaces: kustomize would move a RoleBinding where it sets one.
    assert [one for one in added if made[(one["kind"], one["metadata"]["name"])] != one] == []
    settings = next(name for kind, name in made if kind == "ConfigMap" and name.startswith("elasticd-settings"))
    names = {(kind, "elasticd-settings" if name == settings else name) for kind, name in made}
    assert names == by_name(shipped()).keys() | by_name(added).keys()


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine")
def test_the_kustomization_of_the_docs_brings_policies(tmp_path: Path) -> None:
    page = (KUSTOMIZE.parents[1] / "docs" / "install.md").read_text()
    (block,) = re.findall(r"```yaml\n(# kustomization\.yaml\n.*?)```", page, re.DOTALL)
    assert main(["examples", str(tmp_path / "elasticd")]) == 0
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "web.toml").write_text("# web")
    (tmp_path / "kustomization.yaml").write_text(block)
    assert KUBECTL is not None
    done = subprocess.run([KUBECTL, "kustomize", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    made = by_name(list(yaml.safe_load_all(done.stdout)))
    assert made["ConfigMap", "elasticd-policies"]["data"] == {"web.toml": "# web"}


def test_the_docs_name_every_component() -> None:
    page = (KUSTOMIZE.parents[1] / "docs" / "install.md").read_text()
    section = page.partition("\n## In the cluster\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`([\w-]+)`", row)) == COMPONENTS


def test_prometheus_scrapes_the_port_that_the_pods_name() -> None:
    monitor = yaml.safe_load((KUSTOMIZE / "components" / "podmonitor" / "podmonitor.yaml").read_text())["spec"]
    (deployment,) = [one for one in shipped() if one["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
    assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= ports
    assert all(endpoint["honorLabels"] for endpoint in monitor["podMetricsEndpoints"])
    assert monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_the_network_policy_lets_only_prometheus_read_the_pages() -> None:
    policy = yaml.safe_load((KUSTOMIZE / "components" / "networkpolicy" / "networkpolicy.yaml").read_text())
    (deployment,) = [one for one in shipped() if one["kind"] == "Deployment"]
    template, spec = deployment["spec"]["template"], policy["spec"]
    ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
    assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert spec["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert spec["policyTypes"] == ["Ingress"]
    (rule,) = spec["ingress"]
    assert {port["port"] for port in rule["ports"]} == ports
    (source,) = rule["from"]
    assert list(source) == ["namespaceSelector"]
    assert source["namespaceSelector"]["matchLabels"]


def by_name(objects: list[Any]) -> dict[tuple[str, str], Any]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}
