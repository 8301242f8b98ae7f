"""`elasticd simulate`: what it reads, what it prints and writes, and what it refuses."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elasticd.lab.printed import compared
from elasticd.lab.scenario import load_scenario, play_all, soonest_done
from elasticd.registry import discover
from tests.kit.daemons import PATIENCE, called, is_alive, until

SHOP = Path(__file__).parents[2] / "config" / "scenarios" / "shop" / "elasticd.toml"
DEMO = Path(__file__).parents[2] / "config" / "demo" / "elasticd.toml"

CLUSTER = """
[cluster]
type = "simulated"
nodes = [{ name = "node", count = 2, cpu = "4", memory = "16Gi" }]

[[cluster.workloads]]
namespace = "shop"
name = "web"
replicas = 2
cpu = "500m"
demand = { formula = "0.6 + t / 1000" }
"""
MANY = """
[scenario]
hours = 0.07
seeds = 2
parts = 2

[cluster]
type = "simulated"
nodes = [{ name = "node", count = 2, cpu = "40", memory = "160Gi" }]
metrics = { noise = 0.2 }

[[cluster.workloads]]
namespace = "shop"
name = "web"
count = 4
cpu = "500m"
demand = { formula = "0.6 + t / 1000" }
"""
TARGET = 'workload = { namespace = "shop", name = "web" }'
POLICY = """
workload = { namespace = "shop", name = "web" }
replicas = { min = 2, max = 10 }

[[strategy]]
type = "hpa"
metrics = [{ type = "Resource", resource = "cpu", utilization = %d }]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A scenario of six minutes with two policies."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "elasticd.toml").write_text(f"[scenario]\nhours = 0.1\n{CLUSTER}")
    for name, target in (("lean", 90), ("roomy", 30)):
        (tmp_path / f"{name}.toml").write_text(POLICY % target)
    (tmp_path / "policies" / "web.toml").write_text(POLICY % 60)
    return tmp_path


def test_policies_stand_side_by_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", folder / "elasticd.toml", "--policies", folder / "lean.toml", folder / "roomy.toml"]
    arguments += ["--jobs", "1"]
    code, out, err = called(capsys, *arguments)
    head, titles, lean, roomy, ideal = out.splitlines()
    assert (code, err) == (0, "")
    assert head == "0.1 h from 2026-01-05T00:00:00.000Z, 1 workload, demand 0.078 core-hours, 1 seed"
    assert titles.split() == [
        "policies", "replica-hours", "most", "unserved", "short", "for", "longest", "changes", "flaps", "evictions"
    ]  # fmt: skip
    assert (lean.split()[0], roomy.split()[0]) == ("lean", "roomy")
    assert float(ideal.split()[1]) <= float(lean.split()[1]) < float(roomy.split()[1])


@pytest.mark.parametrize(
    ("table", "names"),
    [
        pytest.param("", ["policies"], id="the folder of policies"),
        pytest.param('policies = ["lean.toml", "policies"]', ["lean", "policies"], id="what the scenario names"),
        pytest.param(
            'policies = ["policies/web.toml", "web.toml"]', ["policies/web.toml", "web.toml"], id="of one name"
        ),
    ],
)
def test_a_scenario_says_which_policies_are_tried(folder: Path, table: str, names: list[str]) -> None:
    (folder / "web.toml").write_text(POLICY % 50)
    (folder / "elasticd.toml").write_text(f"[scenario]\n{table}\n{CLUSTER}")
    scenario = load_scenario(folder / "elasticd.toml", discover())
    assert [candidate.name.removeprefix(f"{folder}/") for candidate in scenario.candidates] == names


def test_the_same_seed_gives_the_same_files_byte_for_byte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "elasticd.toml").write_text(
        f"[scenario]\nhours = 0.1\nseeds = 2\n{CLUSTER}".replace("nodes", "seed = 5\nmetrics = { noise = 0.2 }\nnodes")
    )
    texts = []
    for turn in ("one", "two"):
        out, nodes = folder / f"{turn}.csv", folder / f"{turn}-nodes.csv"
        arguments = ["simulate", folder / "elasticd.toml", "--out", out, "--out-nodes", nodes, "--json", "--jobs", "1"]
        code, printed, _ = called(capsys, *arguments)
        texts.append((code, printed, out.read_bytes(), nodes.read_bytes()))
    assert texts[0] == texts[1]
    rows = list(csv.DictReader(texts[0][2].decode().splitlines()))
    assert [row["seed"] for row in rows] == ["5"] * 6 + ["6"] * 6 + ["5"] * 6
    assert rows[0] == {
        "policies": "policies", "seed": "5", "time": "2026-01-05T00:01:00.000Z", "workload": "shop/Deployment/web",
        "demand": "0.63", "unserved": "0.05020833333", "replicas": "3", "ready": "3",
        "requests": "", "failed": "", "wait_median": "", "wait_p99": "",
    }  # fmt: skip
    assert {row["node"] for row in csv.DictReader(texts[0][3].decode().splitlines())} == {"node-1", "node-2"}


