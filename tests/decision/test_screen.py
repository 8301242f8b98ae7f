"""Who is looked at because of what was read: bands, and what leaves them."""

from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import NEVER, Band, Limit, Observation, Past, Recommendation, Sample, Strategy, hookimpl
from elasticd.base.decode import convert
from elasticd.decision.observe import series_of
from elasticd.decision.quality import failed
from elasticd.decision.screen import BandTable, Sums, Watched, bands_of, stand, steady, watch
from elasticd.decision.workload.asking import Case
from elasticd.kit import band_around
from elasticd.kit.history import begin
from elasticd.model.policy import Bounds, Policy, Target
from elasticd.model.workload import BulkLookup, Quality, Readings, Series, SumBounds
from elasticd.registry import Hooks, discover
from elasticd.runtime.workers import BandWorker
from elasticd.testing import NOW, observation

REGISTRY = discover()


def strategy(tag: str, **options: Any) -> Strategy:
    return cast(Strategy, convert(options, REGISTRY.strategies[tag].type, "test"))


def case(*strategies: Strategy, seen: Observation, past: Past | None = None) -> Case:
    policy = Policy(
        name="p", replicas=Bounds(100), strategies=strategies, workload=Target("default", "web"), max_age=120.0
    )
    return Case(policy, seen, past or begin(seen.at, seen.workload.replicas), Hooks(strategies))


def readings(seen: Observation, pods: Sequence[float | None], workload: Mapping[str, float], at: float) -> Readings:
    """What a source says: cpu of each pod in order (None in place of a sample: left out), and series of the whole."""
    cpu = {
        f"default/{pod.name}": (Sample(value, at, at, pod=pod.name, container="web"),)
        for pod, value in zip(seen.pods, pods, strict=True)
        if value is not None
    }
    whole = {name: {str(seen.workload.ref): (Sample(value, at, at),)} for name, value in workload.items()}
    return Readings("test", at, pods={"cpu": cpu} if pods else {}, workloads=whole)


def is_stirred(asked: Case, said: Readings, at: float) -> bool:
    seen = asked.observation
    reads = cast(Hooks, asked.hooks).reads
    series = series_of(asked.policy, seen.workload, seen.pods, [said], reads, at)
    return not steady(bands_of(asked), seen.series, series)


class Table(BulkLookup, dict[str, Any]):
    """Knows between which values the sum of two pods is, and notes when that is computed."""

    def __init__(self, lowest: float, highest: float, value: float, measured: float) -> None:
        super().__init__()
        self.ends, self.value, self.measured, self.computed = (lowest, highest), value, measured, 0

    def bounds(self) -> SumBounds:
        return SumBounds(self.measured, {("default/web-0", "default/web-1"): 0}, [self.ends])

    def sum(self, keys: tuple[str, ...]) -> float:
        self.computed += 1
        return self.value


@pytest.mark.parametrize(
    ("before", "now", "stays"),
    [
        pytest.param({}, {}, True, id="no load, as before"),
        pytest.param({}, {"presumed": True}, False, id="it was known, and is lost"),
        pytest.param({"presumed": True}, {}, False, id="it is known again"),
        pytest.param({"presumed": True}, {"presumed": True}, True, id="lost before"),
    ],
)
def test_a_lost_series_that_counts_as_zero_is_no_load(before: Any, now: Any, stays: bool) -> None:
    """Who has nothing to do is looked at too, so that the breaker knows how many series went."""
    last = Series("queue", "test", Quality.FRESH, (Sample(0.0, NOW, NOW),), "", NOW)
    new = replace(last, samples=(Sample(0.0, NOW + 9, NOW + 9),), measured=NOW + 9)
    assert (
        steady({"queue": Band(0.0, 0.0)}, {"queue": replace(last, **before)}, {"queue": replace(new, **now)}) is stays
    )


@pytest.mark.parametrize("counted", [2, 3], ids=["all are shown", "one is not"])
def test_equal_samples_of_too_few_pods_stir_nobody(counted: int) -> None:
    """The watch of pods may be silent for a minute, in which a source is read sixty times."""
    seen = observation([0.5, 0.5], request=1.0)
    workload = replace(seen.workload, replicas=counted, status_replicas=counted)
    rule = strategy("step-tolerance", series="cpu", target=0.8)
    policy = case(rule, seen=seen).policy

    def series_at(at: float) -> dict[str, Series]:
        return series_of(policy, workload, seen.pods, [readings(seen, [0.5, 0.5], {}, at)], frozenset({"cpu"}), at)

    asked = case(rule, seen=replace(seen, workload=workload, series=series_at(NOW)))
    assert asked.observation.series["cpu"].trusted is (counted == 2)
    assert not is_stirred(asked, readings(seen, [0.5, 0.5], {}, NOW + 15), NOW + 15)


