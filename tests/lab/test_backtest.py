"""`elasticd backtest`: the load of a recording, what was, and what would have been possible."""

import csv
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from math import isnan, nan
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.lab.figures import figures, first_count
from elasticd.lab.ideal import ideal, recorded
from elasticd.lab.runs import Change, Run, ServingPod, WorkloadTrack
from elasticd.model.workload import Ref
from tests.kit.daemons import called

WEB = Ref("shop", "Deployment", "web")
POD = ServingPod(capacity=0.5, start_seconds=30.0)
POLICY = """
workload = { namespace = "shop", name = "%s" }
replicas = { min = 1, max = 10 }

[[strategy]]
type = "hpa"
metrics = [{ type = "Resource", resource = "cpu", utilization = %d }]
"""
BEGUN = 1_772_438_400.0


def played(demand: Sequence[float]) -> Run:
    """A run of steps of a minute with this demand."""
    return Run(BEGUN, 60.0, {WEB: WorkloadTrack(demand=[*demand], peak=[*demand])})


@pytest.mark.parametrize(
    ("demand", "start_seconds", "replicas"),
    [
        pytest.param([0.2, 0.9, 2.0, 0.2], 0.0, [1, 2, 4, 1], id="pods that are ready at once"),
        pytest.param([0.2, 0.9, 2.0, 0.2], 30.0, [2, 4, 4, 1], id="asked for a step before"),
        pytest.param([0.2, 0.9, 2.0, 0.2], 90.0, [4, 4, 4, 1], id="asked for two steps before"),
        pytest.param([0.0, 0.0], 0.0, [1, 1], id="never fewer than one"),
        pytest.param([0.5, 1.0, 0.5 * 3 + 1e-12], 0.0, [1, 2, 3], id="whole pods"),
        pytest.param([0.9, nan, nan, 0.2], 0.0, [2, 2, 2, 1], id="as many as before where it is not known"),
    ],
)
def test_the_ideal_serves_all_demand_with_the_fewest_pods(
    demand: list[float], start_seconds: float, replicas: list[int]
) -> None:
    run = ideal(played(demand), {WEB: ServingPod(0.5, start_seconds)})
    track = run.workloads[WEB]
    assert track.replicas == replicas
    assert [lost for lost in track.unserved if not isnan(lost)] == [0.0] * sum(not isnan(value) for value in demand)
    assert figures(run).replica_hours == pytest.approx(sum(replicas) / 60)
    assert figures(run).unserved == 0.0


def test_the_ideal_of_equal_demand_goes_by_the_pods() -> None:
    run = played([0.2, 0.9, 2.0, 0.2])
    pods = {WEB: ServingPod(0.5, 0.0)}
    for name, pod in {"same": pods[WEB], "large": ServingPod(1.0, 0.0), "slow": ServingPod(0.5, 30.0)}.items():
        run.workloads[replace(WEB, name=name)], pods[replace(WEB, name=name)] = run.workloads[WEB], pod
    best = ideal(run, pods)
    counts = [track.replicas for track in best.workloads.values()]
    assert counts == [[1, 2, 4, 1], [1, 2, 4, 1], [1, 1, 2, 1], [2, 4, 4, 1]]
    assert [first_count(best, ref) for ref in best.changes] == [1, 1, 1, 2]
    assert [len(changes) for changes in best.changes.values()] == [3, 3, 2, 2]


def test_what_was_not_served_in_a_recording_is_not_known() -> None:
    run = recorded(played([0.2, 0.9, 2.0]), WEB, [(BEGUN, 2), (BEGUN + 90, 3), (BEGUN + 100, 3)])
    assert run.workloads[WEB].replicas == [2, 3, 3]
    assert run.changes[WEB] == [Change(BEGUN + 90, 2, 3)]
    total = figures(run)
    assert isnan(total.unserved)
    assert isnan(total.short)
    assert total.replica_hours == pytest.approx((90 * 2 + 90 * 3) / 3600)


def rows(minutes: int, pods: Mapping[int, int]) -> str:
    """Samples of each minute: so many pods from a minute on, each of which uses 0.3 cores."""
    lines = ["time,series,subject,key,value,window"]
    for minute in range(minutes):
        count = [pods[since] for since in pods if since <= minute][-1]
        lines += [f"{BEGUN + 60 * minute},cpu,pod,shop/web-{index},0.3,60" for index in range(count)]
        lines.append(f"{BEGUN + 60 * minute},orders,workload,shop/Deployment/web,{count * 7},")
    return "\n".join([*lines, ""])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of 20 minutes in which two pods become five, and two policies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recording.csv").write_text(rows(20, {0: 2, 10: 5}))
    for name, target in (("lean", 90), ("roomy", 40)):
        (tmp_path / f"{name}.toml").write_text(POLICY % ("web", target))
    return tmp_path


