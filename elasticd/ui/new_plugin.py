"""A new plugin, written as a complete package: its module, a test that passes, pyproject.toml and README.

Knows templates and names; knows nothing of what is installed but which names are taken.
"""

import re
from pathlib import Path
from string import Template
from typing import NamedTuple

from elasticd.api import API_VERSION
from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.text import one_line
from elasticd.registry import Registry

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_PREFIX = "elasticd-"


class _Kind(NamedTuple):
    """The text of a module and of its test, the TOML table that uses it, and what else it needs."""

    module: str
    test: str
    usage: str


def write_plugin(name: str, kind: str, registry: Registry, folder: Path) -> Path:
    """Write a package for a plugin of this name and kind into a new folder NAME of this one, and return that. Raises
    ConfigError for a name that cannot be, UnavailableError where the folder is there already or cannot be written."""
    tag = name.removeprefix(_PREFIX)
    _check_name(name, tag, registry)
    words = tag.split("-")
    place = folder / name
    known = {
        "tag": tag,
        "module": "_".join(["elasticd", *words]),
        "title": "".join(word.capitalize() for word in words),
        "version": API_VERSION,
    }
    files = {path: Template(text).substitute(known) for path, text in _files(KINDS[kind], known["module"]).items()}
    try:
        place.mkdir()
        for path, text in files.items():
            (place / path).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UnavailableError(f"{place}: must be a new folder, is there already") from None
    except OSError as error:
        raise UnavailableError(f"{place}: must be writable, is not: {error.strerror}") from None
    return place


def _check_name(name: str, tag: str, registry: Registry) -> None:
    if len(name) > 63 or not _NAME.fullmatch(tag):
        shown = one_line(name)[:80]
        raise ConfigError("", "NAME", f'must be words of lowercase letters or digits, as queue-length, is "{shown}"')
    taken = tag in registry.strategies or tag in registry.sources or registry.modules.has_plugin(tag)
    if taken or tag == "plugins":  # the package of the bundled ones
        raise ConfigError("", "NAME", f'must be a new one, "{tag}" is taken')


def _files(kind: _Kind, module: str) -> dict[str, str]:
    return {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README.replace("USAGE", kind.usage),
        f"{module}.py": kind.module,
        f"test_{module}.py": kind.test,
    }


_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "elasticd-$tag"
version = "0.1"
requires-python = ">=3.11"
dependencies = ["elasticd"]

[project.entry-points.elasticd]
$tag = "$module"

[tool.setuptools]
py-modules = ["$module"]

[tool.pytest.ini_options]
testpaths = ["."]
"""

_README = """\
# elasticd-$tag

A plugin for elasticd. Try it with `python -m pytest`, in an environment that has elasticd and pytest.
Install it beside the daemon with `pip install .`; `elasticd plugins $tag` then shows its options. Use it:

```toml
USAGE
```
"""

_REGISTER = """

@hookimpl
def register_strategies() -> list[type[Strategy]]:
    \"\"\"What this plugin brings.\"\"\"
    return [$title]
