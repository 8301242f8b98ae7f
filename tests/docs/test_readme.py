"""The plugin of docs/plugins.md, taken from there, in a package of its own, installed beside the daemon."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elasticd.journal import read_back
from elasticd.model.records import Decision, Outcome
from elasticd.registry import discover
from tests.kit.policies import load_workloads

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "plugins.md")
DEMO = Path(__file__).resolve().parents[2] / "config" / "demo" / "elasticd.toml"


def block(name: str) -> str:
    """The code block that begins with this file name, of the README or the page about plugins."""
    text = "".join(page.read_text() for page in PAGES)
    found = re.findall(rf"```\w+\n# {re.escape(name)}\n(.*?)```", text, re.DOTALL)
    assert found, f"there must be a block that begins with # {name}"
    return str(found[0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that holds the plugin, installed by pip from its own folder."""
    package, site = tmp_path_factory.mktemp("elasticd-orders"), tmp_path_factory.mktemp("site")
    for name in ("pyproject.toml", "elasticd_orders.py"):
        (package / name).write_text(block(name))
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", site, package], check=True)
    return site


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own, with the plugin installed."""
    env = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)


def test_the_first_policy_is_one(tmp_path: Path) -> None:
    (tmp_path / "checkout.toml").write_text(block("policies/checkout.toml"))
    policy = load_workloads(tmp_path / "checkout.toml", discover())
    assert (policy.mode, len(policy.strategies), len(policy.limits)) == ("act", 2, 1)


def test_the_plugin_is_listed_with_its_package_options_and_defaults(site: Path) -> None:
    listed = run(site, "-m", "elasticd", "plugins").stdout
    assert re.search(r"^orders +strategy +says how many replicas", listed, re.MULTILINE)
    shown = run(site, "-m", "elasticd", "plugins", "orders").stdout
    assert "plugin orders of elasticd-orders 1.0" in shown
    assert "One replica for every" in shown
    assert re.search(r"per_replica +number > 0 +10(\.0)? +orders", shown)


def test_its_own_test_runs_without_a_cluster(site: Path) -> None:
    done = run(site, "-c", block("test_orders.py"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_option_of_it_is_named(site: Path, tmp_path: Path) -> None:
    text = block("policies/mailer.toml").replace("per_replica", "per_replicas")
    (tmp_path / "mailer.toml").write_text(text)
    done = run(site, "-m", "elasticd", "check", str(tmp_path))
    assert done.returncode == 78
    assert done.stdout == (
        f'{tmp_path}/mailer.toml: strategy[0].per_replicas: no such key, did you mean "per_replica"?\n'
    )


def test_it_scales_a_workload_in_the_demo(site: Path, tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    shutil.copytree(DEMO.parent, demo)
    (demo / "policies" / "mailer.toml").write_text(block("policies/mailer.toml"))
    settings = (demo / "elasticd.toml").read_text().replace("port = 9464", "port = 0")
    settings = settings.replace("../../build/demo", "state")
    rises = "table = [[0, 15], [20, 110], [65, 15]], repeat = 100"
    assert rises in settings
    (demo / "elasticd.toml").write_text(settings.replace(rises, 'formula = "40"'))  # at once, and the same in every run
    env = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "elasticd", "run", "--config", str(demo / "elasticd.toml"), "--decisions"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as daemon:
        try:
            assert daemon.stdout is not None
            lines = iter(daemon.stdout.readline, "")
            scaled = next((line for line in lines if "mailer" in line and "->" in line), "")
        finally:
            daemon.send_signal(signal.SIGINT)
            daemon.communicate()
    assert re.search(r"1 -> 2 replicas: OrdersWaiting, \d+ orders wait", scaled)
    assert daemon.returncode == 0
    kept = [record for record in read_back(demo / "state") if isinstance(record, Decision | Outcome)]
    records = [record for record in kept if record.workload.name == "mailer"]
    outcomes = [record for record in records if isinstance(record, Outcome)]
    assert [(outcome.result, outcome.before, outcome.after) for outcome in outcomes][-1] == ("done", 1, 2)
    opinions = [one for record in records if isinstance(record, Decision) for one in record.recommendations]
    assert {one.strategy for one in opinions} == {"orders"}


def test_the_readme_is_read_in_one_go() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


@pytest.mark.parametrize("kind", ["strategies", "sources"])
def test_every_plugin_has_a_row_in_the_tables(kind: str) -> None:
    pages = "".join(
        (ROOT / "docs" / f"{name}.md").read_text() for name in ("strategies", "limits", "sources", "placing")
    )
    rows = "".join(re.findall(r"^\|[^|]*\|", pages, re.MULTILINE))
    assert {name for name in getattr(discover(), kind) if f"`{name}`" not in rows} == set()
