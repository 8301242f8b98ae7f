"""Broken numbers, at the level of decisions: whatever a source says, nothing raises, nothing shrinks from what is not
known, and no count leaves its bounds (tests/kit/faults.py checks the bounds at every decision)."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elasticd.api import Container, Observation, Pod, Quality
from elasticd.decision.quality import failed, grade
from elasticd.model.policy import Bounds, Trust
from elasticd.model.workload import Readings, Sample
from elasticd.testing import NOW, judge, observation
from elasticd_plugins.cadence import Cadence
from tests.kit.faults import (
    ABSURD,
    AGAIN,
    BEGUN,
    CPU,
    ENDED,
    INVALID,
    LEAST,
    LOOK,
    MEAGRE,
    MOST,
    MOSTLY,
    NONSENSE,
    ORDERS,
    OVER,
    PARTLY,
    UNKNOWN,
    Fault,
    Faulty,
    Told,
    between,
    cluster,
    each,
    hpa,
    late,
    one,
    play,
    policy,
    times,
    value,
)

pytestmark = pytest.mark.slow

FALLS = f"2 if t < {BEGUN} else 0.5"
RISES = f"1 if t < {BEGUN} else 3"


def table(*of: Mapping[str, Any]) -> dict[str, Any]:
    """Faults as parameters, under their names."""
    every = {name: fault for faults in of for name, fault in faults.items()}
    return {"argvalues": list(every.values()), "ids": list(every)}


@pytest.mark.parametrize("demand", ["2", FALLS, RISES], ids=["steady", "falling", "rising"])
@pytest.mark.parametrize("fault", **table(UNKNOWN, NONSENSE, MOSTLY))
async def test_nothing_is_done_about_what_is_not_known(fault: Fault, demand: str) -> None:
    run = await play(cluster(demand), policy(), Faulty(fault=between(fault)))
    before, after = {"2": (8, 8), FALLS: (8, 2), RISES: (4, 12)}[demand]
    assert run.told.counts(BEGUN, ENDED) == {before}
    assert {one.verdict for one in run.told.made if BEGUN <= one.at < ENDED} == {"hold"}
    assert [change for change in run.told.scaled if BEGUN <= change[0] < ENDED] == []
    assert run.told.counts(AGAIN, OVER) == {after}


@pytest.mark.parametrize("fault", **table(UNKNOWN, NONSENSE))
async def test_a_lasting_fault_is_announced_once_at_the_workload(fault: Fault) -> None:
    run = await play(cluster(), policy(), Faulty(fault=between(fault)))
    assert len(run.announced) == 2  # and once at the start, before the first pod is ready
    assert "\n" not in run.announced[1].message


@pytest.mark.parametrize("demand", ["0", "9"], ids=["at the lower bound", "at the upper bound"])
@pytest.mark.parametrize("fault", **table(UNKNOWN))
async def test_a_count_at_its_bound_stays_there(fault: Fault, demand: str) -> None:
    run = await play(cluster(demand), policy(), Faulty(fault=between(fault)), seconds=ENDED)
    assert run.told.counts(BEGUN, ENDED) == {LEAST if demand == "0" else MOST}


@pytest.mark.parametrize("fault", **table(PARTLY))
async def test_a_pod_with_unusable_samples_counts_as_a_missing_metric(fault: Fault) -> None:
    """As one that uses all it requests when the count would fall: seven eighths of half a core and a whole request are
    23 % of eight requests, which is four pods at 50 %. As one that uses nothing when it would rise."""
    run = await play(cluster(FALLS), policy(), Faulty(fault=between(fault)))
    assert run.told.counts(BEGUN, ENDED) == {8, 4}
    assert run.told.counts(AGAIN, OVER) == {2}
    run = await play(cluster(RISES), policy(), Faulty(fault=between(fault)))
    assert max(run.told.counts(BEGUN, ENDED)) > 4
    assert all(after > before for at, before, after in run.told.scaled if BEGUN <= at < ENDED)


@pytest.mark.parametrize("fault", **table(PARTLY))
async def test_partial_samples_change_nothing_where_full_coverage_is_required(fault: Fault) -> None:
    run = await play(cluster(FALLS), policy(trust=Trust(coverage=1.0)), Faulty(fault=between(fault)))
    assert run.told.counts(BEGUN, ENDED) == {8}
    assert run.told.counts(AGAIN, OVER) == {2}


@pytest.mark.parametrize("fault", **table(UNKNOWN, MOSTLY))
@pytest.mark.parametrize(
    ("trust", "during"),
    [
        pytest.param({"unknown": "floor", "replicas": 5, "after": 0}, {5}, id="at least five"),
        pytest.param({"unknown": "floor", "replicas": 3, "after": 0}, {4}, id="at least three"),
        pytest.param({"unknown": "floor", "replicas": 99, "after": 0}, {8, MOST}, id="at least more than may be"),
        pytest.param({"unknown": "floor", "replicas": 5}, {4, 5}, id="at least five after a time"),
        pytest.param({"unknown": "fallback", "replicas": 6}, {4, 6}, id="six after a time"),
        pytest.param({"unknown": "fallback", "replicas": 3}, {4}, id="not three after a time"),
        pytest.param({"unknown": "fallback", "replicas": 3, "may_lower": True}, {4, 3}, id="three, if told so"),
        pytest.param({"unknown": "up-only"}, {4}, id="only up"),
    ],
)
async def test_unknown_samples_lead_only_to_the_policys_configured_reaction(
    fault: Fault, trust: dict[str, Any], during: set[int]
) -> None:
    governing = policy(trust=msgspec.convert(trust, Trust))
    run = await play(cluster("1"), governing, Faulty(fault=between(fault)))
    assert run.told.counts(BEGUN, ENDED) == during
    assert run.told.counts(AGAIN, OVER) == {4}


@pytest.mark.parametrize("fault", **table(ABSURD))
async def test_an_absurd_sample_scales_to_the_maximum_and_back(fault: Fault) -> None:
    run = await play(cluster(), policy(), Faulty(fault=between(fault)))
    assert run.told.counts(BEGUN + 15, ENDED) == {MOST}
    assert [one.failures for one in run.told.made if one.failures] == []
    assert run.told.counts(AGAIN, OVER) == {8}


@pytest.mark.parametrize("fault", **table(ABSURD))
async def test_an_absurd_sample_obeys_the_step_limits_of_the_policy(fault: Fault) -> None:
    step = {"scale_up": {"policies": [{"type": "Pods", "value": 1, "period": 60}]}}
    run = await play(cluster(), policy(hpa(behavior=step)), Faulty(fault=between(fault)), seconds=ENDED)
    assert [after - before for _, before, after in run.told.scaled] == [1, 1, 1, 1]
    assert all(later - sooner >= 60 for (sooner, *_), (later, *_) in pairwise(run.told.scaled))


def crowded(said: Readings, now: float) -> Readings:
    """Each pod uses the more, the more there are: of a pool of connections, or a lock, that they share."""
    return each(value(0.1 * len(said.pods["cpu"])))(said, now)


async def test_a_metric_that_rises_by_scaling_stops_at_the_limits() -> None:
    step = {"scale_up": {"policies": [{"type": "Pods", "value": 1, "period": 60}]}}
    run = await play(cluster(), policy(hpa(behavior=step)), Faulty(fault=between(crowded)))
    grown = [(at, after) for at, _, after in run.told.scaled if at < ENDED]
    assert [after for _, after in grown] == [9, 10, 11, MOST]
    assert all(later - sooner >= 60 for (sooner, _), (later, _) in pairwise(grown))
    held = [one for one in run.told.made if grown[-1][0] < one.at < ENDED]
    assert {(one.replicas, (one.wish or 0) > MOST) for one in held} == {(MOST, True)}, "it goes no further"
    assert all(any(limit.name == "bounds" and limit.bound for limit in one.limits) for one in held), "and is told"
    assert run.told.counts(AGAIN, OVER) == {8}


@pytest.mark.parametrize("fault", **table(MEAGRE))
async def test_an_absurdly_small_sample_lowers_replicas_late_and_within_bounds(fault: Fault) -> None:
    run = await play(cluster(), policy(), Faulty(fault=between(fault)))
    # The window counts from the last look before the fault.
    assert run.told.counts(BEGUN, BEGUN + 300 - LOOK) == {8}
    assert min(run.told.counts(BEGUN, ENDED)) == LEAST
    assert run.told.counts(ENDED + 3 * 15, OVER) == {8}


WINDOW = {"scale_up": {"stabilization_window": 60}}


@pytest.mark.parametrize(
    ("looks", "behavior", "scaled"),
    [
        pytest.param(1, None, True, id="without a window, once"),
        pytest.param(1, WINDOW, False, id="with one, once"),
        pytest.param(3, WINDOW, False, id="one look less than the window has"),
        pytest.param(5, WINDOW, True, id="a look longer than the window"),
    ],
)
async def test_a_spike_after_a_counter_reset_must_last_to_scale(looks: int, behavior: Any, scaled: bool) -> None:
    def spike(now: float) -> Fault | None:
        return each(times(50)) if BEGUN <= now < BEGUN + looks * LOOK else None

    # Neither row is as long as the window: it counts from the last look before, so up to a look sooner.
    run = await play(cluster(), policy(hpa(behavior=behavior)), Faulty(fault=spike))
    assert (run.told.scaled != []) is scaled
    assert run.told.counts(AGAIN, OVER) == {8}


async def test_an_exporter_that_restarts_from_nothing_lowers_no_count() -> None:
    def restarts(now: float) -> Fault | None:
        return {0: each(times(0.0)), 1: INVALID}.get(int(now - BEGUN) // 15) if now >= BEGUN else None

    assert (await play(cluster(), policy(), Faulty(fault=restarts))).told.scaled == []


async def test_a_scrape_gap_is_bridged_while_samples_are_fresh_enough() -> None:
    def gap(now: float) -> Fault | None:
        return each(late(now - BEGUN)) if BEGUN <= now < ENDED else None

    told = (await play(cluster(), policy(), Faulty(fault=gap))).told
    assert told.scaled == []
    verdicts = {(one.at - BEGUN <= 120, one.verdict) for one in told.made if BEGUN <= one.at < ENDED}
    assert verdicts == {(True, "keep"), (False, "hold")}


@pytest.mark.parametrize("of", [one, each], ids=["of one pod", "of all pods"])
async def test_a_clock_that_leaps_ahead_delays_no_look(of: Any) -> None:
    """An hour more at each of six looks; then all is well, and the load rises."""

    def leaps(now: float) -> Fault | None:
        looks = int((now - BEGUN) // 15)
        return of(late(-3600 * (looks + 1))) if 0 <= looks < 6 else None

    told = (await play(cluster(f"1 if t < {BEGUN + 120} else 3"), policy(), Faulty(fault=leaps), seconds=5000)).told
    assert max(later.at - sooner.at for sooner, later in pairwise(told.made)) <= 30
    assert told.counts(BEGUN + 165, 5000) == {MOST}


def pods(count: int, request: float | None = 1.0, **changes: Any) -> tuple[Pod, ...]:
    requests = {} if request is None else {"cpu": request}
    of = Container("web", requests)
    plain = observation([0.0] * count).pods
    return tuple(replace(pod, containers=(of,), **changes) for pod in plain)


def renamed(of: tuple[Pod, ...], prefix: str) -> tuple[Pod, ...]:
    return tuple(replace(pod, name=f"{prefix}{pod.name}", uid=f"{prefix}{pod.uid}") for pod in of)


def seen(of: tuple[Pod, ...], usage: float | None, replicas: int) -> Observation:
    """These pods, each that is in phase Running using as much; None: nothing is known of any."""
    running = [pod for pod in of if pod.phase == "Running"]
    samples = [] if usage is None else [Sample(usage, NOW - 5, NOW - 5, 15, pod.name, "web") for pod in running]
    series = {"cpu": grade("cpu", "test", samples, NOW, 120, {pod.name for pod in running})}
    return replace(observation([], replicas=replicas), pods=of, series=series)


JUST_STARTED: dict[str, Any] = {"started": NOW - 10, "ready": False, "ready_changed": NOW - 10}
NOT_READY = {"ready": False, "ready_changed": NOW - 1000}
PENDING: dict[str, Any] = {"phase": "Pending", "node": "", "started": None, "ready": None, "ready_changed": 0.0}


@pytest.mark.parametrize("usage", [None, 0.0, 0.01, 0.5, 3.0, 1e308], ids=lambda usage: f"uses {usage}")
@pytest.mark.parametrize(
    "of",
    [
        pytest.param((), id="zero pods"),
        pytest.param(pods(4, None), id="without requests"),
        pytest.param(pods(3) + renamed(pods(1, None), "x"), id="one without a request"),
        pytest.param(pods(4, 0.0), id="requests of zero"),
        pytest.param(pods(4, 5e-324), id="requests of next to nothing"),
        pytest.param(pods(4, **JUST_STARTED), id="just started"),
        pytest.param(pods(4, deleted=True), id="terminating"),
        pytest.param(pods(4, **PENDING), id="all pending"),
        pytest.param(pods(4, phase="Failed"), id="all failed"),
        pytest.param(pods(4, phase="Unknown"), id="all lost"),
        pytest.param(pods(2, **JUST_STARTED) + renamed(pods(2, **PENDING), "x"), id="none that counts"),
    ],
)
def test_uncountable_pods_are_never_a_reason_to_shrink(of: tuple[Pod, ...], usage: float | None) -> None:
    decision = judge(hpa(), Cadence(), seen=seen(of, usage, 4), bounds=(1, 20))
    assert decision.failures == ()
    assert (decision.current, 4 <= decision.replicas <= 20) == (4, True)


@pytest.mark.parametrize(
    ("of", "usage", "wish"),
    [
        pytest.param(pods(2) + renamed(pods(2, **PENDING), "x"), 0.9, 4, id="pending pods count nothing when it grows"),
        pytest.param(pods(2) + renamed(pods(2, **PENDING), "x"), 2.0, 8, id="and dampen what it grows by"),
        pytest.param(pods(2) + renamed(pods(2, **PENDING), "x"), 0.1, 1, id="and are left out when it shrinks"),
        pytest.param(pods(2) + renamed(pods(2, **JUST_STARTED), "x"), 0.9, 4, id="so do those just started"),
        pytest.param(pods(3) + renamed(pods(1, deleted=True), "x"), 0.9, 6, id="terminating ones are gone"),
    ],
)
def test_pods_not_yet_serving_count_as_in_the_hpa(of: tuple[Pod, ...], usage: float, wish: int) -> None:
    decision = judge(hpa(), seen=seen(of, usage, 4), bounds=(1, 20))
    assert (decision.failures, decision.wish) == ((), wish)


async def test_pods_that_find_no_room_raise_no_count_for_ever() -> None:
    """Pods of half a core on a node of two: four run, the rest is pending, and what they would use is not known."""
    small = cluster("9", replicas=2)
    small = replace(small, nodes=(replace(small.nodes[0], count=1, cpu="2"),))
    run = await play(small, policy(), Faulty(fault=lambda _: None))
    assert run.told.made[-1].failures == ()
    assert run.told.counts(BEGUN, OVER) <= set(range(4, MOST + 1))
    assert len(run.told.scaled) <= 3


@pytest.mark.parametrize("fault", **table(UNKNOWN))
async def test_a_workload_at_zero_is_woken_only_by_known_load(fault: Fault) -> None:
    orders = f"0 if t < {ENDED + 100} else 40"
    governing = policy(hpa(ORDERS), replicas=Bounds(min=0, max=MOST))
    told = Told(least=0)
    run = await play(cluster("0", orders, replicas=3), governing, Faulty(fault=between(fault)), told=told)
    assert run.told.counts(BEGUN, ENDED + 100) == {0}
    assert run.told.counts(ENDED + 145, OVER) == {4}


@pytest.mark.parametrize("fault", **table(UNKNOWN))
@pytest.mark.parametrize("failing", ["cpu", "orders"])
async def test_while_one_metric_fails_another_may_raise_and_never_lowers(fault: Fault, failing: str) -> None:
    falls, rises = f"80 if t < {BEGUN} else 20", f"40 if t < {BEGUN} else 100"
    both = policy(hpa(CPU, ORDERS))
    bad = Faulty(fault=between(fault), series=(failing,), name="bad")
    good = Faulty(fault=lambda _: None, series=("orders" if failing == "cpu" else "cpu",), name="good")
    run = await play(cluster("1", falls) if failing == "cpu" else cluster(FALLS, "40"), both, bad, good)
    assert run.told.counts(BEGUN, ENDED) == {8}
    assert run.told.counts(AGAIN, OVER) == {4}
    run = await play(cluster("1", rises) if failing == "cpu" else cluster(RISES, "40"), both, bad, good)
    assert run.told.counts(BEGUN + 60, ENDED) == {10 if failing == "cpu" else 12}


def flapping(fault: Fault) -> Any:
    """Every other look."""
    return lambda now: fault if now > 60 and int(now // 15) % 2 else None


@pytest.mark.parametrize("fault", **table(UNKNOWN, NONSENSE, PARTLY))
@pytest.mark.parametrize("paced", [False, True], ids=["every 15 s", "with a cadence"])
async def test_a_source_that_flaps_for_an_hour_scales_nothing(
    fault: Fault, paced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        governing = policy(hpa(), *([Cadence()] if paced else []))
        run = await play(cluster(), governing, Faulty(fault=flapping(fault)), seconds=3600)
    assert run.told.scaled == []
    verdicts = [(one.verdict, one.reason) for one in run.told.made]
    changes = sum(one != other for one, other in pairwise(verdicts))
    assert (changes > 50) is (fault not in PARTLY.values())  # one of eight pods alone changes no verdict here
    assert len(caplog.records) <= changes
    assert len(run.announced) <= changes // 2 + 1


@pytest.mark.parametrize("fault", **table(UNKNOWN))
async def test_a_falling_load_from_a_flapping_source_scales_down_once(fault: Fault) -> None:
    run = await play(cluster(FALLS), policy(), Faulty(fault=flapping(fault)), seconds=3600)
    assert [after for _, _, after in run.told.scaled] == [2]


async def test_two_disagreeing_sources_do_not_oscillate_the_count() -> None:
    first = Faulty(fault=flapping(UNKNOWN["an error"]), name="first")
    second = Faulty(fault=lambda _: each(times(1.5)), name="second")
    run = await play(cluster(), policy(), first, second, seconds=3600)
    assert [after for _, _, after in run.told.scaled] == [MOST]


def test_an_unreadable_series_is_no_reason_for_anything() -> None:
    known = observation([0.1] * 4)
    for quality in (Quality.STALE, Quality.INVALID):
        doubtful = replace(known, series={"cpu": replace(known.series["cpu"], quality=quality)})
        assert judge(hpa(), seen=doubtful, bounds=(1, 20)).verdict == "hold"
    unread = replace(known, series={"cpu": failed("cpu", "test", "503")})
    assert judge(hpa(), seen=unread, bounds=(1, 20)).verdict == "hold"