"""

_STRATEGY = _Kind(
    '''\
"""One replica for so much of a series."""

from math import ceil
from typing import Annotated

from elasticd.api import Meta, Observation, Recommendation, Strategy, hookimpl

ELASTICD_API = "$version"


class $title(Strategy, tag="$tag", frozen=True):
    """One replica for each `per_replica` of a series of the workload as a whole."""

    series: Annotated[str, Meta(description="its name")] = "queue_length"
    per_replica: Annotated[float, Meta(gt=0, description="of the series, for one replica")] = 10

    def reads(self) -> tuple[str, ...]:
        """The series that it looks at."""
        return (self.series,)

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        """As many as the series asks for; unknown, not 0, where it cannot be trusted."""
        known = observation.series[self.series]
        if not known.trusted:
            return Recommendation(None, "SeriesUnknown", known.message)
        total = sum(sample.value for sample in known.samples)
        return Recommendation(ceil(total / self.per_replica), "SeriesKnown", f"{self.series} is {total:g}")
'''
    + _REGISTER,
    '''\
"""What $tag recommends."""

import $module as plugin
from elasticd.testing import check_strategy, judge, observation, registry


def test_one_replica_for_each_ten() -> None:
    seen = observation([0.5], series={"queue_length": 60})
    assert judge(plugin.$title(), seen=seen).replicas == 6


def test_it_holds_what_it_cannot_know() -> None:
    assert judge(plugin.$title(), seen=observation([0.5, 0.5])).verdict == "hold"


def test_it_does_nothing_that_no_strategy_may() -> None:
    assert check_strategy(plugin.$title()) == []


def test_it_can_be_registered() -> None:
    assert list(registry(plugin).strategies) == ["$tag"]
''',
    '# policies/NAME.toml, beside workload and replicas\n[[strategy]]\ntype = "$tag"\nper_replica = 25',
)

_LIMIT = _Kind(
    '''\
"""A limit on how much a count grows in one look."""

from typing import Annotated

from elasticd.api import Limit, LimitStrategy, Meta, Observation, hookimpl

ELASTICD_API = "$version"


class $title(LimitStrategy, tag="$tag", frozen=True):
    """At most `step` replicas more than there are."""

    step: Annotated[int, Meta(ge=1, description="replicas")] = 4

    def reads(self) -> tuple[str, ...]:
        """No series."""
        return ()

    @hookimpl
    def limit(self, observation: Observation) -> Limit:
        """An interval that holds the current count."""
        highest = observation.workload.replicas + self.step
        return Limit("StepLimit", f"at most {self.step} more at once", highest=highest)
'''
    + _REGISTER.replace("Strategy", "LimitStrategy"),
    '''\
"""What $tag lets pass."""

import $module as plugin
from elasticd.api import Recommendation, Strategy, hookimpl
from elasticd.testing import check_strategy, judge, observation, registry


class Wants(Strategy, tag="wants", frozen=True):
    """Always the same count."""

    replicas: int

    @hookimpl
    def recommend_replicas(self) -> Recommendation:
        return Recommendation(self.replicas, "Wanted")


def test_a_count_grows_by_four_at_most() -> None:
    seen = observation([0.5, 0.5])
    assert judge(Wants(replicas=20), seen=seen, limits=[plugin.$title()]).replicas == 6


def test_what_is_near_is_reached() -> None:
    seen = observation([0.5, 0.5])
    assert judge(Wants(replicas=3), seen=seen, limits=[plugin.$title()]).replicas == 3


def test_it_does_nothing_that_no_limit_may() -> None:
    assert check_strategy(plugin.$title()) == []


def test_it_can_be_registered() -> None:
    assert list(registry(plugin).strategies) == ["$tag"]
''',
    '# policies/NAME.toml, beside workload, replicas and [[strategy]]\n[[limit]]\ntype = "$tag"\nstep = 2',
)

_SCORER = _Kind(
    '''\
"""A score for nodes: those with the greatest part of a resource left are best."""

from typing import Annotated

import numpy as np

from elasticd.api import Meta, Nodes, PoolStrategy, Scores, hookimpl

ELASTICD_API = "$version"


class $title(PoolStrategy, tag="$tag", frozen=True):
    """The part of a resource that no pod requests, from 0 to 1."""

    resource: Annotated[str, Meta(description="its name")] = "cpu"
    weight: Annotated[float, Meta(gt=0, description="beside other scores")] = 1.0

    def reads(self) -> tuple[str, ...]:
        """No series."""
        return ()

    @hookimpl
    def score_nodes(self, nodes: Nodes) -> Scores:
        """A column with a value for each node; NaN where a node has none of the resource."""
        has = nodes.allocatable(self.resource)
        unknown = np.full(len(nodes.names), np.nan)
        return Scores(np.divide(has - nodes.requested(self.resource), has, out=unknown, where=has > 0), self.weight)
'''
    + _REGISTER.replace("Strategy", "PoolStrategy"),
    '''\
"""Where $tag places pods."""

import $module as plugin
from elasticd.testing import check_strategy, judge_pods, node, node_table, pod, pool_observation, registry


def test_a_score_is_the_part_that_is_left() -> None:
    nodes = node_table([node("a", cpu=4), node("b", cpu=4)], pods=[pod("web", cpu=3, on="a")])
    assert plugin.$title().score_nodes(nodes).values.tolist() == [0.25, 1.0]


def test_a_pod_goes_where_most_is_left() -> None:
    nodes = node_table([node("a", cpu=4), node("b", cpu=4)], pods=[pod("web", cpu=3, on="a")])
    (decision,) = judge_pods(plugin.$title(), nodes=nodes, seen=pool_observation([pod("new")]))
    assert (decision.verdict, decision.node) == ("bind", "b")


def test_it_does_nothing_that_no_strategy_may() -> None:
    assert check_strategy(plugin.$title()) == []


def test_it_can_be_registered() -> None:
    assert list(registry(plugin).strategies) == ["$tag"]
''',
    '# policies/NAME.toml, beside [pool] and a strategy that filters nodes\n[[strategy]]\ntype = "$tag"\nweight = 2.0',
)

_SOURCE = _Kind(
    '''\
"""A source: a number that somebody writes into a file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from elasticd.api import Meta, Reader, Readings, Sample, Site, Source, hookimpl

