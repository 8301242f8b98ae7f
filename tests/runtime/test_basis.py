"""What decisions are made from is written once while it stays as it is, and whole wherever reading may begin."""

import errno
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.decision.basis import Parts, Remade, change, folded
from elasticd.decision.decide import Case, decide
from elasticd.journal import Journal, read
from elasticd.model.jobs import Job
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.records import Basis
from elasticd.model.workload import Node, Pod, Room
from elasticd.registry import Hooks
from elasticd.runtime.basis import BasisWriter
from elasticd.testing import observation
from tests.kit.loops import Want

POLICY = Policy(
    name="web", workload=Target("default", "web"), replicas=Bounds(min=1, max=9), strategies=(Want(),), mode="act"
)
SEEN = observation([0.5, 0.6])
SEEN = replace(SEEN, pods=tuple([replace(pod, labels={"app": "web"}) for pod in SEEN.pods]))
ROOMS = (Room(Node("a", "uid-a", ready=True), {"cpu": 3.0}), Room(Node("b", "uid-b", ready=True), {"cpu": 2.0}))


def case(**changes: Any) -> Case:
    """A case of two pods, with changes of its observation."""
    return Case(POLICY, replace(SEEN, **changes), _past(), Hooks(POLICY.strategies))


def _past() -> Any:
    return Journal().past("web", SEEN.workload.ref, SEEN.at, 2)


def written(folder: Path) -> list[Basis]:
    """What the journal has of it."""
    return [record for record in read(folder) if isinstance(record, Basis)]


NEW = replace(SEEN.pods[1], name="web-2", uid="uid-2", phase="Pending", node="", labels={"app": "web", "new": "yes"})

CHANGES = [
    pytest.param({}, set(), (), id="nothing"),
    pytest.param({"pods": (SEEN.pods[0], replace(SEEN.pods[1], ready=False))}, {"pod/web-1"}, (), id="one pod"),
    pytest.param({"pods": (SEEN.pods[0], replace(SEEN.pods[1]))}, set(), (), id="an equal pod"),
    pytest.param({"pods": (SEEN.pods[0], replace(SEEN.pods[1], labels={}))}, {"pod/web-1"}, (), id="a default again"),
    pytest.param({"pods": SEEN.pods[:1]}, set(), ("pod/web-1",), id="a pod fewer"),
    pytest.param({"pods": (*SEEN.pods, NEW)}, {"pod/web-2"}, (), id="another pod"),
    pytest.param({"pods": (SEEN.pods[0], NEW)}, {"pod/web-2"}, ("pod/web-1",), id="one for another"),
    pytest.param({"pods": (NEW,)}, {"pod/web-2"}, ("pod/web-0", "pod/web-1"), id="one for all others"),
    pytest.param({"workload": replace(SEEN.workload, replicas=3)}, {"workload"}, (), id="the count"),
    pytest.param({"fault": ("AmbiguousSelector", "why")}, {"fault"}, (), id="a fault"),
    pytest.param({"autoscaler": "an HPA"}, {"autoscaler"}, (), id="an autoscaler"),
    pytest.param({"nodes": {"load": {"a": 0.4}}}, {"nodes"}, (), id="the load of nodes"),
    pytest.param({"workload": replace(SEEN.workload, jobs=(Job("j-1", "u"),))}, {"job/j-1"}, (), id="a Job"),
]


@pytest.mark.parametrize(("changes", "parts", "gone"), CHANGES)
def test_only_what_has_changed_is_written_again(
    tmp_path: Path, changes: dict[str, Any], parts: set[str], gone: tuple[str, ...]
) -> None:
    journal = Journal(tmp_path)
    writer = BasisWriter(journal)
    for each in (case(), case(**changes), case(**changes)):
        writer.write(each)
    journal.close()
    whole, *others = written(tmp_path)
    assert whole.whole
    changed = [({*basis.parts, *basis.fields}, basis.gone, basis.whole) for basis in others]
    assert changed == ([(parts, gone, False)] if parts or gone else [])


