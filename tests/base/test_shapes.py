"""What pages and commands give a machine: one shape for each thing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct, inspect

from elasticd.base.shapes import TIMES, encode, moment
from elasticd.model.placement import PodDecision, PodOutcome
from elasticd.model.records import Decision
from elasticd.model.reports import Held, NodeView, PodStatus, PoolReport, StatusReport
from elasticd.model.workload import Quality, Sample, Series
from elasticd.sources.poller import SourceReport
from elasticd.testing import NOW
from elasticd.ui.remote import InFlight, QueryReply
from tests.kit.daemons import Daemon, called, daemon, policy
from tests.kit.records import decision

AMOUNTS = {
    *("age", "benefit", "correlation", "disruption", "error", "intercept", "interval", "period", "quantile", "recall"),
    *("resolution", "score", "seconds", "skill", "slope", "step", "total", "value", "window"),
}
"""The fields of records that are numbers and no times: seconds that last, cores, bytes, scores."""

SHOWN = (
    StatusReport,
    SourceReport,
    QueryReply,
    PoolReport,
    NodeView,
    InFlight,
    PodStatus,
    PodDecision,
    PodOutcome,
    Held,
    Decision,
)


def shown(value: object) -> Any:
    return json.loads(encode(value))


def test_times_are_rfc_3339_and_none_is_null() -> None:
    series = Series("cpu", "meter", Quality.EMPTY)
    assert shown(decision(NOW))["at"] == "2023-11-14T22:13:20.000Z"
    assert shown({"measured": series.measured, "since": NOW + 0.25}) == {
        "measured": None,
        "since": "2023-11-14T22:13:20.250Z",
    }


@pytest.mark.parametrize("at", [0.0, -1.0, 1e308, float("nan"), float("inf")])
def test_what_is_no_time_is_null(at: float) -> None:
    assert moment(at) is None


def test_samples_have_names() -> None:
    assert shown(Sample(0.5, NOW, NOW + 1, 15.0, "web-0", "web")) == {
        "value": 0.5,
        "measured": "2023-11-14T22:13:20.000Z",
        "received": "2023-11-14T22:13:21.000Z",
        "window": 15.0,
        "pod": "web-0",
        "container": "web",
    }


def test_all_else_is_as_in_the_journal() -> None:
    made = decision(NOW, series=())
    as_written = json.loads(msgspec.json.encode(made))
    as_shown = shown(made)
    assert as_shown.pop("at") != as_written.pop("at")
    assert as_shown == as_written


def numbers(kind: inspect.Type, known: set[type]) -> Iterator[str]:
    """The fields of this type, and of those in it, that may be floats."""
    match kind:
        case inspect.StructType() if kind.cls not in known:
            known.add(kind.cls)
            for field in kind.fields:
                inner = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
                if any(isinstance(one, inspect.FloatType) for one in inner):
                    yield field.name
                yield from numbers(field.type, known)
        case inspect.UnionType():
            for one in kind.types:
                yield from numbers(one, known)
        case inspect.DictType():
            yield from numbers(kind.value_type, known)
        case inspect.VarTupleType() | inspect.ListType():
            yield from numbers(kind.item_type, known)
        case _:
            pass


@pytest.mark.parametrize("kind", SHOWN)
def test_every_number_field_is_declared_a_time_or_an_amount(kind: type[Struct]) -> None:
    assert {*numbers(inspect.type_info(kind), set())} - TIMES - AMOUNTS == set()
    assert not TIMES & AMOUNTS


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Path]]:
    """A daemon that observes, so that it stands still, and settings by which commands find it."""
    with daemon(tmp_path_factory.mktemp("shapes"), web=policy().replace('"act"', '"observe"')) as started:
        started.decision()
        settings = started.folder / "elasticd.toml"
        port = started.address.rpartition(":")[2]
        settings.write_text(settings.read_text().replace("port = 0", f"port = {port}"))
        yield started, settings


@pytest.mark.parametrize(
    ("command", "page"),
    [
        pytest.param(["status"], "/status", id="status"),
        pytest.param(["sources"], "/sources", id="sources"),
        pytest.param(
            ["query", "queue", "shop/Deployment/web"], "/query?series=queue&workload=shop/Deployment/web", id="query"
        ),
        pytest.param(["nodes"], "/nodes", id="nodes"),
    ],
)
def test_a_command_and_its_page_give_the_same(
    capsys: pytest.CaptureFixture[str], running: tuple[Daemon, Path], command: list[str], page: str
) -> None:
    started, settings = running
    code, out, _ = called(capsys, *command, "--config", settings, "--json")
    assert (code, kinds(json.loads(out))) == (0, kinds(json.loads(started.get(page))))


def test_moves_adds_what_is_held_back_to_its_page(
    capsys: pytest.CaptureFixture[str], running: tuple[Daemon, Path]
) -> None:
    started, settings = running
    given = json.loads(called(capsys, "moves", "--config", settings, "--json")[1])
    assert given == {**json.loads(started.get("/moves")), "held_back": []}


@pytest.mark.slow
def test_explain_gives_a_decision_as_status_does(
    capsys: pytest.CaptureFixture[str], running: tuple[Daemon, Path]
) -> None:
    started, settings = running
    explained = json.loads(called(capsys, "explain", "shop/Deployment/web", "--config", settings, "--json")[1])
    assert kinds(explained["decision"]) == kinds(started.decision())
    assert kinds(explained["decision"]["series"][0]["samples"][0])["measured"] == "time"


def kinds(value: Any) -> Any:
    """What stands where: of a record the kind of each field, of a list that of its first."""
    if isinstance(value, dict):
        return {key: kinds(one) for key, one in value.items()}
    if isinstance(value, list):
        return [kinds(one) for one in value[:1]]
    if isinstance(value, str):
        return "time" if value.endswith("Z") and value[:2] == "20" else "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
