"""`elasticd replay`: the decisions of a journal, made again."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.journal import Journal, Record, read
from elasticd.journal.lines import write_line
from elasticd.kit.surge import SURGE, Note
from elasticd.lab.replay.again import Came, Replay, Summary, summary
from elasticd.model.actions import Scale
from elasticd.model.disruption import PolicyCaps
from elasticd.model.policy import Policy
from elasticd.model.records import Basis, Decision, Reopened
from elasticd.registry import Registry, discover
from elasticd_plugins.event import Event
from elasticd_plugins.event.triggers import Trigger
from elasticd_plugins.hpa import Hpa
from elasticd_plugins.hpa.options import External
from tests.decisions.scenes import SCENES
from tests.kit.daemons import called
from tests.kit.loops import WEB, Play, policy

REGISTRY = discover()


def again(records: list[Record], registry: Registry = REGISTRY, *, dropped: bool = False) -> Summary:
    return summary(Replay(registry, dropped=dropped).all(records))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of the demo's first five minutes."""
    folder = tmp_path_factory.mktemp("demo")
    SCENES["demo"](REGISTRY, state=folder)
    return folder


SLOW = pytest.mark.slow
ALL = [pytest.param(name, marks=() if name == "demo" else SLOW) for name in SCENES]


@pytest.mark.parametrize("scene", ALL)
def test_every_decision_comes_out_the_same(scene: str, tmp_path: Path) -> None:
    heard = SCENES[scene](REGISTRY, state=tmp_path)
    found = again(list(read(tmp_path)))
    assert found.differences == []
    assert found.came.keys() <= {"same", "not asked"}
    assert found.decisions == sum(isinstance(record, Decision) for record in heard.records)


@pytest.mark.parametrize(
    "scene", [pytest.param("demo"), *(pytest.param(name, marks=SLOW) for name in ("examples", "broken"))]
)
def test_what_decisions_are_made_from_takes_little_room(scene: str, tmp_path: Path) -> None:
    SCENES[scene](REGISTRY, state=tmp_path)
    whole, without = bytearray(), bytearray()
    for record in read(tmp_path):
        write_line(record, whole)
        if not isinstance(record, Basis):
            write_line(replace(record, confirmed=None) if isinstance(record, Decision) else record, without)
    assert len(without) < len(whole) < 1.2 * len(without)


def test_a_decision_that_was_changed_comes_out_otherwise(demo: Path) -> None:
    records = list(read(demo))
    index, last = [
        (index, record) for index, record in enumerate(records) if isinstance(record, Decision) and record.wish
    ][-1]
    records[index] = replace(last, replicas=last.replicas + 1)
    found = again(records)
    assert [difference.first.decision for difference in found.differences] == [records[index]]
    assert [difference.first.made for difference in found.differences] == [last]


def _without(demo: Path, kind: type[Record]) -> list[Record]:
    return [record for record in read(demo) if not isinstance(record, kind)]


def test_without_what_they_were_made_from_decisions_are_unknown(demo: Path) -> None:
    found = again(_without(demo, Basis))
    assert ([*found.came], found.differences) == (["not known"], [])


def test_without_a_line_of_parts_later_changes_are_unknown(demo: Path) -> None:
    records, found = list(read(demo)), Summary()
    for index, record in enumerate(records):
        if isinstance(record, Basis) and any(b'"uid"' in bytes(fields) for fields in record.fields.values()):
            found = again([*records[:index], *records[index + 1 :]])
            break
    assert found.came["not known"] > 0
    assert found.decisions == again(records).decisions


def test_a_part_that_is_gone_is_not_seen_later(demo: Path) -> None:
    records = list(read(demo))
    gone = [
        record for record in records if isinstance(record, Basis) and any(name[:4] == "pod/" for name in record.gone)
    ]
    kept = [replace(record, gone=()) if record in gone else record for record in records]
    assert gone
    assert again(kept).differences