@pytest.mark.parametrize(("changes", "parts", "gone"), CHANGES)
def test_a_case_is_put_together_as_it_was(
    tmp_path: Path, changes: dict[str, Any], parts: set[str], gone: tuple[str, ...]
) -> None:
    del parts, gone
    journal = Journal(tmp_path)
    writer, last = BasisWriter(journal), case(**changes, rooms=ROOMS)
    for each in (case(), last):
        writer.write(each)
    journal.close()
    own: dict[str, bytes] = {}
    rooms: dict[str, bytes] = {}
    for basis in written(tmp_path):
        if basis.workload is None:
            rooms = folded(rooms, basis)
        else:
            own = folded(own, basis)
    assert Remade(decide(last), own, rooms).case(POLICY, last.hooks, last.past) == last


def test_a_new_segment_begins_with_the_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=1, segments=1 << 20)
    writer = BasisWriter(journal)
    for _ in range(3):
        writer.write(case(rooms=ROOMS))
        journal.flush()
    journal.close()
    assert [basis.whole for basis in written(tmp_path)] == [True] * 6


def test_after_a_failed_write_the_whole_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    writer = BasisWriter(journal)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("elasticd.journal.journal.os.fstat", refuse)
        writer.write(case())
        journal.flush()
    writer.write(case())
    journal.close()
    assert [basis.whole for basis in written(tmp_path)] == [True]


