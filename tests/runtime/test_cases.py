"""When a workload that was evaluated is worth evaluating again, and with which history."""

from math import inf

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.decision.decide import Case
from elasticd.journal import Journal
from elasticd.kit.surge import SURGE, Note
from elasticd.model.policy import Bounds, Policy
from elasticd.runtime.cases import LastEvaluation, Scene, case_of
from elasticd.runtime.governed import PolicyIndex
from elasticd.testing import observation
from tests.kit.loops import WEB, Cluster, Snapshot, policy

POLICY = Policy(name="p", replicas=Bounds(9), strategies=(), interval=30.0, jitter=0.1)
LAST = replace(observation([0.5]), at=100.0)


@pytest.mark.parametrize(
    ("until", "moved", "now", "stands"),
    [
        pytest.param(inf, False, 101.0, True, id="nothing moved"),
        pytest.param(inf, True, 101.0, False, id="something moved"),
        pytest.param(inf, False, 126.5, True, id="the interval has not passed"),
        pytest.param(inf, False, 127.0, False, id="as far as jitter lets anyone tell it has"),
        pytest.param(110.0, False, 109.9, True, id="before the clock changes it"),
        pytest.param(110.0, False, 110.0, False, id="the clock has changed it"),
        pytest.param(200.0, False, 127.0, False, id="the interval is shorter"),
    ],
)
def test_what_was_seen_stands(until: float, moved: bool, now: float, stands: bool) -> None:
    new = replace(LAST, at=now, fault=("AmbiguousSelector", "of late") if moved else LAST.fault)
    assert LastEvaluation(LAST, until).stands(new, POLICY) is stands


@pytest.mark.parametrize(
    ("annotated", "wish"), [pytest.param(True, 4, id="a surge added one"), pytest.param(False, 5, id="no surge")]
)
def test_a_new_history_begins_without_a_surges_replica(*, annotated: bool, wish: int) -> None:
    cluster, index = Cluster(), PolicyIndex([policy()])
    cluster.put(WEB, 5)
    note = msgspec.json.encode(Note("web-1", "uid-1", "a", 4, "wait", 0.0, 300.0)).decode()
    cluster.has[WEB] = replace(cluster.has[WEB], annotations={SURGE: note} if annotated else {})
    snapshot = Snapshot(cluster, 1.0)
    index.refresh(snapshot)
    case = case_of(Scene(index, {}, snapshot, 1.0), ("p", WEB), (), Journal(), {})
    assert isinstance(case, Case)
    assert [run.replicas for run in case.past.runs] == [wish]