ASKED = ("--recording", "recording.csv", "--cpu", "500m")


def test_policies_stand_beside_the_ideal_and_what_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["backtest", "lean.toml", "roomy.toml", *ASKED, "--price", "0.5", "--jobs", "1"]
    code, out, err = called(capsys, *arguments)
    head, titles, *lines = out.splitlines()
    names = ["lean", "roomy", "(ideal)", "(what was)"]
    cells = {name: line.removeprefix(name).split() for name, line in zip(names, lines, strict=True)}
    assert (code, err) == (0, "")
    assert head.startswith("0.3167 h from 2026-03-02T08:00:00.000Z, 1 workload, demand 0.325 core-hours")
    assert titles.split()[-1] == "cost"
    assert float(cells["lean"][0]) < float(cells["roomy"][0])
    # Two pods for ten minutes, five for nine.
    assert cells["(what was)"][0] == "1.1"
    assert cells["(what was)"][2] == "-"
    # Of 0.5 cores each, 0.6 and 1.5 cores need two and three: two for nine minutes, as the third takes a step.
    assert (cells["(ideal)"][0], cells["(ideal)"][2], cells["(ideal)"][-1]) == ("0.8", "0.00%", "0.40")


def test_a_report_shows_what_was(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["backtest", "lean.toml", "roomy.toml", *ASKED, "--jobs", "1", "--report", "out.html"]
    assert called(capsys, *arguments)[0] == 0
    page = (folder / "out.html").read_text()
    assert "<h1>elasticd backtest: recording.csv</h1>" in page
    assert "<dt>(what was)</dt><dd>the counts that the recording shows</dd>" in page


@pytest.mark.slow
def test_more_jobs_give_the_same_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [
        called(capsys, "backtest", "lean.toml", "roomy.toml", *ASKED, "--seeds", "2", "--json", "--jobs", jobs)
        for jobs in ("1", "3")
    ]
    assert texts[0] == texts[1]
    names = [run["policies"] for run in json.loads(texts[0][1])]
    assert names == ["lean", "lean", "roomy", "roomy", "(ideal)", "(what was)"]


@pytest.mark.slow
def test_processes_import_nothing_from_the_current_folder(folder: Path) -> None:
    imported = folder / "imported"
    (folder / "numpy.py").write_text(f"open({str(imported)!r}, 'w')\n")
    elasticd = str(Path(sys.executable).with_name("elasticd"))
    command = [elasticd, "backtest", "lean.toml", *ASKED, "--jobs", "2", "--seeds", "2"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert not imported.exists()


OTHERS = ["web-admin-6c8f7b9d4-m4kqz", "web-db-0", "web-backup-28912340-m4kqz", "web-worker-x7k2p", "web-shell"]
OTHERS += ["web-gw-x7k2p", "web-28912340-m4kqz"]


@pytest.mark.parametrize(
    ("kind", "own", "others"),
    [
        pytest.param("Deployment", "web-6c8f7b9d4-x7k2p", [*OTHERS, "web-0"], id="deployment"),
        pytest.param("StatefulSet", "web-0", [*OTHERS, "web-6c8f7b9d4-x7k2p"], id="statefulset"),
        pytest.param("ReplicaSet", "web-x7k2p", [*OTHERS, "web-6c8f7b9d4-x7k2p"], id="replicaset"),
    ],
)
def test_pods_of_others_that_begin_like_it_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, own: str, others: list[str]
) -> None:
    """A recording has every pod of a namespace."""
    policy = (folder / "lean.toml").read_text()
    (folder / "lean.toml").write_text(policy.replace('name = "web"', f'name = "web", kind = "{kind}"'))
    alone = rows(20, {0: 1}).replace("shop/web-0", f"shop/{own}")
    (folder / "recording.csv").write_text(alone)
    expected = called(capsys, "backtest", "lean.toml", *ASKED)
    beside = [f"{BEGUN + 60 * minute},cpu,pod,shop/{name},0.3,60" for minute in range(20) for name in others]
    (folder / "recording.csv").write_text("\n".join([alone.rstrip(), *beside, ""]))
    assert called(capsys, "backtest", "lean.toml", *ASKED) == expected
    assert expected[0] == 0


def test_the_pods_of_a_recording_are_ready_at_its_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["roomy.toml", *ASKED, "--start-seconds", "100", "--out", "out.csv", "--jobs", "1"]
    assert called(capsys, "backtest", *arguments)[0] == 0
    table = [row for row in csv.DictReader((folder / "out.csv").read_text().splitlines()) if row["policies"] == "roomy"]
    assert (table[0]["ready"], table[0]["unserved"]) == ("2", "0")
    assert any(int(row["ready"]) < int(row["replicas"]) for row in table)  # those that come later take their time


def test_a_series_of_workloads_may_be_the_load(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["backtest", "lean.toml", "--recording", "recording.csv", "--series", "orders", "--cpu", "10"]
    assert called(capsys, *arguments, "--out", "out.csv", "--jobs", "1")[0] == 0
    table = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    assert [row["demand"] for row in table if row["policies"] == "lean"] == ["14"] * 10 + ["35"] * 9
    assert {row["policies"] for row in table} == {"lean", "(ideal)"}


def test_other_series_are_there_for_the_policies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = POLICY % ("web", 60)
    external = 'metrics = [{ type = "External", series = "orders", average_value = 7 }]\n'
    (folder / "orders.toml").write_text(policy[: policy.index("metrics")] + external)
    assert called(capsys, "backtest", "orders.toml", *ASKED, "--out", "out.csv", "--jobs", "1")[0] == 0
    table = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    assert [row["replicas"] for row in table if row["policies"] == "orders"][-1] == "5"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(
            ["lean.toml", "--recording", "none.csv", "--cpu", "1"],
            "none.csv: must be a readable CSV file, is not: No such file or directory",
            id="no recording",
        ),
        pytest.param(
            ["lean.toml", "--recording", "lean.toml", "--cpu", "1"],
            "--recording: must end in one of .csv, .jsonl, .ndjson, .parquet, is lean.toml",
            id="no recording's ending",
        ),
        pytest.param(
            ["lean.toml", "--recording", "recording.csv", "--cpu", "1", "--series", "memory"],
            "recording.csv: must have samples of series memory of shop/Deployment/web or its pods, "
            "has series cpu, orders",
            id="another series",
        ),
        pytest.param(
            ["other.toml", *ASKED],
            "recording.csv: must have samples of series cpu of shop/Deployment/api or its pods, has none",
            id="another workload",
        ),
        pytest.param(
            ["lean.toml", "other.toml", *ASKED],
            "other.toml: workload: must be shop/Deployment/web, as in lean.toml, is shop/Deployment/api",
            id="two workloads",
        ),
        pytest.param(
            ["many.toml", *ASKED], "many.toml: workload: must be given for a backtest, is not", id="a selector"
        ),
        pytest.param(
            ["lean.toml", "--recording", "recording.csv", "--cpu", "much"],
            "--cpu: must be a quantity such as 250m, 2 or 1.5Gi, is 'much'",
            id="no quantity",
        ),
        pytest.param(["lean.toml", *ASKED, "--cpu-limit", "0"], "--cpu-limit: must be > 0, is 0", id="no capacity"),
        pytest.param(["lean.toml", *ASKED, "--seeds", "0"], "--seeds: must be >= 1, is 0", id="no seed"),
        pytest.param(["lean.toml", *ASKED, "--jobs", "0"], "--jobs: must be >= 1, is 0", id="no job"),
        pytest.param(["lean.toml", *ASKED, "--price", "-1"], "--price: must be finite and >= 0, is -1", id="no price"),
        pytest.param(["lean.toml", *ASKED, "--price", "nan"], "--price: must be finite and >= 0, is nan", id="a NaN"),
    ],
)
def test_what_cannot_be_backtested_costs_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    (folder / "other.toml").write_text(POLICY % ("api", 60))
    (folder / "many.toml").write_text(
        (POLICY % ("web", 60)).replace(
            'workload = { namespace = "shop", name = "web" }', 'select = { namespaces = ["shop"] }'
        )
    )
    assert called(capsys, "backtest", *arguments) == (78, "", f"{problem}\n")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        pytest.param(
            "4000000000,cpu,pod,shop/web-0,0.3,60",
            "must cover at most 366 days, covers 25782, from 1772438400 to 4000000000 s since the epoch",
            id="a time that is mistyped",
        ),
        pytest.param(
            "1e300,cpu,pod,shop/web-0,0.3,60",
            "must cover at most 366 days, covers 1.15741e+295, from 1772438400 to 1e+300 s since the epoch",
            id="a time beyond all dates",
        ),
        pytest.param(
            f"{BEGUN},cpu,pod,shop/web-8,1e308,60\n{BEGUN},cpu,pod,shop/web-9,1e308,60",
            'must have a finite sum of "shop/web-*" in series cpu, has none at 1772438400',
            id="a sum beyond all numbers",
        ),
    ],
)
def test_a_row_that_nobody_can_mean_costs_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], row: str, problem: str
) -> None:
    with (folder / "recording.csv").open("a") as file:
        file.write(f"{row}\n")
    assert called(capsys, "backtest", "lean.toml", *ASKED) == (78, "", f"recording.csv: {problem}\n")


def test_a_recording_without_a_usable_value_costs_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "recording.csv").write_text(rows(20, {0: 2}).replace(",0.3,", ",-0.3,"))
    problem = "recording.csv: must have a usable value of series cpu, finite and >= 0, has none"
    assert called(capsys, "backtest", "lean.toml", *ASKED) == (78, "", f"{problem}\n")