def test_what_json_cannot_express_is_not_known(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    writer = BasisWriter(journal)
    odd = replace(SEEN.pods[0], labels={"app": "\ud800"})
    for pods in (SEEN.pods, (odd,), SEEN.pods):
        writer.write(case(pods=pods))
    journal.close()
    assert [(basis.whole, bool(basis.parts)) for basis in written(tmp_path)] == [
        (True, True),
        (True, False),
        (True, True),
    ]


def test_a_journal_in_memory_keeps_none_of_it() -> None:
    journal = Journal()
    BasisWriter(journal).write(case(pods=(Pod("default", "x", "u", "Running"),)))
    assert journal.decisions() == []


def test_what_is_no_longer_governed_is_written_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    writer = BasisWriter(journal)
    writer.write(case())
    writer.keep(frozenset())
    writer.write(case())
    journal.close()
    assert [basis.whole for basis in written(tmp_path)] == [True, True]


def _put_together(folder: Path, *cases: Case) -> list[Basis]:
    """Write cases, check that the last one comes back as it was, and return what was written."""
    journal = Journal(folder)
    writer = BasisWriter(journal)
    for each in cases:
        writer.write(each)
    journal.close()
    parts: dict[str, bytes] = {}
    for basis in written(folder):
        parts = folded(parts, basis)
    assert Remade(decide(cases[-1]), parts, {}).case(POLICY, cases[-1].hooks, cases[-1].past) == cases[-1]
    return written(folder)


def test_a_new_pod_has_only_what_is_its_own(tmp_path: Path) -> None:
    last = _put_together(tmp_path, case(), case(pods=(*SEEN.pods, NEW)))[-1]
    assert (last.like, last.parts) == ({}, {})  # that of the last pod goes without saying
    assert msgspec.json.decode(last.fields["pod/web-2"]).keys() == {"uid", "phase", "labels"}


def test_equal_numbers_of_a_pod_are_written_once(tmp_path: Path) -> None:
    new = replace(NEW, started=990.5, ready_changed=990.5, created=990.5)
    last = _put_together(tmp_path, case(), case(pods=(*SEEN.pods, new)))[-1]
    assert msgspec.json.decode(last.fields["pod/web-2"])["started ready_changed created"] == 990.5


def test_a_job_that_has_ended_before_has_only_its_name(tmp_path: Path) -> None:
    first, second = Job("j-1", "u-1", ended=990.0, result="Complete"), Job("j-2", "u-2")
    before = case(workload=replace(SEEN.workload, jobs=(first, second)))
    after = case(workload=replace(SEEN.workload, jobs=(second,), gone=(first,)))
    last = _put_together(tmp_path, before, after)[-1]
    assert (last.ended, last.gone, last.fields) == (("j-1",), (), {})


@pytest.mark.parametrize(
    ("before", "after", "by"),
    [
        pytest.param(97.0, 96.0, -1, id="a whole number"),
        pytest.param(2.5, 2.4, -0.1, id="a sum that is right"),
        pytest.param(3.5999999999999996, 3.4, (-0.2, 1), id="a sum that is a double off"),
        pytest.param(1.0, 0.1 + 0.2, -0.7, id="many digits"),
    ],
)
def test_what_is_free_is_written_as_a_difference(tmp_path: Path, before: float, after: float, by: Any) -> None:
    def rooms(cpu: float) -> tuple[Room, ...]:
        return (Room(ROOMS[0].node, {"cpu": cpu, "pods": 9.0}),)

    journal = Journal(tmp_path)
    writer = BasisWriter(journal)
    for cpu in (before, after):
        writer.write(case(rooms=rooms(cpu)))
    journal.close()
    bases = [basis for basis in written(tmp_path) if basis.workload is None]
    assert [basis.by for basis in bases] == [{}, {"a": {"cpu": by}}]
    parts: dict[str, bytes] = {}
    for basis in bases:
        parts = folded(parts, basis)
    assert msgspec.json.decode(parts["free/a"]) == {"cpu": after, "pods": 9.0}


@given(before=st.floats(0, 1e12), after=st.floats(0, 1e12))
def test_any_amount_comes_back_exactly(before: float, after: float) -> None:
    was: Parts
    now: Parts
    was, now = {"free/a": {"cpu": before}}, {"free/a": {"cpu": after}}
    whole, changed = change(1.0, None, None, was), change(2.0, None, was, now)
    assert whole is not None
    parts = folded({}, whole)
    parts = parts if changed is None else folded(parts, msgspec.json.decode(msgspec.json.encode(changed), type=Basis))
    assert msgspec.json.decode(parts["free/a"])["cpu"] == after


OLDER = [
    '{"type":"basis","at":1.0,"parts":{"free/a":{"cpu":2.5},"pod/x-1":{"name":"x-1","uid":"1","node":"a"}},"whole":true}',
    '{"type":"basis","at":2.0,"fields":{"pod/x-2":{"uid":"2"}},"like":{"pod/x-2":"pod/x-1"},"gone":["pod/x-1"]}',
    '{"type":"basis","at":3.0,"parts":{"free/a":{"cpu":2.0999999999999996}},"policy":"web"}',
]


def test_lines_of_earlier_versions_are_read_as_before() -> None:
    parts: dict[str, bytes] = {}
    for line in OLDER:
        parts = folded(parts, msgspec.json.decode(line, type=Basis))
    assert {name: msgspec.json.decode(part) for name, part in parts.items()} == {
        "free/a": {"cpu": 2.0999999999999996},
        "pod/x-2": {"name": "x-2", "uid": "2", "node": "a"},
    }


def test_a_change_of_a_lost_pod_restores_no_pod() -> None:
    basis = Basis(2.0, fields={"pod/x-2": msgspec.Raw(b'{"ready":true}')})
    parts = folded({"pod/x-1": b'{"name":"x-1","uid":"1"}'}, basis)
    assert parts["pod/x-2"] == b'{"ready":true}'


def test_a_job_that_is_gone_has_only_its_end(tmp_path: Path) -> None:
    first, second = Job("j-1", "u-1", number=1), Job("j-2", "u-2", number=2)
    ended = replace(first, ended=990.0, result="Complete")
    unknown = Job("j-0", "u-0", ended=980.0)
    before = case(workload=replace(SEEN.workload, jobs=(first, second)))
    last = _put_together(
        tmp_path, before, case(workload=replace(SEEN.workload, jobs=(second,), gone=(unknown, ended)))
    )[-1]
    assert last.like["gone/u-1"] == "job/j-1"
    assert msgspec.json.decode(last.fields["gone/u-1"]).keys() == {"ended", "result"}
