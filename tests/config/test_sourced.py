"""What policies want of sources that the settings do not have is refused, as far as sources can say what they have."""

from pathlib import Path
from types import ModuleType

import pytest

from elasticd.api import hookimpl
from elasticd.config import load_settings
from elasticd.config.reading import read_policies
from elasticd.ports.source import Source
from elasticd.registry import discover


class Anything(Source, tag="anything", frozen=True):
    """Cannot say what it has."""


REGISTRY = discover()
plugin = ModuleType("anything")
vars(plugin)["register_sources"] = hookimpl(lambda: [Anything])
REGISTRY.add("anything", plugin)
WEB = '[workload]\nnamespace = "shop"\nname = "web"\n[replicas]\nmax = 5\n'
RATE = '[[strategy]]\ntype = "hpa"\nmetrics = [{ type = "Pods", series = "requests", average_value = 10 }]\n'
METRICS = '[[source]]\ntype = "resource-metrics"\n'
PROMETHEUS = '[[source]]\ntype = "prometheus"\nurl = "http://127.0.0.1:1"\n'
REQUESTS = (
    PROMETHEUS
    + '[[source.series]]\nname = "requests"\nquery = "sum(x)"\nsubject = "workload"\nlabels = { workload = "name" }\n'
)
RULES = '[[source]]\ntype = "anything"\n'
AHEAD = '[[strategy]]\ntype = "forecast"\nseries = "requests_forecast"\ntarget = 10\n'
FORECAST = '[[source]]\ntype = "forecast"\nof = "journal"\nseries = "requests"\n'
SIMULATED = '[cluster]\ntype = "simulated"\nnodes = [{ name = "a", cpu = "1", memory = "1Gi" }]\n'
SERIES = "strategy[0].metrics[0].series:"
MEANT = 'is "request", did you mean "requests"?'
NIGHT = '[[strategy]]\ntype = "schedule"\nwindows = [{ start = "0 1 * * *", duration = 60, replicas = 3 }]\n'
VERTICAL = '[[strategy]]\ntype = "vertical"\n'
HISTOGRAM = METRICS + '[[source]]\ntype = "usage-histogram"\n'
CPU = '[[strategy]]\ntype = "hpa"\n'


def told(tmp_path: Path, settings: str, policy: str) -> list[str]:
    """The lines by which a policy is refused beside these settings."""
    (tmp_path / "elasticd.toml").write_text(settings)
    folder = tmp_path / "policies"
    folder.mkdir(exist_ok=True)
    (folder / "p.toml").write_text(WEB + policy)
    errors = read_policies(folder, REGISTRY, load_settings(tmp_path / "elasticd.toml", REGISTRY))[1]
    return [str(error).removeprefix(f"{folder}/p.toml: ") for error in errors]


@pytest.mark.parametrize(
    ("settings", "policy", "lines"),
    [
        pytest.param("", CPU, [], id="the usual source has cpu"),
        pytest.param(
            "",
            RATE,
            [f'{SERIES} must be a series of resource-metrics (cpu, memory), is "requests"'],
            id="the usual source has cpu and memory alone",
        ),
        pytest.param(SIMULATED, RATE, [], id="a simulated cluster may have any"),
        pytest.param(METRICS + REQUESTS, RATE, [], id="one of them has it"),
        pytest.param(
            METRICS + REQUESTS,
            RATE.replace("requests", "request"),
            [
                f'{SERIES} must be a series of resource-metrics, prometheus (cpu, memory, requests), {MEANT}'
            ],
            id="a misspelt one",
        ),
        pytest.param(
            METRICS + REQUESTS,
            RATE + '[trust]\nsources = ["resource-metrics"]\n',
            [f'{SERIES} must be a series of resource-metrics (cpu, memory), is "requests"'],
            id="not the one that is trusted",
        ),
        pytest.param(METRICS + RULES, RATE, [], id="one that cannot say"),
        pytest.param(
            "source = []\n",
            CPU,
            [
                ('strategy[0].metrics[0].resource: must be a series, of which elasticd.toml has no source, is "cpu"; '
 'a source of type kubelet or resource-metrics has it')
            ],
            id="no source at all",
        ),
        pytest.param("source = []\n", NIGHT, [], id="who reads none needs none"),
        pytest.param(
            "",
            CPU + '[[limit]]\ntype = "staged"\nguards = [{ series = "errors", above = 1 }]\n',
            ['limit[0].guards[0].series: must be a series of resource-metrics (cpu, memory), is "errors"'],
            id="of a limit",
        ),
        pytest.param(
            "",
            '[[strategy]]\ntype = "vertical"\n',
            [
                f'strategy[0]: must be a series of resource-metrics (cpu, memory), reads "{name}"; '
                "a source of type usage-histogram has it"
                for name in ("cpu_p95", "memory_p98")
            ],
            id="vertical without its source",
        ),
        pytest.param(HISTOGRAM, VERTICAL, [], id="vertical with it"),
        pytest.param(METRICS + REQUESTS + FORECAST, RATE + AHEAD, [], id="a forecast of its source"),
        pytest.param(
            METRICS + REQUESTS,
            RATE + AHEAD,
            [
                'strategy[1].series: must be a forecast, of which elasticd.toml has no source, is "requests_forecast"'
            ],
            id="a forecast without a source of any",
        ),
        pytest.param(
            METRICS + REQUESTS + FORECAST,
            RATE + AHEAD.replace("requests_forecast", "requests"),
            [
                'strategy[1].series: must be a forecast of forecast (requests_forecast), is "requests"'
            ],
            id="the load itself for a forecast of it",
        ),
        pytest.param(
            SIMULATED + METRICS,
            AHEAD,
            [
                'strategy[0].series: must be a forecast, of which elasticd.toml has no source, is "requests_forecast"'
            ],
            id="a simulated cluster has no forecasts",
        ),
        pytest.param(
            METRICS,
            RATE + '[trust]\nsources = ["prom"]\n',
            ['trust.sources[0]: must be one of resource-metrics, is "prom"'],
            id="a source that is not there says it all",
        ),
    ],
)  # fmt: skip
def test_a_series_that_no_source_has_is_refused(tmp_path: Path, settings: str, policy: str, lines: list[str]) -> None:
    assert told(tmp_path, settings, policy) == lines