@pytest.mark.slow
def test_any_number_of_jobs_gives_the_same_bytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "elasticd.toml").write_text(MANY)
    (folder / "policies" / "web.toml").write_text(POLICY.replace(TARGET, 'select = { namespaces = ["shop"] }') % 60)
    texts = set()
    for jobs in ("1", "2"):
        out, nodes = folder / f"{jobs}.csv", folder / f"{jobs}-nodes.csv"
        words = ["simulate", folder / "elasticd.toml", "--out", out, "--out-nodes", nodes]
        code, printed, err = called(capsys, *words, "--jobs", jobs, "--json")
        texts.add((code, printed, err, out.read_bytes(), nodes.read_bytes()))
    ((code, _, err, rows, node_rows),) = texts
    assert (code, err) == (0, "")
    order = [row["workload"][-1] for row in csv.DictReader(rows.decode().splitlines()) if row["policies"] == "policies"]
    assert order == [*"1111222233334444"] * 2
    assert {row["node"] for row in csv.DictReader(node_rows.decode().splitlines())} == {"node-1", "node-2"}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_simulation_goes_on_where_it_was(
    folder: Path, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    (folder / "elasticd.toml").write_text(MANY)
    (folder / "policies" / "web.toml").write_text(POLICY.replace(TARGET, 'select = { namespaces = ["shop"] }') % 60)
    words = ["simulate", folder / "elasticd.toml", "--json", "--jobs", jobs]
    whole = called(capsys, *words)
    assert called(capsys, *words, "--study", folder / "study") == whole
    first, *others = sorted((folder / "study").iterdir())
    written = {path: path.stat().st_mtime_ns for path in others}
    first.write_bytes(first.read_bytes()[:100])
    assert called(capsys, *words, "--study", folder / "study") == whole
    assert {path: path.stat().st_mtime_ns for path in others} == written
    assert first.stat().st_size > 100
    (folder / "policies" / "web.toml").write_text(POLICY.replace(TARGET, 'select = { namespaces = ["shop"] }') % 30)
    assert called(capsys, *words, "--study", folder / "study") != whole


def children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def players(pid: int) -> set[int]:
    """The processes that play for a process: those of the server that forks them."""
    servers = {child for child in children(pid) if b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()}
    return {player for server in servers for player in children(server)}


def hears(pid: int, number: signal.Signals) -> bool:
    """Whether a process does not ignore a signal: SIGINT is ignored while processes start."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return not int(status["SigIgn"], 16) >> (number - 1) & 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 128 + signal.SIGINT, id="interrupted"),
        pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, id="told to end"),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="killed"),
    ],
)
def test_processes_that_play_end_with_the_command(folder: Path, number: signal.Signals, code: int) -> None:
    (folder / "elasticd.toml").write_text(MANY)
    command = [str(Path(sys.executable).with_name("elasticd")), "simulate", "elasticd.toml", "--hours", "8000"]
    process = subprocess.Popen([*command, "--jobs", "2"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: len(players(process.pid)) == 2 and hears(process.pid, number), "two processes play")
    begun = {*children(process.pid), *players(process.pid)}
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert b"Traceback" not in err
    until(lambda: not any(map(is_alive, begun)), "they have ended")


def test_unknown_demand_is_an_empty_cell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "elasticd.toml").write_text(CLUSTER.replace("0.6 + t / 1000", "0.6 / min(1, floor(abs(t - 90) / 30))"))
    called(capsys, "simulate", folder / "elasticd.toml", "--hours", "0.05", "--out", folder / "out.csv")
    rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    assert [row["demand"] for row in rows if row["policies"] == "policies"] == ["0.6", "", "0.6"]


def test_parquet_has_the_same_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for out in ("out.csv", "out.parquet"):
        assert called(capsys, "simulate", folder / "elasticd.toml", "--out", folder / out)[0] == 0
    rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    table = parquet.read_table(folder / "out.parquet").to_pylist()
    assert [(row["time"], row["replicas"]) for row in table] == [(row["time"], int(row["replicas"])) for row in rows]


def test_json_has_the_figures_of_each_run_and_workload(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "simulate", folder / "elasticd.toml", "--seeds", "2", "--json", "--jobs", "1")
    runs = json.loads(out)
    assert (code, [(run["policies"], run["seed"]) for run in runs]) == (
        0,
        [("policies", 0), ("policies", 1), ("(ideal)", 0)],
    )
    assert runs[0]["since"] == "2026-01-05T00:00:00.000Z"
    of_nodes = dict.fromkeys(("without_node", "apart", "fullest", "occupied"))
    assert all(runs[0]["figures"][name] is not None for name in of_nodes)
    assert runs[0]["workloads"] == {"shop/Deployment/web": {**runs[0]["figures"], **of_nodes}}
    assert 0 < runs[0]["figures"]["unserved"] < 0.1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["missing.toml"], "missing.toml: must be readable, is not: No such file or directory", id="file"),
        pytest.param(
            ["kubernetes.toml"],
            'kubernetes.toml: cluster.type: must be "simulated" for a scenario, is "kubernetes"',
            id="a real cluster",
        ),
        pytest.param(["elasticd.toml", "--policies", "none"], "none: must be readable, is not: ", id="no policies"),
        pytest.param(["elasticd.toml", "--policies", "empty"], "empty: must have a policy, has none", id="no policy"),
        pytest.param(["elasticd.toml", "--hours", "0"], "--hours: must be > 0, is 0.0", id="hours"),
        pytest.param(
            ["elasticd.toml", "--hours", "0.01"], "--hours: must be at least a step of 60 s, is 36 s", id="step"
        ),
        pytest.param(["elasticd.toml", "--seeds", "0"], "--seeds: must be >= 1, is 0", id="seeds"),
        pytest.param(["elasticd.toml", "--parts", "0"], "--parts: must be >= 1, is 0", id="parts"),
        pytest.param(["elasticd.toml", "--parts", "3"], "parts: must be <= the 2 nodes, is 3", id="more than nodes"),
        pytest.param(
            ["elasticd.toml", "--study", "there.csv"], "--study: must be a folder, there.csv is not", id="study"
        ),
        pytest.param(["elasticd.toml", "--out", "out.txt"], "--out: must end in .csv or .parquet, is ", id="ending"),
        pytest.param(["elasticd.toml", "--out", "there.csv"], "--out: must be a new file, ", id="a file that is there"),
        pytest.param(
            ["elasticd.toml", "--out", "none/out.csv"], "--out: must be in a folder that is there, is ", id="folder"
        ),
        pytest.param(
            ["elasticd.toml", "--policies", "wrong.toml"],
            "wrong.toml: strategy[0].type: must be one of ",
            id="a mistake in a policy",
        ),
    ],
)
def test_what_cannot_be_played_costs_one_line(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    (folder / "kubernetes.toml").write_text("")
    (folder / "empty").mkdir()
    (folder / "there.csv").write_text("mine")
    (folder / "wrong.toml").write_text((POLICY % 60).replace('"hpa"', '"hpaa"'))
    monkeypatch.chdir(folder)
    code, out, err = called(capsys, "simulate", *arguments)
    assert (code, out, err.count("\n")) == (78, "", 1)
    assert problem in err
    assert (folder / "there.csv").read_text() == "mine"


def test_a_plugin_that_failed_in_a_run_is_named(folder: Path) -> None:
    scenario = load_scenario(folder / "elasticd.toml", discover())
    runs = play_all(scenario, lambda name, seconds: None)
    runs["policies"][0].failures["mine: recommend_replicas raised KeyError"] = 24
    *_, last = compared(scenario, runs, each=False)
    assert str(last) == "policies: 24 decisions: mine: recommend_replicas raised KeyError"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_mistake_that_shows_in_a_run_costs_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    text = (folder / "elasticd.toml").read_text()
    (folder / "elasticd.toml").write_text(text.replace('formula = "0.6 + t / 1000"', 'recording = "none.csv"'))
    code, out, err = called(capsys, "simulate", folder / "elasticd.toml", "--seeds", "2", "--jobs", jobs)
    problem = "must be a readable CSV file, is not: No such file or directory"
    assert (code, out, err) == (78, "", f"{folder / 'none.csv'}: {problem}\n")


@pytest.mark.slow
def test_the_shipped_scenario_compares_three_policies(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "simulate", SHOP)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[2:]] == [
        "hpa", "step-tolerance", "double-threshold", "(ideal)"
    ]  # fmt: skip


def test_sources_that_need_a_server_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "simulate", DEMO, "--hours", "0.02")
    assert (code, err) == (0, "source sensors is left out: its samples are of real time\n")


@pytest.mark.slow
def test_progress_of_runs_in_other_processes_is_heard(folder: Path) -> None:
    (folder / "elasticd.toml").write_text(CLUSTER.replace("[cluster]", "[scenario]\nhours = 6\nseeds = 2\n\n[cluster]"))
    heard: list[float] = []
    play_all(load_scenario(folder / "elasticd.toml", discover()), lambda name, seconds: heard.append(seconds), jobs=2)
    assert sum(heard) == pytest.approx(2 * 6 * 3600)
    assert len(heard) > 2


@pytest.mark.parametrize(
    ("runs", "cores", "at_a_time"),
    [
        pytest.param(0, 2, 2, id="nothing to play"),
        pytest.param(3, 1, 1, id="one core"),
        pytest.param(2, 2, 2, id="one for each core"),
        pytest.param(3, 2, 3, id="the third would be alone"),
        pytest.param(4, 2, 2, id="two rounds"),
        pytest.param(5, 2, 3, id="the fifth would be alone"),
        pytest.param(6, 2, 2, id="as soon with fewer"),
        pytest.param(5, 4, 5, id="the fifth of four cores"),
        pytest.param(7, 4, 4, id="more than half as many again"),
        pytest.param(100, 64, 64, id="a cluster's worth"),
    ],
)
def test_no_core_is_idle_while_the_last_runs_are_played(runs: int, cores: int, at_a_time: int) -> None:
    assert soonest_done(runs, cores) == at_a_time