@pytest.mark.parametrize(
    ("dropped", "came"),
    [pytest.param(True, "not known", id="dropped"), pytest.param(False, "otherwise", id="never there")],
)
def test_what_older_segments_said_is_missed(demo: Path, *, dropped: bool, came: Came) -> None:
    records = list(read(demo))
    half = records[len(records) // 2].at
    later = [record for record in records if isinstance(record, Basis) or record.at >= half]
    found = again(later, dropped=dropped)
    assert found.came["same"] > 0
    assert found.came.keys() == {"same", came}


async def test_a_first_decision_during_a_surge_comes_out_again(tmp_path: Path) -> None:
    """The history then begins with the count without the replica that the surge has added."""
    hpa = Hpa(metrics=(External(series="load", average_value=1.0),))
    play = Play(policy("p", hpa), folder=tmp_path, web=2)
    note = msgspec.json.encode(Note("web-1", "uid-1", "a", 4, "wait", 0.0, 300.0)).decode()
    play.cluster.has[WEB] = replace(
        play.cluster.has[WEB], replicas=5, status_replicas=5, selector="app=web", annotations={SURGE: note}
    )
    await play.to(5)
    play.journal.close()
    assert play.made
    assert again(list(read(tmp_path))).came == {"same": len(play.made)}


def test_a_daemon_that_begins_to_lead_begins_a_history(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.reopen(5.0)
    journal.close()
    assert list(read(tmp_path)) == [Reopened(5.0)]


def test_a_policy_of_a_plugin_that_is_gone_is_told(demo: Path) -> None:
    bare = discover()
    del bare.strategies["hpa"]
    found = again(list(read(demo)), bare)
    assert found.differences == []
    assert any("strategy[0].type: must be one of" in why for why in found.why), found.why


POLICY = """
workload = { namespace = "shop", name = "checkout" }
replicas = { min = %d, max = 20 }

[[strategy]]
type = "hpa"
metrics = [{ type = "%s", %s }]
"""
CPU = ("Resource", 'resource = "cpu", utilization = 30')
QUEUE = ("External", 'series = "never_read", value = 5')


def _replay(capsys: pytest.CaptureFixture[str], demo: Path, *options: object) -> tuple[int, list[str], str]:
    code, out, err = called(capsys, "replay", "--state", demo, *options)
    return code, [" ".join(line.split()) for line in out.splitlines()], err


def test_replay_says_that_all_came_out_the_same(capsys: pytest.CaptureFixture[str], demo: Path) -> None:
    code, lines, err = _replay(capsys, demo)
    assert (code, err) == (0, "")
    assert lines[0].startswith("1088 decisions about 8 workloads, 2023-11-14T22:14:00.000Z to 2023-")
    assert lines[1:] == ["1088 came out the same", "0 came out otherwise"]


def test_replay_of_one_workload_by_another_policy(
    capsys: pytest.CaptureFixture[str], demo: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "eager.toml"
    policy.write_text(POLICY % (1, *CPU))
    code, lines, err = _replay(capsys, demo, "shop/Deployment/checkout", "--policy", policy)
    assert (code, err) == (0, "")
    assert lines[0].startswith(f"{int(lines[1].split()[0]) + int(lines[2].split()[0])} decisions about 1 workload, ")
    assert lines[1].endswith("came out the same by eager")
    assert lines[2].endswith("came out otherwise by eager")
    assert lines[4].split() == ["at", "for", "workload", "policy", "was", "again", "why"]
    assert "shop/Deployment/checkout" in lines[5]


def test_a_fall_that_an_older_version_recorded_is_the_same(demo: Path) -> None:
    """It did not write down how many pods were counted."""

    def older(record: Record) -> Record:
        if isinstance(record, Decision) and isinstance(record.action, Scale):
            return replace(record, action=replace(record.action, counted=None))
        return record

    records = list(map(older, read(demo)))
    assert records != list(read(demo))
    assert again(records).differences == []


@pytest.mark.parametrize(
    ("average", "after"), [pytest.param(2.0, 4, id="a fall"), pytest.param(0.5, 16, id="a growth")]
)
async def test_another_policy_falls_although_the_recorded_wanted_more(
    tmp_path: Path, average: float, after: int
) -> None:
    """A fall waits for 3 s, and by the recorded policy's wishes it would wait for good."""

    def of(average: float) -> Policy:
        load = Trigger(series="load", average_value=average)
        return policy("web", Event(triggers=(load,), downscale_stabilization=0))

    play = Play(of(1.0), folder=tmp_path, caps=PolicyCaps(falls_after=3.0), web=8)
    await play.to(120)
    play.journal.close()
    records = list(read(tmp_path))
    assert summary(Replay(REGISTRY, instead=of(1.0)).all(records)).differences == []
    made = [*Replay(REGISTRY, instead=of(average)).all(records)][-1].made
    assert made is not None
    assert (made.verdict, made.current, made.replicas) == ("scale", 8, after)


def test_a_series_that_was_not_read_then_is_unknown(
    capsys: pytest.CaptureFixture[str], demo: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "queue.toml"
    policy.write_text(POLICY % (1, *QUEUE))
    _, out, _ = called(capsys, "replay", "--state", demo, "--policy", policy, "--json")
    found = json.loads(out)
    assert found["came"] == {"not known": sum(found["came"].values())}
    assert [*found["why"]] == ["queue reads never_read, which its policy did not read then"]


WRONG = [
    pytest.param(
        ["--state", "nowhere"], "nowhere: must be the daemon's state folder, is not there", 69, id="no folder"
    ),
    pytest.param(["shop/Deployment/none"], "the journal has no such decision", 69, id="no such workload"),
    pytest.param(["--to", "2020-01-01T00:00:00Z"], "the journal has no such decision", 69, id="no such time"),
    pytest.param(["--policy", "missing.toml"], "missing.toml: ", 78, id="no policy"),
]


@pytest.mark.parametrize(("options", "line", "code"), WRONG)
def test_what_cannot_be_replayed_is_one_line(
    capsys: pytest.CaptureFixture[str], demo: Path, options: list[str], line: str, code: int
) -> None:
    found, lines, err = _replay(capsys, demo, *options)
    assert (found, lines, err.count("\n")) == (code, [], 1)
    assert line in err


def test_more_differences_than_are_shown_are_counted(
    capsys: pytest.CaptureFixture[str], demo: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "changed"
    journal = Journal(folder)
    for record in _changed(demo):
        journal.append(record)
    journal.close()
    code, lines, _ = _replay(capsys, folder)
    assert (code, len(lines)) == (1, 3 + 2 + 20 + 1 - 1)
    assert lines[-1].startswith("and ")
    assert len(_replay(capsys, folder, "--all")[1]) > len(lines)


def _changed(demo: Path) -> Iterator[Record]:
    for number, record in enumerate(read(demo)):
        yield replace(record, message=f"{number}", replicas=number) if isinstance(record, Decision) else record