ELASTICD_API = "$version"


class $title(Source, tag="$tag", frozen=True):
    """One series of one workload, read from a file that holds a number."""

    file: Annotated[str, Meta(description="its path")]
    workload: Annotated[str, Meta(description="NAMESPACE/KIND/NAME")]
    series: Annotated[str, Meta(description="what policies call it")] = "queue_length"

    def offers(self) -> tuple[str, ...]:
        """The series that it has."""
        return (self.series,)

    @asynccontextmanager
    async def open(self, site: Site) -> AsyncIterator[Reader]:
        """Nothing need be connected."""
        yield FileReader(self)


class FileReader:
    """Reads the file each time that it is asked."""

    def __init__(self, source: $title) -> None:
        self.source = source

    async def read(self, now: float) -> Readings:
        """The number; or an error, never 0 for what is not known."""
        source = self.source
        try:
            value = float(await asyncio.to_thread(Path(source.file).read_text))
        except (OSError, ValueError) as error:
            return Readings(source.label, now, error=f"{source.file}: {error}")
        sample = Sample(value, measured=now, received=now)
        return Readings(source.label, now, workloads={source.series: {source.workload: (sample,)}})


@hookimpl
def register_sources() -> list[type[Source]]:
    """What this plugin brings."""
    return [$title]
''',
    '''\
"""What $tag reads."""

import asyncio
from pathlib import Path

import $module as plugin
from elasticd.api import Readings
from elasticd.testing import registry, site

WORKLOAD = "shop/Deployment/mailer"


async def read(file: Path) -> Readings:
    async with plugin.$title(file=str(file), workload=WORKLOAD).open(site()) as reader:
        return await reader.read(0.0)


def test_a_number_is_a_sample(tmp_path: Path) -> None:
    file = tmp_path / "queue"
    file.write_text("60")
    (sample,) = asyncio.run(read(file)).workloads["queue_length"][WORKLOAD]
    assert sample.value == 60


def test_what_cannot_be_read_is_an_error_and_not_a_sample(tmp_path: Path) -> None:
    readings = asyncio.run(read(tmp_path / "none"))
    assert readings.error
    assert readings.workloads == {}


def test_it_can_be_registered() -> None:
    assert list(registry(plugin).sources) == ["$tag"]
''',
    '# elasticd.toml\n[[source]]\ntype = "$tag"\nfile = "/run/queue"\nworkload = "shop/Deployment/mailer"',
)

KINDS = {"strategy": _STRATEGY, "limit": _LIMIT, "source": _SOURCE, "scorer": _SCORER}
"""What can be written, by `--kind`."""