@pytest.mark.parametrize(
    ("lowest", "highest", "value", "computed", "stays"),
    [
        pytest.param(1.1, 1.9, 1.5, 0, True, id="surely inside"),
        pytest.param(0.9, 1.1, 1.05, 1, True, id="inside, near the lower edge"),
        pytest.param(1.9, 2.1, 1.95, 1, True, id="inside, near the upper edge"),
        pytest.param(0.9, 1.1, 0.95, 1, False, id="outside, near the lower edge"),
        pytest.param(1.9, 2.1, 2.05, 1, False, id="outside, near the upper edge"),
        pytest.param(3.0, 4.0, 3.5, 1, False, id="far outside"),
    ],
)
@pytest.mark.parametrize("bands", [None, BandTable()], ids=["by itself", "at once"])
def test_sums_are_computed_only_where_they_may_leave_bands(
    lowest: float, highest: float, value: float, computed: int, stays: bool, bands: BandTable[str] | None
) -> None:
    table = Table(lowest, highest, value, NOW + 15)
    watched = watch(observation([0.75, 0.75]), {"cpu": Band(1.0, 2.0)})
    if bands:
        bands.put("web", watched)
    watched.look(Sums(Readings("test", NOW + 15, pods={"cpu": table}), bands))
    assert (watched.steady, watched.measured, table.computed) == (stays, NOW + 15, computed)


@pytest.mark.parametrize(
    ("bands", "measured", "options", "known"),
    [
        pytest.param({"cpu": Band()}, NOW + 15, {}, NOW + 15, id="in its band"),
        pytest.param(None, NOW + 15, {}, None, id="without a band"),
        pytest.param(None, NOW, {}, NOW, id="without a band, and nothing was measured since"),
        pytest.param({"cpu": Band()}, NOW + 15, {"source": "other"}, None, id="from another source"),
        pytest.param({"cpu": Band()}, NOW + 15, {"error": "is down"}, None, id="with an error"),
        pytest.param({"cpu": Band()}, NOW + 15, {"faults": {"cpu": "late"}}, None, id="with a fault"),
        pytest.param({"cpu": Band()}, NOW + 15, {"doubts": {"cpu": "low"}}, None, id="with a doubt"),
    ],
)
def test_sums_are_known_of_good_readings_alone(
    bands: dict[str, Band] | None, measured: float, options: dict[str, Any], known: float | None
) -> None:
    watched = watch(observation([0.75, 0.75]), bands)
    seen = Readings("test", NOW + 15, pods={"cpu": Table(1.0, 2.0, 1.5, measured)})
    watched.look(Sums(replace(seen, **options)))
    assert watched.measured == known


def test_sums_are_unknown_of_pods_that_were_not_evaluated() -> None:
    watched = watch(observation([0.5, 0.5, 0.5]), {"cpu": Band()})
    watched.look(Sums(Readings("test", NOW + 15, pods={"cpu": Table(1.0, 2.0, 1.5, NOW + 15)})))
    assert watched.measured is None


@pytest.mark.parametrize("bands", [None, BandTable()], ids=["by itself", "at once"])
def test_sums_that_were_measured_at_several_times_are_unknown(bands: BandTable[str] | None) -> None:
    last = observation([0.75, 0.75])
    last = replace(last, series={**last.series, "queue": replace(last.series["cpu"], name="queue")})
    watched = watch(last, {})
    if bands:
        bands.put("web", watched)
    tables = {"cpu": Table(1.0, 2.0, 1.5, NOW + 15), "queue": Table(1.0, 2.0, 1.5, NOW + 10)}
    watched.look(Sums(Readings("test", NOW + 15, pods=tables), bands))
    assert watched.measured is None


class Many(BulkLookup, dict[str, Any]):
    """Knows between which values the sums of many workloads are; the sum itself is the highest."""

    def __init__(self, measured: float, ends: Mapping[int, tuple[float, float] | None]) -> None:
        """`ends`: by how many pods a workload has."""
        super().__init__()
        places = {tuple(f"default/web-{pod}" for pod in range(pods)): place for place, pods in enumerate(ends)}
        self.known = SumBounds(measured, places, list(ends.values()))

    def bounds(self) -> SumBounds:
        return self.known

    def sum(self, keys: tuple[str, ...]) -> float:
        return (self.known.of(keys) or (0.0, 0.0))[1]


