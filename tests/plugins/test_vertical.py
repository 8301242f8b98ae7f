"""The vertical strategy: what is recommended, which pods are changed, and what is never done."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Container, Node, Observation, Past, Pod, Quality, Resources, Room, Series
from elasticd.kit.requests import unfit
from elasticd.testing import check_strategy
from elasticd_plugins.vertical import Vertical
from tests.kit.plugins.builders import EMPTY, NOW, decode, judge, pod, sample, seen, series

MI, GI = 2.0**20, 2.0**30


def asking(name: str, cpu: float | None = 1.0, memory: float | None = GI, **changes: Any) -> Pod:
    requests = {key: value for key, value in {"cpu": cpu, "memory": memory}.items() if value is not None}
    limits = changes.pop("limits", {})
    return pod(name, containers=(Container("web", requests, limits=limits),), **changes)


def statistic(name: str, value: float, container: str = "web", **changes: Any) -> Series:
    return replace(series([sample("", value, container)], name), **changes)


def use(name: str, **values: float) -> Series:
    """What pods use now."""
    return series([sample(one, value, "web") for one, value in values.items()], name)


CPU, MEMORY = statistic("cpu_p95", 0.4), statistic("memory_p98", 500 * MI)


def shown(*given: Series, pods: list[Pod] | None = None) -> Observation:
    kept = [asking("a"), asking("b")] if pods is None else pods
    return seen(len(kept), kept, *given)


def said(rule: Vertical, observation: Observation, past: Past = EMPTY) -> list[Resources]:
    return rule.recommend_resources(observation, past) or []


def general(rule: Vertical, observation: Observation) -> dict[str, float]:
    (one,) = [one for one in said(rule, observation) if not one.pod]
    return one.requests


def changed(rule: Vertical, observation: Observation, past: Past = EMPTY) -> dict[str, dict[str, float]]:
    return {one.pod: one.requests for one in said(rule, observation, past) if one.pod}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {"cpu": 0.46, "memory": 575 * MI}, id="a statistic and 15 %"),
        pytest.param({"cpu": {"margin": 0}, "memory": {"margin": 1}}, {"cpu": 0.4, "memory": 1000 * MI}, id="margins"),
        pytest.param({"cpu": {"min": "500m"}}, {"cpu": 0.5, "memory": 575 * MI}, id="not below min"),
        pytest.param({"cpu": {"max": 0.3}}, {"cpu": 0.3, "memory": 575 * MI}, id="not above max"),
        pytest.param({"memory": {"max": "512Mi"}}, {"cpu": 0.46, "memory": 512 * MI}, id="not above max of memory"),
        pytest.param({"resources": ["cpu"]}, {"cpu": 0.46}, id="of one resource"),
        pytest.param({"mode": "recommend"}, {"cpu": 0.46, "memory": 575 * MI}, id="the same where it only recommends"),
    ],
)
def test_a_request_is_the_statistic_its_margin_and_bounds(options: Any, expected: dict[str, float]) -> None:
    assert general(decode(Vertical, **options), shown(CPU, MEMORY)) == pytest.approx(expected)


def test_a_pods_minima_are_split_equally_among_its_containers() -> None:
    requests = {"cpu": 1.0, "memory": GI}
    both = pod("a", containers=(Container("side", requests), Container("web", requests)))
    tiny = [
        series([sample("", 0.001, one) for one in ("side", "web")], "cpu_p95"),
        series([sample("", 1.0, one) for one in ("side", "web")], "memory_p98"),
    ]
    found = said(Vertical(mode="recommend"), shown(*tiny, pods=[both]))
    assert [(one.container, one.requests) for one in found] == [
        ("side", {"cpu": 0.013, "memory": 120 * MI}),
        ("web", {"cpu": 0.013, "memory": 120 * MI}),
    ]
    alone = said(Vertical(mode="recommend"), shown(statistic("cpu_p95", 0), statistic("memory_p98", 0)))
    assert alone[0].requests == {"cpu": 0.025, "memory": 239 * MI}


@pytest.mark.parametrize("name", ["mean", "p50", "p60", "p90", "p95", "p98", "p99", "max", "intermediate"], ids=str)
def test_every_statistic_in_the_table_is_read_by_its_name(name: str) -> None:
    rule = decode(Vertical, resources=["cpu"], cpu={"statistic": name, "margin": 0})
    assert rule.reads() == ("cpu", f"cpu_{name}")
    assert general(rule, shown(statistic(f"cpu_{name}", 0.7))) == {"cpu": 0.7}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param([], "cpu is not known: no sample; memory is not known: no sample", id="nothing is there"),
        pytest.param([replace(CPU, quality=Quality.STALE, message="old"), MEMORY], "cpu is not known: old", id="stale"),
        pytest.param([replace(CPU, quality=Quality.INVALID), MEMORY], "cpu is not known: invalid", id="invalid"),
        pytest.param([statistic("cpu_p95", 1, "other"), MEMORY], "cpu is not known: no sample", id="of another"),
        pytest.param([replace(CPU, samples=()), MEMORY], "cpu is not known: no sample", id="no samples"),
    ],
)
def test_what_is_not_known_is_reported_and_changes_nothing(given: list[Series], told: str) -> None:
    found = said(Vertical(), shown(*given, use("cpu", a=0.1, b=0.1)))
    assert told in found[0].message
    assert "cpu" not in found[0].requests
    assert all("cpu" not in one.requests for one in found if one.pod)


@pytest.mark.parametrize("pods", [[], [asking("a", phase="Pending")], [asking("a", deleted=True)]], ids=str)
def test_without_a_pod_that_runs_there_is_no_opinion(pods: list[Pod]) -> None:
    assert Vertical().recommend_resources(shown(CPU, MEMORY, pods=pods), EMPTY) is None


USED = use("cpu", a=0.1, b=0.1), use("memory", a=MI, b=MI)


@pytest.mark.parametrize(
    ("pods", "given", "expected"),
    [
        pytest.param([asking("a")], USED, {"cpu": 0.46, "memory": 575 * MI}, id="down to what is recommended"),
        pytest.param([asking("a", 0.2, 575 * MI)], USED, {"cpu": 0.46}, id="up, and only what is off"),
        pytest.param([asking("a", 0.2, 575 * MI)], (), {"cpu": 0.46}, id="up although its use is not known"),
        pytest.param([asking("a")], (), None, id="not down while its use is not known"),
        pytest.param([asking("a")], (use("cpu", b=0.1), USED[1]), {"memory": 575 * MI}, id="nor its own use"),
        pytest.param(
            [asking("a")], (replace(USED[0], quality=Quality.STALE), USED[1]), {"memory": 575 * MI}, id="nor old use",
        ),
        pytest.param([asking("a")], (use("cpu", a=0.8), USED[1]), {"cpu": 0.8, "memory": 575 * MI}, id="down to use"),
        pytest.param([asking("a", 0.5, 575 * MI)], (use("cpu", a=2.0), USED[1]), {"cpu": 2.0}, id="up to use"),
        pytest.param([asking("a", 0.48, 575 * MI)], USED, None, id="a small change is not worth it"),
        pytest.param([asking("a", None, GI)], USED, {"memory": 575 * MI}, id="no request appears"),
        pytest.param([asking("a", 0.2, 575 * MI, limits={"cpu": 0.3})], USED, {"cpu": 0.3}, id="up to its limit"),
        pytest.param([asking("a", limits={"cpu": 1.0, "memory": GI})], USED, None, id="guaranteed is left alone"),
        pytest.param([asking("a", None, None)], USED, None, id="best effort is left alone"),
        pytest.param([asking("a", resize="InProgress")], USED, None, id="while it is being resized"),
        pytest.param([asking("a", 0.2, 575 * MI, resize="Infeasible")], USED, None, id="more of what did not fit"),
        pytest.param([asking("a", 0.2, 575 * MI, resize="Deferred")], USED, None, id="more of what waits for room"),
        pytest.param([asking("a", resize="Deferred")], USED, {"cpu": 0.46, "memory": 575 * MI}, id="less of it"),
        pytest.param([asking("a", resize="Infeasible")], USED, {"cpu": 0.46, "memory": 575 * MI}, id="less of that"),
    ],
)  # fmt: skip
def test_what_a_pod_is_made_to_request(pods: list[Pod], given: tuple[Series, ...], expected: Any) -> None:
    found = changed(Vertical(), shown(CPU, MEMORY, *given, pods=pods))
    assert found.get("a") == (None if expected is None else pytest.approx(expected))


def test_max_caps_growth_but_takes_nothing_from_requests_in_use() -> None:
    rule = decode(Vertical, resources=["cpu"], cpu={"max": 0.5})
    busy = use("cpu", a=2.0)
    assert changed(rule, shown(CPU, busy, pods=[asking("a", 1.0)])) == {}
    assert changed(rule, shown(CPU, busy, pods=[asking("a", 0.2)])) == {"a": {"cpu": 0.5}}
    assert changed(rule, shown(CPU, use("cpu", a=0.1), pods=[asking("a", 1.0)])) == {"a": {"cpu": 0.46}}


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        pytest.param({"cpu": 0.1}, {"a": {"cpu": 0.3}}, id="as much as is left"),
        pytest.param({"cpu": 9.0}, {"a": {"cpu": 0.46}}, id="plenty is left"),
        pytest.param({"cpu": 0.0}, {}, id="nothing is left"),
        pytest.param({"cpu": -1.0}, {}, id="too much is taken already"),
        pytest.param({}, {"a": {"cpu": 0.46}}, id="it is not known what is left"),
    ],
)
def test_a_request_grows_into_what_its_node_has_left(free: dict[str, float], expected: dict[str, Any]) -> None:
    rooms = (Room(Node("n", "u", True), free),)
    view = replace(shown(CPU, use("cpu", a=0.1), pods=[asking("a", 0.2, node="n")]), rooms=rooms)
    assert changed(Vertical(resources=("cpu",)), view) == {pod: pytest.approx(one) for pod, one in expected.items()}


def test_pods_of_a_node_share_what_it_has_left() -> None:
    """Those that are changed at once: of 0.3 cores the first takes 0.26, and the next what is left of them."""
    rooms = (Room(Node("n", "u", True), {"cpu": 0.3}), Room(Node("m", "v", True), {"cpu": 9.0}))
    pods = [asking(name, 0.2, node="m" if name == "d" else "n") for name in "abcd"]
    view = replace(shown(CPU, use("cpu", a=0.1, b=0.1, c=0.1, d=0.1), pods=pods), rooms=rooms)
    given = changed(Vertical(resources=("cpu",), at_once=9), view)
    assert given == {"a": {"cpu": pytest.approx(0.46)}, "b": {"cpu": pytest.approx(0.24)}, "d": given["a"]}


@pytest.mark.parametrize("mode", ["apply", "recommend"])
def test_a_use_above_what_its_node_has_is_unknown(mode: Any) -> None:
    rooms = (Room(Node("n", "u", True, allocatable={"cpu": 32.0}), {"cpu": 30.0}),)
    pods = [asking(name, requested, node="n") for name, requested in (("a", 1.0), ("b", 0.2), ("c", 1.0))]
    view = replace(shown(CPU, use("cpu", a=1e7, b=1e7, c=0.1), pods=pods), rooms=rooms)
    rule = Vertical(resources=("cpu",), at_once=9, mode=mode)
    assert said(rule, view)[0].message == (
        "cpu p95 + 15%; cpu of a is unknown: 1e+07 is more than n has; so is that of 1 more"
    )
    raised, lowered = {"cpu": pytest.approx(0.46)}, {"cpu": pytest.approx(0.46)}
    assert changed(rule, view) == ({"b": raised, "c": lowered} if mode == "apply" else {})


def test_an_impossible_sample_of_a_pod_makes_none_known() -> None:
    rooms = (Room(Node("n", "u", True, allocatable={"cpu": 32.0}), {"cpu": 30.0}),)
    twice = series([sample("a", 0.1), sample("a", 1e7)], "cpu")
    view = replace(shown(CPU, twice, pods=[asking("a", 1.0, node="n")]), rooms=rooms)
    assert changed(Vertical(resources=("cpu",)), view) == {}


def test_a_full_node_takes_nothing_away_that_is_recommended() -> None:
    rooms = (Room(Node("n", "u", True), {"cpu": -1.0}),)
    view = replace(shown(CPU, use("cpu", a=0.1), pods=[asking("a", 1.0, node="n")]), rooms=rooms)
    assert changed(Vertical(resources=("cpu",)), view) == {"a": pytest.approx({"cpu": 0.46})}


def test_a_whole_pod_sample_counts_for_its_only_container() -> None:
    whole = series([sample("a", 0.8)], "cpu")
    assert changed(Vertical(resources=("cpu",)), shown(CPU, whole, pods=[asking("a")])) == {"a": {"cpu": 0.8}}


def test_pods_requesting_too_little_go_first_within_the_limit() -> None:
    pods = [asking("a"), asking("b"), asking("c", 0.1, 575 * MI), asking("d", 0.1, 575 * MI)]
    free = use("cpu", a=0.1, b=0.1), use("memory", a=MI, b=MI)
    for count, names in [(1, "c"), (2, "cd"), (3, "acd"), (9, "abcd")]:
        found = changed(Vertical(at_once=count), shown(CPU, MEMORY, *free, pods=pods))
        assert "".join(sorted(found)) == names


def test_a_pod_rests_between_two_changes_and_others_go_on() -> None:
    past = replace(EMPTY, resizes={"uid-a": NOW - 100})
    view = shown(CPU, MEMORY, *USED)
    assert set(changed(Vertical(cooldown=200), view, past)) == {"b"}
    assert set(changed(Vertical(cooldown=100), view, past)) == {"a"}
    assert set(changed(Vertical(cooldown=0), view, past)) == {"a"}


def test_it_only_recommends_where_it_is_told_to() -> None:
    assert changed(Vertical(mode="recommend"), shown(CPU, MEMORY, *USED)) == {}


def test_what_would_restart_a_container_is_only_recommended() -> None:
    container = Container("web", {"cpu": 0.1, "memory": GI}, restarting=("memory",))
    view = shown(CPU, MEMORY, use("cpu", a=0.1), use("memory", a=400 * MI), pods=[pod("a", containers=(container,))])
    assert changed(Vertical(), view)["a"].keys() == {"cpu"}
    assert general(Vertical(), view).keys() == {"cpu", "memory"}
    assert "memory is only recommended: its change restarts it (resizePolicy)" in said(Vertical(), view)[0].message
    assert "memory" not in said(Vertical(resources=("cpu",)), view)[0].message


def test_it_leaves_other_containers_alone() -> None:
    assert said(Vertical(containers=("proxy",)), shown(CPU, MEMORY, *USED)) == []


@pytest.mark.parametrize(
    ("lower", "upper", "changes"),
    [
        pytest.param(0.3, 1.5, False, id="between the bounds"),
        pytest.param(0.3, 0.5, True, id="above them"),
        pytest.param(1.1, 2.0, True, id="below them"),
        pytest.param(None, 2.0, False, id="a bound that is not known"),
    ],
)
def test_within_the_bounds_of_confidence_nothing_changes(lower: float | None, upper: float, changes: bool) -> None:
    rule = decode(Vertical, resources=["cpu"], confident=True, cpu={"margin": 0})
    bounds = [statistic("cpu_upper", upper)] + ([statistic("cpu_lower", lower)] if lower is not None else [])
    view = shown(CPU, *bounds, use("cpu", a=0.1), pods=[asking("a")])
    assert bool(changed(rule, view)) is changes
    assert set(rule.reads()) == {"cpu", "cpu_p95", "cpu_lower", "cpu_upper"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"cpu": {"statistic": "p42"}}, "statistic", id="an unknown statistic"),
        pytest.param({"cpu": {"margin": -0.1}}, "margin", id="a negative margin"),
        pytest.param({"cpu": {"min": "many"}}, "min: must be a quantity", id="min is no quantity"),
        pytest.param({"cpu": {"min": -1}}, "min: must be finite and >= 0, is -1", id="min below 0"),
        pytest.param({"memory": {"max": "1Zi"}}, "max: must be a quantity", id="max is no quantity"),
        pytest.param({"memory": {"min": "2Gi", "max": "1Gi"}}, "min: must be <= max = 1Gi, is 2Gi", id="min above max"),
        pytest.param({"memory": {"max": "1M"}}, "min: must be <= max = 1M, is 250M", id="max below the default min"),
        pytest.param({"memory": {"most": 1}}, "most", id="an unknown option of memory"),
        pytest.param({"resources": []}, "resources", id="of nothing"),
        pytest.param({"resources": ["disk"]}, "resources", id="of something else"),
        pytest.param({"containers": "web"}, "containers", id="containers are no list"),
        pytest.param({"mode": "evict"}, "mode", id="an unknown mode"),
        pytest.param({"smallest_change": 1.1}, "smallest_change", id="more than all"),
        pytest.param({"confident": "yes"}, "confident", id="confident is no boolean"),
        pytest.param({"cooldown": 4000}, "cooldown", id="longer than is remembered"),
        pytest.param({"at_once": 0}, "at_once", id="nobody at once"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        decode(Vertical, **options)
    assert told in str(error.value)


@pytest.mark.parametrize("rule", [Vertical(), Vertical(confident=True), Vertical(mode="recommend")], ids=str)
def test_it_does_nothing_that_no_strategy_may(rule: Vertical) -> None:
    assert check_strategy(rule) == []


def test_judgement_makes_a_change_of_it_that_says_why() -> None:
    found = judge(Vertical(), seen=shown(CPU, MEMORY, *USED))
    (change,) = found.sizing.resizes
    assert (change.pod, change.uid, change.reason) == ("a", "uid-a", "TooMuch")
    assert change.before == {"web": {"cpu": 1.0, "memory": GI}}
    assert change.after["web"] == pytest.approx({"cpu": 0.46, "memory": 575 * MI})
    assert (found.verdict, found.reason) == ("keep", "CountLeftAlone")
    assert found.sizing.resources[0].message == "cpu p95 + 15%; memory p98 + 15%"


cores = st.floats(0.001, 50)


@given(cores, cores, st.none() | cores, st.none() | cores, st.sampled_from(["", "Deferred", "Infeasible"]))
def test_no_resize_takes_resources_in_use_or_passes_a_limit(
    asked: float, wanted: float, used: float | None, limit: float | None, resize: str
) -> None:
    limits = {} if limit is None else {"cpu": max(limit, asked)}
    view = shown(
        statistic("cpu_p95", wanted),
        *([use("cpu", a=used)] if used is not None else []),
        pods=[asking("a", asked, limits=limits, resize=resize)],
    )
    rule = Vertical(resources=("cpu",), smallest_change=0.0)
    for name, requests in changed(rule, view).items():
        assert name == "a"
        after = requests["cpu"]
        assert after != asked
        assert after <= limits.get("cpu", float("inf"))
        assert unfit(view.pods[0], {"web": requests}) == ""
        if after < asked:
            assert used is not None
            assert after >= used
    assert changed(rule, view) == changed(rule, view)
