"""A simulated `hpa` beside the genuine HPA controller, under the load that was recorded of it.

The recording is of tests/kube/test_parity.py on Kubernetes 1.36.2: what the pods used of two Deployments that the
genuine controller scaled, one with its default behavior and one with another, by `elasticd record --journal`.
"""

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from elasticd.lab.backtest import Options, load_backtest
from elasticd.lab.scenario import play_all
from elasticd.registry import discover
from tests.kit.daemons import called
from tests.kube.test_parity import BEHAVIOR, ELASTICD_BEHAVIOR, PERIOD, POLICY, autoscaler, imported

RECORDED = Path(__file__).parent / "recordings" / "hpa-1.36.csv.xz"
GENUINE = {
    "legacy": [3, 6, 11, 20, 6, 2, 4, 8, 4, 8, 12, 10, 2, 1],
    "behavior": [3, 6, 9, 11, 14, 17, 20, 10, 6, 3, 2, 5, 8, 4, 7, 10, 12, 10, 5, 2, 1],
}
"""The counts that the genuine controller set, as the test saw them by a watch."""


SECOND = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "60m"}}}
"""A second metric, which never asks for more than the first: half of 100m."""


def by_hand(name: str) -> str:
    """The policy of a twin as a person writes it."""
    text = POLICY.format(namespace="default", name=f"hpa-{name}", rules="current") + f"period = {PERIOD}\n"
    return text + (ELASTICD_BEHAVIOR if name == "behavior" else "")


def by_import(name: str) -> str:
    """The policy that `elasticd import` makes of the HPA, which has two metrics."""
    hpa = autoscaler(f"hpa-{name}", BEHAVIOR if name == "behavior" else None)
    hpa["spec"]["metrics"] = [hpa["spec"]["metrics"][0], SECOND]
    return imported(hpa)


def write_policies(folder: Path) -> list[Path]:
    """Three policies for the twin with the default behavior."""
    head = 'workload = { namespace = "default", name = "hpa-legacy" }\nreplicas = { min = 1, max = 20 }\n[[strategy]]\n'
    strategies = {
        "hpa": 'metrics = [{ type = "Resource", resource = "cpu", utilization = 50 }]',
        "double-threshold": 'series = "cpu"\nlow = 30\nhigh = 65',
        "step-tolerance": "target = 50",
    }
    places = {folder / f"{name}.toml": f'{head}type = "{name}"\n{options}\n' for name, options in strategies.items()}
    for place, text in places.items():
        place.write_text(text)
    return [*places]


@pytest.mark.slow
@pytest.mark.parametrize("resolution", [5.0, 15.0])
@pytest.mark.parametrize("policy", [by_hand, by_import])
@pytest.mark.parametrize("name", GENUINE)
def test_simulated_counts_are_those_of_the_genuine_controller(
    tmp_path: Path, name: str, policy: Callable[[str], str], resolution: float
) -> None:
    recording, file = tmp_path / "hpa.csv", tmp_path / "hpa.toml"
    recording.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    file.write_text(policy(name))
    options = Options(cpu="100m", start_seconds=1.0, resolution=resolution)
    scenario = load_backtest(recording, [file], discover(), options).scenario
    cluster = replace(scenario.cluster, metrics=replace(scenario.cluster.metrics, noise=0.0))
    ((run,),) = play_all(replace(scenario, cluster=cluster), lambda name, seconds: None).values()
    (changes,) = run.changes.values()
    assert [changes[0].before, *(change.after for change in changes)] == GENUINE[name]


@pytest.mark.slow
def test_the_report_says_which_policy_to_take_for_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, report = tmp_path / "hpa.csv", tmp_path / "report.html"
    recording.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    places = write_policies(tmp_path)
    words = ("--recording", recording, "--cpu", "100m", "--start-seconds", "5", "--unserved", "1", "--report", report)
    assert called(capsys, "backtest", *places, *words, "--jobs", "1")[0] == 0
    assert "Take step-tolerance." in report.read_text()