ENDS = st.none() | st.tuples(st.integers(0, 4), st.integers(0, 2)).map(lambda of: (float(of[0]), float(sum(of))))
SEEN = st.fixed_dictionaries({}, optional=dict.fromkeys(range(1, 5), ENDS))
LOOKED = st.tuples(st.sampled_from([NOW, NOW + 15, NOW + 30]), SEEN, st.sampled_from([NOW, NOW + 15]), SEEN)
BANDS = st.none() | st.fixed_dictionaries({}, optional={"cpu": st.builds(Band, st.integers(0, 3), st.integers(2, 6))})


@given(looks=st.lists(LOOKED, max_size=3), bands=st.lists(BANDS, min_size=1, max_size=4), queue=st.booleans())
def test_bands_compared_at_once_come_out_as_one_by_one(looks: Any, bands: Any, queue: bool) -> None:
    """`queue`: the first workload has another series beside."""
    table, alone, together = BandTable[int](), list[Watched](), list[Watched]()
    for pods, each in enumerate(bands, 1):
        last = observation([0.75] * pods)
        if queue and pods == 1:
            last = replace(last, series={**last.series, "queue": replace(last.series["cpu"], name="queue")})
        alone.append(watch(last, each))
        together.append(watch(last, each))
        table.put(pods, together[-1])
    for at, cpu, later, other in looks:
        reading = Readings("test", at, pods={"cpu": Many(at, cpu), "queue": Many(later, other)})
        sums = Sums(reading, table)
        for one, same in zip(alone, together, strict=True):
            one.look(Sums(reading))
            same.look(sums)
            assert (one.measured, one.steady) == (same.measured, same.steady)


def test_a_workload_that_was_evaluated_anew_is_not_surely_steady() -> None:
    table, last = BandTable[str](), observation([0.75, 0.75])
    reading = Readings("test", NOW + 15, pods={"cpu": Table(1.1, 1.9, 1.5, NOW + 15)})
    watched, sums = watch(last, {"cpu": Band(1.0, 2.0)}), Sums(reading, table)
    table.put("web", watched)
    assert not sums.surely_steady(watched)
    sums = Sums(reading, table)
    assert sums.surely_steady(watched)
    again = watch(last, {"cpu": Band(1.8, 2.0)})
    table.put("web", again)
    again.look(sums)
    assert (again.row, again.steady) == (watched.row, False)


class Plain(Strategy, tag="plain", frozen=True):
    """Says nothing of bands."""

    def reads(self) -> tuple[str, ...]:
        return ("cpu", "queue")

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation | None:
        return None


HPA = {"metrics": [{"type": "Resource", "resource": "cpu", "utilization": 50}]}
NAN = float("nan")


@pytest.mark.parametrize(
    ("tag", "options", "pods", "looked"),
    [
        pytest.param("plain", {}, [0.5, 0.5], False, id="plain, as it was"),
        pytest.param("plain", {}, [0.54, 0.55], False, id="plain, less than a tenth more"),
        pytest.param("plain", {}, [0.56, 0.56], True, id="plain, more than a tenth"),
        pytest.param("plain", {}, [0.44, 0.44], True, id="plain, more than a tenth less"),
        pytest.param("hpa", HPA, [0.54, 0.54], False, id="hpa, tolerated"),
        pytest.param("hpa", HPA, [0.57, 0.57], True, id="hpa, above what is tolerated"),
        pytest.param("hpa", HPA, [0.9, 0.1], False, id="hpa, their sum as it was"),
        pytest.param("hpa", HPA, [0.44, 0.44], False, id="hpa, below what is tolerated, and as many pods"),
        pytest.param("hpa", HPA, [0.24, 0.24], True, id="hpa, fewer pods would do"),
        pytest.param("hpa", HPA, [NAN, 0.5], True, id="hpa, a NaN is looked at"),
        pytest.param("hpa", HPA, [None, 0.5], True, id="hpa, so is a sample that is not there"),
        pytest.param("hpa", HPA, [-1.0, 2.0], True, id="hpa, and one that is negative"),
        pytest.param("cadence", {}, [0.49, 0.49], False, id="cadence, calm"),
        pytest.param("cadence", {"alpha": 0.55}, [0.56, 0.56], True, id="cadence, above alpha"),
        pytest.param("double-threshold", {}, [0.79, 0.79], False, id="double threshold, between its marks"),
        pytest.param("double-threshold", {}, [0.81, 0.81], True, id="double threshold, above"),
        pytest.param("double-threshold", {}, [0.39, 0.39], True, id="double threshold, below"),
        pytest.param("step-tolerance", {"target": 50}, [0.57, 0.57], False, id="step tolerance, within its band"),
        pytest.param("step-tolerance", {"target": 50}, [0.58, 0.58], True, id="step tolerance, above it"),
    ],
)
def test_workload_is_looked_at_when_its_samples_leave_the_band(
    tag: str, options: dict[str, Any], pods: list[float | None], looked: bool
) -> None:
    seen = observation([0.5, 0.5], series={"queue": 5.0})
    rule = Plain() if tag == "plain" else strategy(tag, **options)
    assert is_stirred(case(rule, seen=seen), readings(seen, pods, {"queue": 5.0}, NOW + 5), NOW + 5) is looked


