"""`--dask`: the same runs on the workers of a genuine Dask scheduler, one of which is killed on the way."""

import importlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import create_server

import pytest

from elasticd.base.errors import UnavailableError
from elasticd.lab import scenario as lab_scenario
from elasticd.lab.scenario import Scenario, changed, load_scenario, play_all
from elasticd.registry import discover
from tests.kit.daemons import called

SCENARIO = """
policies = "lean.toml"
state = "state"

[[source]]
type = "resource-metrics"

[cluster]
type = "simulated"
nodes = [{ name = "node", cpu = "64", memory = "64Gi" }]
metrics = { resolution = 15, noise = 0.05 }

[[cluster.workloads]]
namespace = "shop"
name = "web"
replicas = 2
cpu = "500m"
demand = { formula = "2 + sin(t / 600)" }

[scenario]
hours = 3
seeds = 4
"""
POLICY = """
workload = {{ namespace = "shop", name = "web" }}
replicas = {{ min = 1, max = 10 }}

[[strategy]]
type = "hpa"
metrics = [{{ type = "Resource", resource = "cpu", utilization = {target} }}]
"""
DASK = str(Path(sys.executable).with_name("dask"))


@contextmanager
def program(folder: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Dask, that writes into this folder."""
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([DASK, *map(str, words)], cwd=folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


class Fleet:
    """A scheduler, and three workers of a thread each, by name."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        place = folder / "scheduler.json"
        both = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", place)
        self.scheduler = stack.enter_context(program(folder / "scheduler", "scheduler", "--port", 0, *both))
        self.workers = {}
        for name in ("one", "two", "three"):
            worker = program(folder / name, "worker", "--nthreads", 1, "--no-nanny", "--name", name, *both)
            self.workers[name] = stack.enter_context(worker)
        distributed = importlib.import_module("distributed")  # half a second, for those tests that need it
        self.client = stack.enter_context(distributed.Client(scheduler_file=str(place), set_as_default=False))
        self.client.wait_for_workers(3, timeout=50)
        self.address: str = self.client.scheduler.address

    def busy(self) -> str:
        """A worker that plays."""
        (name, *_) = [
            worker["name"]
            for address, worker in self.client.scheduler_info(n_workers=-1)["workers"].items()
            if self.client.processing([address])[address]
        ]
        return str(name)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """Two policies with four seeds each."""
    (tmp_path / "elasticd.toml").write_text(SCENARIO)
    places = [tmp_path / f"{name}.toml" for name in ("lean", "roomy")]
    for place, target in zip(places, (80, 40), strict=True):
        place.write_text(POLICY.format(target=target))
    return load_scenario(tmp_path / "elasticd.toml", discover(), places)


@pytest.mark.slow
def test_a_killed_worker_changes_no_byte(fleet: Fleet, scenario: Scenario) -> None:
    killed: list[str] = []

    def kill(*_: object) -> None:
        if not killed:
            killed.append(fleet.busy())
            fleet.workers[killed[0]].send_signal(signal.SIGKILL)

    played = play_all(scenario, kill, dask=fleet.address)
    left = {worker["name"] for worker in fleet.client.scheduler_info(n_workers=-1)["workers"].values()}
    assert left == fleet.workers.keys() - {*killed}
    assert repr(played) == repr(play_all(scenario, lambda *_: None, jobs=2))


@pytest.mark.slow
def test_output_on_a_fleet_is_the_same(
    fleet: Fleet, scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [tmp_path / "lean.toml", tmp_path / "roomy.toml"]
    words = ("simulate", tmp_path / "elasticd.toml", "--policies", *places, "--json", "--out")
    by_jobs = called(capsys, *words, tmp_path / "jobs.csv", "--jobs", "2")
    by_dask = called(capsys, *words, tmp_path / "dask.csv", "--dask", fleet.address)
    assert by_jobs[0] == 0
    assert by_dask == by_jobs
    assert (tmp_path / "dask.csv").read_bytes() == (tmp_path / "jobs.csv").read_bytes()


@pytest.mark.slow
def test_progress_moves_within_a_run(fleet: Fleet, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_scenario, "LOOK", 0.02)
    hours = 100
    passed: dict[str, list[float]] = {}
    play_all(
        changed(scenario, {"hours": hours, "seeds": 1}),
        lambda name, seconds: passed.setdefault(name, []).append(seconds),
        dask=fleet.address,
    )
    assert {name: sum(steps) for name, steps in passed.items()} == dict.fromkeys(("lean", "roomy"), hours * 3600)
    assert min(len(steps) for steps in passed.values()) > 1


@pytest.mark.slow
def test_a_killed_scheduler_costs_one_line(fleet: Fleet, scenario: Scenario) -> None:
    def kill(*_: object) -> None:
        fleet.scheduler.send_signal(signal.SIGKILL)

    with pytest.raises(UnavailableError, match="--dask: a run could not be played: "):
        play_all(scenario, kill, dask=fleet.address)


@contextmanager
def listening() -> Iterator[str]:
    """The address of a port at which nobody answers."""
    with create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_an_unreachable_scheduler_costs_one_line(
    scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elasticd.lab.fleet.SECONDS", 0.2)
    with listening() as silent:
        pass
    assert called(capsys, "simulate", tmp_path / "elasticd.toml", "--dask", silent) == (
        69,
        "",
        f"--dask: no scheduler at {silent}: Timed out trying to connect to {silent} after 0.2 s\n",
    )


@pytest.mark.slow
def test_a_server_without_dask_costs_one_line(
    scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elasticd.lab.fleet.SECONDS", 0.2)
    with listening() as silent:
        code, out, err = called(capsys, "simulate", tmp_path / "elasticd.toml", "--dask", silent)
    assert (code, out, err) == (69, "", f"--dask: no scheduler at {silent}: no answer within 0.2 s\n")


@pytest.mark.slow
def test_what_is_no_address_costs_one_line(
    scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = "--dask: must be as tcp://HOST:8786, is not: missing port number in address 'somewhere'\n"
    assert called(capsys, "simulate", tmp_path / "elasticd.toml", "--dask", "somewhere") == (78, "", problem)


def test_without_dask_the_extra_is_named(
    scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    problem = "--dask: needs Dask, which is not installed: pip install elasticd[fleet]\n"
    assert called(capsys, "simulate", tmp_path / "elasticd.toml", "--dask", "tcp://127.0.0.1:1") == (69, "", problem)
