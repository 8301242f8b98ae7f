"""A pool policy in force: which of its plugins are switched off, and what the log says of those that fail."""

import pytest
from msgspec.structs import replace

from elasticd.model.actions import Evict
from elasticd.model.placement import PodDecision
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.workload import Failure, Ref
from elasticd.registry import STRIKES
from elasticd.runtime.pools.pool import OURSELVES, Asker, Pool, asked

HOOKS = ("filter_nodes",)
Plans = list[tuple[Asker, list[str]]]


def pool() -> Pool:
    return Pool(PoolPolicy(name="p", pool=PoolSelect(), strategies=()))


def failing(*plugins: str, message: str = "raised A") -> list[Failure]:
    return [Failure(name, "filter_nodes", message) for name in plugins]


BAD = "WARNING policy p: plugin bad: filter_nodes raised A"
WORSE = "WARNING policy p: plugin worse: filter_nodes raised A"
WELL = "INFO policy p: its plugins work again"
OFF = "WARNING policy p: plugin bad is switched off until reload"


@pytest.mark.parametrize(
    ("plans", "log", "off"),
    [
        pytest.param([("placing", [])] * 2, [], set(), id="all is well"),
        pytest.param([("placing", ["bad"])] * 4, [BAD], set(), id="it fails and fails"),
        pytest.param([("placing", ["bad", "bad"])], [BAD], set(), id="for many pods"),
        pytest.param([("placing", ["bad"]), ("placing", [])] * 2, [BAD, WELL] * 2, set(), id="now and then"),
        pytest.param([("placing", ["bad"]), ("placing", ["bad", "worse"])], [BAD, WORSE], set(), id="another too"),
        pytest.param([("placing", ["bad"])] * (STRIKES + 2), [BAD, OFF], {"bad"}, id="too often"),
        pytest.param(
            [("moving", ["bad"]), ("placing", [])] * STRIKES, [BAD, OFF], {"bad"}, id="in moving, and not in placing"
        ),
        pytest.param(
            [("placing", ["bad"]), ("placing", [])] * STRIKES, [BAD, WELL] * STRIKES, set(), id="not in a row"
        ),
    ],
)
def test_a_failing_plugin_is_logged_once_and_eventually_switched_off(
    plans: Plans, log: list[str], off: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    it = pool()
    for part, plugins in plans:
        it.count_failure(part, failing(*plugins), HOOKS)
    assert [f"{one.levelname} {one.getMessage()}" for one in caplog.records] == log
    assert it.failures.off == off


def test_a_plugin_recovers_only_after_a_successful_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    it = pool()
    for failures, hooks in ((failing("bad"), HOOKS), ([], ()), ([], ["score_nodes"]), ([], HOOKS), ([], HOOKS)):
        it.count_failure("placing", failures, hooks)
    assert [f"{one.levelname} {one.getMessage()}" for one in caplog.records] == [BAD, WELL]


def test_what_a_plan_shows_to_have_been_asked() -> None:
    pod = Ref("shop", "Pod", "a", "v1")
    waits = PodDecision("id", 1.0, "p", pod, "act", "wait", "NoRoom")
    placed, evicts = replace(waits, node="n"), replace(waits, actions=(Evict(pod, "uid", "n"),))
    assert asked([]) == frozenset()
    assert asked([waits]) == {"select_nodes", "filter_nodes"}
    assert asked([waits, placed]) == {"select_nodes", "filter_nodes", "score_nodes", "place_pods"}
    assert asked([evicts]) == {"select_nodes", "filter_nodes", "select_victims"}


def test_a_plugin_with_varying_messages_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    it = pool()
    for number in range(3):
        it.count_failure(
            "placing", [one for name in "xyz" for one in failing("bad", message=f"raised {name}{number}")], HOOKS
        )
    assert caplog.messages == ["policy p: plugin bad: filter_nodes raised x0"]


def test_what_is_stuck_is_reported_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    it = pool()
    for _ in range(STRIKES + 1):
        it.count_failure(
            "placing", [Failure(OURSELVES, "", "stuck in slow.py:7 filter_nodes; it is not called again")], ()
        )
    assert caplog.messages == ["policy p: stuck in slow.py:7 filter_nodes; it is not called again"]