@pytest.mark.parametrize(
    ("before", "now", "looked"),
    [
        pytest.param({"queue": 0.0}, {"queue": 0.0}, False, id="still none"),
        pytest.param({"queue": 0.0}, {"queue": 0.001}, True, id="it has left zero"),
        pytest.param({"queue": 20.0}, {"queue": 0.0}, True, id="it is empty"),
        pytest.param({}, {"queue": 5.0}, True, id="it has appeared"),
        pytest.param({"queue": 5.0}, {}, True, id="it is gone"),
        pytest.param({"queue": 5.0}, {"queue": 5.0, "other": 9.0}, False, id="a series that nobody reads"),
    ],
)
@pytest.mark.parametrize("tag", ["plain", "event"])
def test_a_series_that_appears_disappears_or_leaves_zero_is_news(
    tag: str, before: dict[str, float], now: dict[str, float], looked: bool
) -> None:
    event = strategy("event", triggers=[{"series": "queue", "average_value": 10}])
    seen = observation([0.5], series=before)
    if not before:
        lacking = failed("queue", "", 'no source has a series "queue"')
        seen = replace(seen, series={**seen.series, "queue": lacking})
    asked = case(Plain() if tag == "plain" else event, seen=seen)
    assert is_stirred(asked, readings(seen, [0.5], now, NOW + 5), NOW + 5) is looked


def hpas() -> st.SearchStrategy[Strategy]:
    """By use of the requests or by an average, each with tolerances, perhaps with a metric of the whole beside it."""
    used = st.integers(5, 300).map(lambda percent: {"type": "Resource", "resource": "cpu", "utilization": percent})
    average = st.sampled_from(["50m", "333m", "1", "1500m"]).map(
        lambda value: {"type": "Resource", "resource": "cpu", "average_value": value}
    )
    shares = st.sampled_from(["average_value", "value"]).flatmap(
        lambda key: st.sampled_from(["7", "100m"]).map(
            lambda value: {"type": "External", "series": "queue", key: value}
        )
    )
    metrics = st.tuples(used | average).map(list) | st.tuples(used | average, shares).map(list)
    return st.builds(
        lambda metrics, tolerance, rules: strategy("hpa", metrics=metrics, tolerance=tolerance, rules=rules),
        metrics,
        st.sampled_from([0.0, 0.1, 0.5]),
        st.sampled_from(["current", "1.20"]),
    )


def others() -> st.SearchStrategy[Strategy]:
    """Further strategies whose recommendation follows from the last samples."""
    triggers = st.builds(
        lambda key, share, activation: strategy(
            "event", triggers=[{"series": "queue", key: share, "activation": activation}], cooldown=0
        ),
        st.sampled_from(["value", "average_value"]),
        st.floats(0.5, 20),
        st.sampled_from([0.0, 3.0]),
    )
    steps = st.builds(
        lambda target, unit: strategy("step-tolerance", target=target, unit=unit),
        st.floats(0.2, 90),
        st.sampled_from(["percent", "value"]),
    )
    marks = st.just(strategy("double-threshold", low=40, high=80))
    paces = st.builds(lambda alpha: strategy("cadence", alpha=alpha, beta=2 * alpha), st.floats(0.1, 0.7))
    return triggers | steps | marks | paces


USES = st.lists(st.floats(0, 3), min_size=1, max_size=6)
CHANGE = st.floats(0.7, 1.4) | st.sampled_from([0.0, 1.0, NAN, -1.0, 1e-9, 1e9])


def said_of(asked: Case) -> list[object]:
    """What strategies say of the count, and of the pace."""
    counts = [(one.replicas, one.reason) for one in asked.ask("recommend_replicas").given]
    return [*counts, *asked.ask("poll_interval").given]


