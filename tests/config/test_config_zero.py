"""What may go to 0: only what something can bring back, as the API server has it for HPAs."""

from pathlib import Path

import pytest

from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.base.errors import ConfigError
from elasticd.config import load_policy
from elasticd.registry import discover
from elasticd.testing import registry as registry_of
from tests.kit.policies import load_workloads

REGISTRY = discover()
HEAD = 'workload = { namespace = "shop", name = "web" }\n'
CPU = '{ type = "hpa" }'
QUEUE = '{ type = "hpa", metrics = [{ type = "External", series = "queue", average_value = 9 }] }'
EVENT = '{{ type = "event", triggers = [{{ series = "{0}", average_value = 9 }}] }}'
OPENING = '{{ start = "0 9 * * *", duration = 28800, replicas = {0}, as = "{1}" }}'
HOURS = f'{{{{ type = "schedule", windows = [{OPENING}] }}}}'
STEP = '{ type = "step-tolerance" }'
FORECAST = '{ type = "forecast", series = "soon", target = 9 }'
NO_METRIC = "hpa has no Object or External metric"


def told(tmp_path: Path, strategies: tuple[str, ...], least: int = 0) -> str:
    """The line by which such a policy is refused, or an empty string."""
    path = tmp_path / "web.toml"
    path.write_text(f"{HEAD}replicas = {{ min = {least}, max = 9 }}\nstrategy = [{', '.join(strategies)}]\n")
    try:
        load_policy(path, REGISTRY)
    except ConfigError as error:
        return str(error).replace(f"{path}: ", "")
    return ""


@pytest.mark.parametrize(
    ("strategies", "why"),
    [
        pytest.param((CPU,), NO_METRIC, id="an hpa on cpu"),
        pytest.param((QUEUE.replace("External", "Pods"),), NO_METRIC, id="on a metric of pods"),
        pytest.param((CPU, '{ type = "cadence" }'), NO_METRIC, id="a cadence wakes nobody"),
        pytest.param((CPU, STEP), f"{NO_METRIC}; step-tolerance looks at pods alone", id="two that cannot know"),
        pytest.param(('{ type = "double-threshold", low = 20 }',), "double-threshold looks at pods alone", id="marks"),
        pytest.param(
            ('{ type = "burst", series = "cpu" }',), "burst looks at the cpu of pods alone", id="a burst of cpu"
        ),
        pytest.param((EVENT.format("cpu"),), "event has only triggers of what pods use", id="an event of cpu"),
        pytest.param((CPU, HOURS.format(0, "exact")), f"{NO_METRIC}; schedule never asks for more than 0", id="nights"),
        pytest.param((HOURS.format(3, "ceiling"),), "schedule never asks for more than 0", id="a ceiling alone"),
    ],
)
def test_minimum_of_zero_that_nothing_could_wake_is_refused(
    tmp_path: Path, strategies: tuple[str, ...], why: str
) -> None:
    assert told(tmp_path, strategies) == f"replicas.min: must be >= 1, as nothing could wake it from 0: {why}; is 0"
    assert "wake" not in told(tmp_path, strategies, least=1)


@pytest.mark.parametrize(
    "strategies",
    [
        pytest.param((QUEUE,), id="an hpa with an external metric"),
        pytest.param((QUEUE.replace("External", "Object"),), id="with one of an object"),
        pytest.param((CPU, QUEUE), id="beside one that cannot know"),
        pytest.param((CPU, EVENT.format("orders")), id="an event wakes an hpa on cpu"),
        pytest.param((CPU, HOURS.format(3, "floor")), id="so does a schedule"),
        pytest.param((CPU, HOURS.format(0, "exact").replace("windows", "default = 2, windows")), id="and its default"),
        pytest.param((CPU, FORECAST), id="and a forecast"),
        pytest.param(('{ type = "burst", series = "in_flight" }',), id="a burst of a series of the workload"),
        pytest.param(('{ type = "vertical" }',), id="who is not about the count puts nothing to sleep"),
    ],
)
def test_what_something_can_wake_may_go_to_zero(tmp_path: Path, strategies: tuple[str, ...]) -> None:
    assert told(tmp_path, strategies) == ""


def test_of_a_set_of_jobs_zero_is_no_sleep(tmp_path: Path) -> None:
    path = tmp_path / "web.toml"
    pod = '{ spec = { restartPolicy = "Never", containers = [{ name = "c", image = "i" }] } }'
    about = 'apiVersion = "batch/v1", kind = "Job"'
    path.write_text(
        f'job = {{ namespace = "shop", name = "web", template = {{ {about}, spec = {{ template = {pod} }} }} }}\n'
        f"replicas = {{ max = 9 }}\nstrategy = [{CPU}]\n"
    )
    assert load_workloads(path, REGISTRY).replicas.min == 0


def test_a_plugin_that_cannot_say_it_is_named(tmp_path: Path) -> None:
    class Broken(Strategy, tag="broken", frozen=True):
        def sleeps(self) -> str:
            raise ZeroDivisionError("oops")

        @hookimpl
        def recommend_replicas(self) -> Recommendation:
            return Recommendation(1, "Broken")

    class Plugin:
        @hookimpl
        def register_strategies(self) -> list[type[Strategy]]:
            return [Broken]

    path = tmp_path / "web.toml"
    path.write_text(f'{HEAD}replicas = {{ min = 0, max = 9 }}\nstrategy = [{{ type = "broken" }}]\n')
    with pytest.raises(ConfigError, match=r"^\S+: replicas.min: must have .* broken raised ZeroDivisionError: oops$"):
        load_policy(path, registry_of(Plugin()))


def test_plugin_that_declares_nothing_is_assumed_to_work_at_zero(tmp_path: Path) -> None:
    class Own(Strategy, tag="own", frozen=True):
        @hookimpl
        def recommend_replicas(self) -> Recommendation:
            return Recommendation(1, "Own")

    class Plugin:
        @hookimpl
        def register_strategies(self) -> list[type[Strategy]]:
            return [Own]

    path = tmp_path / "web.toml"
    path.write_text(f'{HEAD}replicas = {{ min = 0, max = 9 }}\nstrategy = [{{ type = "own" }}]\n')
    assert load_workloads(path, registry_of(Plugin())).replicas.min == 0