@given(
    rule=hpas() | others(), uses=USES, queue=st.floats(0, 200), data=st.data(), request=st.sampled_from([0.001, 1.0])
)
def test_who_is_screened_out_would_have_got_the_same_answer(
    rule: Strategy, uses: list[float], queue: float, data: st.DataObject, request: float
) -> None:
    seen = observation(uses, request=request, series={"queue": queue})
    asked = case(rule, seen=seen)
    changes = data.draw(
        st.lists(CHANGE, min_size=len(uses), max_size=len(uses)) | CHANGE.map(lambda by: [by] * len(uses))
    )
    pods = [value * by for value, by in zip(uses, changes, strict=True)]
    at = NOW + 15
    said = readings(seen, pods, {"queue": queue * data.draw(CHANGE)}, at)
    if not is_stirred(asked, said, at):
        series = series_of(asked.policy, seen.workload, seen.pods, [said], cast(Hooks, asked.hooks).reads, at)
        assert said_of(case(rule, seen=replace(seen, at=at, series=series))) == said_of(asked)


@given(at=st.floats(0, 1e12), low=st.floats(0, 1e12), width=st.floats(0, 1e12))
@example(at=5e-324, low=5e-324, width=0.0)  # the smallest number: there is none between it and 0
def test_band_found_by_search_lies_inside_the_true_band(at: float, low: float, width: float) -> None:
    band = band_around(lambda value: low <= value <= low + width, at)
    if low <= at <= low + width:
        assert band.lowest <= at <= band.highest
        assert band.highest <= low + width
        assert band.lowest >= low or low == 0.0
        assert band.highest >= low + width - (low + width) / 32 - 1e-8  # an edge is as fine as a part of the sum
    else:
        assert band == NEVER


class Tells(Strategy, tag="tells", frozen=True):
    """Whatever it is told to."""

    answer: Any = None

    def reads(self) -> tuple[str, ...]:
        return ("cpu",)

    @hookimpl
    def steady_bands(self, observation: Observation) -> Any:
        if self.answer == "raise":
            raise RuntimeError("no bands")
        return self.answer

    @hookimpl
    def limit(self) -> Limit | None:
        return None


TENTH = Band(0.9, 1.1)


@pytest.mark.parametrize(
    ("answer", "band"),
    [
        pytest.param({"cpu": Band(0.2, 3.0)}, Band(0.2, 3.0), id="a band"),
        pytest.param({"cpu": Band()}, Band(), id="whatever it is"),
        pytest.param({}, TENTH, id="nothing of the series"),
        pytest.param(None, TENTH, id="nothing"),
        pytest.param("raise", TENTH, id="it raises"),
        pytest.param({"cpu": (0.2, 3.0)}, TENTH, id="no band"),
        pytest.param({"cpu": Band("a", 3.0)}, TENTH, id="no numbers"),  # type: ignore[arg-type]
        pytest.param(7, TENTH, id="nonsense"),
    ],
)
def test_hook_steady_bands_says_what_leaves_an_answer_unchanged(answer: Any, band: Band) -> None:
    assert bands_of(case(Tells(answer=answer), seen=observation([0.5, 0.5]))) == {"cpu": band}


def test_the_bands_of_several_are_what_all_have_in_common() -> None:
    rules = (Tells(answer={"cpu": Band(0.2, 3.0)}), Plain(), Tells(answer={"cpu": Band(-5.0, 1.05)}))
    found = bands_of(case(*rules, seen=observation([0.5, 0.5], series={"queue": 5.0})))
    assert found == {"cpu": Band(0.9, 1.05), "queue": Band(4.5, 5.5)}


def test_bands_stand_until_something_has_left_them() -> None:
    seen = observation([0.5, 0.5])
    bands = bands_of(case(strategy("hpa", **HPA), seen=seen))
    later = replace(seen, at=NOW + 30, series={"cpu": _of(seen, 0.52)})
    assert stand(bands, seen, later)
    assert not stand(bands, seen, replace(later, series={"cpu": _of(seen, 0.9)}))
    assert not stand(bands, seen, replace(later, workload=replace(seen.workload, replicas=3)))
    assert not stand(bands, seen, replace(later, pods=seen.pods[:1]))


def _of(seen: Observation, value: float) -> Any:
    samples = tuple(Sample(value, NOW + 30, NOW + 30, pod=pod.name, container="web") for pod in seen.pods)
    return replace(seen.series["cpu"], samples=samples)


async def test_a_strategy_that_blocks_when_asked_for_bands_stops_nobody() -> None:
    gate = Event()

    class Blocks(Tells, tag="blocks", frozen=True):
        """For ever."""

        @hookimpl
        def steady_bands(self, observation: Observation) -> Any:
            gate.wait(30)

    seen = observation([0.5])
    try:
        stuck, fine = await BandWorker(patience=0.2)([case(Blocks(), seen=seen), case(Plain(), seen=seen)])
    finally:
        gate.set()
    assert isinstance(stuck, str)
    assert "test_screen.py" in stuck or fine == stuck
