"""Events: activation, cooldown, idle count, formula, and what is not known, by the tables of KEDA's documentation."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elasticd.api import Observation, Past, Pod, Point, Quality, Recommendation, Sample, Series
from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError
from elasticd.testing import check_strategy
from elasticd_plugins.event import Event
from tests.kit.plugins.builders import NOW, decode, judge, pod, pods, sample, seen, series, use

QUEUE: dict[str, Any] = {"series": "queue", "average_value": 10}
PARTLY = Series("load", "test", Quality.PARTIAL, tuple(use(30.0)), "1 of 2 pods have a sample")


def event(*triggers: dict[str, Any], **options: Any) -> Event:
    return decode(Event, triggers=list(triggers or (QUEUE,)), **options)


def waiting(value: float, name: str = "queue", age: float = 0.0) -> Series:
    one = series([sample("", value, age=age)], name)
    return replace(one, measured=NOW - age)


def unknown(name: str = "queue", quality: Quality = Quality.ERROR) -> Series:
    return Series(name, "test", quality, (), "the source is down")


def past(since: float = 10_000.0, **readings: list[tuple[float, float]]) -> Past:
    """Looked at for so many seconds; readings by series as (age in seconds, total), oldest first."""
    points = {name: tuple(Point(NOW - age, total, 0) for age, total in track) for name, track in readings.items()}
    return Past(NOW - since, points=points)


def ask(strategy: Event, observation: Observation, before: Past | None = None) -> Recommendation:
    (said,) = judge(strategy, seen=observation, past=before or past(), bounds=(0, 10_000)).recommendations
    return said


def answer(strategy: Event, observation: Observation, before: Past | None = None) -> tuple[int | None, str]:
    said = ask(strategy, observation, before)
    return said.replicas, said.reason


@pytest.mark.parametrize(
    ("trigger", "value", "current", "wanted"),
    [
        pytest.param({"average_value": 10}, 0, 0, (0, "TriggersIdle"), id="nothing waits, none runs"),
        pytest.param({"average_value": 10}, 1, 0, (1, "TriggersActive"), id="the first message wakes one"),
        pytest.param({"average_value": 10}, 155, 0, (16, "TriggersActive"), id="many wake as many as they need"),
        pytest.param({"average_value": 10}, 100, 3, (10, "TriggersActive"), id="just ten each"),
        pytest.param({"average_value": 10}, 101, 3, (11, "TriggersActive"), id="one more"),
        pytest.param({"average_value": 10}, 3, 7, (1, "TriggersActive"), id="few"),
        pytest.param({"average_value": 10, "activation": 50}, 40, 0, (0, "TriggersIdle"), id="activation outranks"),
        pytest.param({"average_value": 10, "activation": 50}, 50, 0, (0, "TriggersIdle"), id="strictly greater"),
        pytest.param({"average_value": 10, "activation": 50}, 51, 0, (6, "TriggersActive"), id="above activation"),
        pytest.param({"average_value": 10, "activation": 5}, 6, 0, (1, "TriggersActive"), id="above and below target"),
        pytest.param({"value": 100}, 250, 0, (3, "TriggersActive"), id="a value at zero"),
        pytest.param({"value": 100}, 250, 4, (10, "TriggersActive"), id="a value is for all ready pods"),
        pytest.param({"value": 100}, 50, 4, (2, "TriggersActive"), id="and falls with it"),
        pytest.param({"value": 100}, 1, 4, (1, "TriggersActive"), id="not below one while active"),
        pytest.param({"average_value": 1e-9}, 1e300, 4, (2**31 - 1, "TriggersActive"), id="absurd"),
    ],
)
def test_what_a_trigger_asks_for(trigger: dict[str, Any], value: float, current: int, wanted: tuple[int, str]) -> None:
    observation = seen(current, pods(current), waiting(value))
    assert answer(event({"series": "queue", **trigger}), observation) == wanted


@pytest.mark.parametrize(
    ("quiet", "current", "wanted"),
    [
        pytest.param([], 3, 1, id="nothing is remembered"),
        pytest.param([(10, 0.0)], 3, 1, id="quiet for ten seconds"),
        pytest.param([(299, 0.0), (150, 0.0)], 3, 1, id="not quite long enough"),
        pytest.param([(300, 0.0), (150, 0.0)], 3, 0, id="just long enough"),
        pytest.param([(500, 0.0), (310, 0.0), (5, 0.0)], 3, 0, id="long enough"),
        pytest.param([(400, 9.0), (310, 0.0), (5, 0.0)], 3, 0, id="long enough since it was active"),
        pytest.param([(400, 0.0), (310, 0.0), (290, 9.0), (280, 0.0)], 3, 1, id="active in between"),
        pytest.param([(400, 9.0), (250, 0.0)], 3, 1, id="what was read counts until it was read again"),
        pytest.param([(320, 9.0), (301, 0.0)], 3, 0, id="and no longer"),
        pytest.param([(5, 9.0)], 0, 0, id="none runs, none is needed"),
    ],
)
def test_idle_only_after_a_cooldown_without_activity(
    quiet: list[tuple[float, float]], current: int, wanted: int
) -> None:
    said = ask(event(), seen(current, pods(current), waiting(0)), past(queue=quiet))
    assert (said.replicas, said.reason) == (wanted, "TriggersCooling" if wanted else "TriggersIdle")


@pytest.mark.parametrize(
    "strategy",
    [event(), event({"series": "queue"}, formula={"expression": "queue", "average_value": 10})],
    ids=["a trigger", "a formula"],
)
@pytest.mark.parametrize(("whole", "wanted"), [(True, 0), (False, 1)], ids=["all had samples", "one had none"])
def test_a_part_of_the_samples_is_not_quiet(whole: bool, wanted: int, strategy: Event) -> None:
    """A pod that works may have no sample yet."""
    track = tuple(Point(NOW - age, 0.0, 3, whole or age != 150) for age in (310, 150, 5))
    said = ask(strategy, seen(3, pods(3), waiting(0)), Past(NOW - 10_000, points={"queue": track}))
    assert said.replicas == wanted


QUIET = [(float(age), 0.0) for age in range(600, 0, -30)]


@pytest.mark.parametrize(
    ("options", "since", "wanted"),
    [
        pytest.param({}, 299, 1, id="what was before the first look is not known"),
        pytest.param({}, 300, 0, id="the cooldown begins with the first look"),
        pytest.param({"initial_cooldown": 60}, 359, 1, id="or so long after it"),
        pytest.param({"initial_cooldown": 60}, 360, 0, id="and no longer"),
        pytest.param({"cooldown": 0}, 0, 0, id="no cooldown at all"),
        pytest.param({"cooldown": 0, "initial_cooldown": 60}, 59, 1, id="but at the beginning"),
        pytest.param({"cooldown": 0, "initial_cooldown": 60}, 60, 0, id="until then"),
    ],
)
def test_the_first_look_counts_as_activity(options: dict[str, Any], since: float, wanted: int) -> None:
    assert ask(event(**options), seen(3, pods(3), waiting(0)), past(since, queue=QUIET)).replicas == wanted


@pytest.mark.parametrize(
    ("options", "value", "current", "wanted"),
    [
        pytest.param({"idle": 1, "least": 3}, 0, 5, 1, id="idle"),
        pytest.param({"idle": 1, "least": 3}, 0, 0, 1, id="idle is more than none"),
        pytest.param({"idle": 1, "least": 3}, 1, 1, 3, id="active has at least its least"),
        pytest.param({"idle": 1, "least": 3}, 99, 3, 10, id="or what it needs"),
        pytest.param({"least": 2}, 1, 0, 2, id="from none to the least"),
    ],
)
def test_idle_and_active_counts(options: dict[str, Any], value: float, current: int, wanted: int) -> None:
    observation = seen(current, pods(current), waiting(value))
    assert ask(event(**options), observation, past(queue=QUIET)).replicas == wanted


def test_the_trigger_with_the_largest_wish_counts_whichever_is_active() -> None:
    both = event({**QUEUE, "activation": 50}, {"series": "mails", "average_value": 1})
    assert answer(both, seen(0, (), waiting(40), waiting(2, "mails"))) == (4, "TriggersActive")
    assert answer(both, seen(0, (), waiting(40), waiting(0, "mails"))) == (0, "TriggersIdle")
    assert ask(both, seen(0, (), waiting(40), waiting(2, "mails"))).message == "queue is 40, target 10 (avg)"


CPU: dict[str, Any] = {"series": "cpu", "average_value": 0.5, "activates": False}


@pytest.mark.parametrize(
    ("observation", "wanted"),
    [
        pytest.param(seen(0, (), waiting(0), series([], "cpu", Quality.EMPTY)), (0, "TriggersIdle"), id="asleep"),
        pytest.param(seen(0, (), waiting(5), series([], "cpu", Quality.EMPTY)), (1, "TriggersActive"), id="woken"),
        pytest.param(seen(2, pods(2), waiting(5), series(use(1.0, 1.0))), (4, "TriggersActive"), id="busy"),
        pytest.param(seen(2, pods(2), waiting(0), series(use(1.0, 1.0))), (0, "TriggersIdle"), id="busy with nothing"),
        pytest.param(seen(2, pods(2), waiting(0), unknown("cpu")), (0, "TriggersIdle"), id="unknown and not needed"),
        pytest.param(seen(2, pods(2), waiting(5), unknown("cpu")), (None, "TriggerUnknown"), id="unknown and needed"),
        pytest.param(seen(2, pods(2), waiting(50), unknown("cpu")), (5, "TriggersActive"), id="unknown and exceeded"),
        pytest.param(seen(2, pods(2), unknown(), series(use(1.0, 1.0))), (None, "TriggerUnknown"), id="the other"),
    ],
)
def test_a_non_activating_trigger_sets_the_count_but_never_activates(
    observation: Observation, wanted: tuple[int | None, str]
) -> None:
    assert answer(event(QUEUE, CPU), observation, past(queue=QUIET)) == wanted


MAILS: dict[str, Any] = {"series": "mails", "average_value": 1}
NAN = series([Sample(float("nan"), NOW, NOW)], "queue", Quality.INVALID)


@pytest.mark.parametrize(
    ("observation", "wanted"),
    [
        pytest.param(seen(4, pods(4), unknown(), waiting(0, "mails")), None, id="error and quiet"),
        pytest.param(seen(4, pods(4), unknown(), waiting(3, "mails")), None, id="error and fewer"),
        pytest.param(seen(4, pods(4), unknown(), waiting(4, "mails")), 4, id="error and as many"),
        pytest.param(seen(4, pods(4), unknown(), waiting(9, "mails")), 9, id="error and more"),
        pytest.param(seen(4, pods(4), unknown(quality=Quality.EMPTY), waiting(0, "mails")), None, id="empty"),
        pytest.param(seen(4, pods(4), unknown(quality=Quality.STALE), waiting(0, "mails")), None, id="stale"),
        pytest.param(seen(4, pods(4), NAN, waiting(0, "mails")), None, id="NaN"),
        pytest.param(seen(4, pods(4), waiting(0, "mails")), None, id="no such series"),
        pytest.param(seen(0, (), unknown(), waiting(0, "mails")), None, id="asleep it stays asleep"),
        pytest.param(seen(0, (), unknown(), waiting(2, "mails")), 2, id="unless another wakes it"),
        pytest.param(seen(1, pods(1), unknown(), unknown("mails")), None, id="one pod and nothing known"),
    ],
)
def test_what_is_not_known_lowers_nothing_and_another_may_raise(observation: Observation, wanted: int | None) -> None:
    assert ask(event(QUEUE, MAILS), observation, past(queue=QUIET, mails=QUIET)).replicas == wanted


LEFT = replace(PARTLY, covered=False, may_raise=True)


@pytest.mark.parametrize(
    ("current", "load", "activation", "wanted"),
    [
        pytest.param(2, replace(PARTLY, covered=False), 0, None, id="too few samples are unknown"),
        pytest.param(2, LEFT, 0, 3, id="but raise where the policy lets them"),
        pytest.param(4, LEFT, 0, None, id="and never lower"),
        pytest.param(2, LEFT, 50, None, id="nor show that nothing waits"),
        pytest.param(2, PARTLY, 0, 3, id="enough of them raise"),
        pytest.param(4, PARTLY, 0, None, id="and do not lower, for a part of a sum is less than the sum"),
        pytest.param(4, PARTLY, 50, None, id="nor show it"),
    ],
)
def test_a_part_of_the_samples_is_at_least_that(
    current: int, load: Series, activation: float, wanted: int | None
) -> None:
    trigger = {"series": "load", "average_value": 10, "activation": activation}
    assert ask(event(trigger), seen(current, pods(current), load)).replicas == wanted


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        pytest.param([pod("a", ready=False)], None, id="none is ready"),
        pytest.param([], None, id="none is there yet"),
        pytest.param([pod("a"), pod("b", phase="Pending", ready=False)], 3, id="only the ready one carries it"),
    ],
)
def test_a_value_of_all_pods_needs_one_that_is_ready(of: list[Pod], wanted: int | None) -> None:
    said = ask(event({"series": "queue", "value": 10}), seen(2, of, waiting(25), status=len(of)))
    assert said.replicas == wanted
    assert wanted is not None or "none is ready" in said.message


@pytest.mark.parametrize(
    ("value", "shown", "wanted"),
    [
        pytest.param(15.0, 4, None, id="the others carry it too"),
        pytest.param(45.0, 4, 18, id="even those need more"),
        pytest.param(15.0, 16, 24, id="all are seen"),
        pytest.param(5.0, 16, 8, id="all are seen, and fewer do"),
    ],
)
def test_a_value_of_unseen_pods_lowers_no_count(value: float, shown: int, wanted: int | None) -> None:
    """The watch of pods has fallen silent, and their controller counts 16."""
    said = ask(event({"series": "queue", "value": 10}), seen(16, pods(shown), waiting(value)))
    assert said.replicas == wanted
    told = "its value is for all ready pods, and of 16 pods that its controller counts, the watch of pods shows 4"
    assert wanted is not None or told in said.message


FORMULA: dict[str, Any] = {"expression": "max(queue ?? 8, mails * 2)", "average_value": 4, "activation": 5}
NAMES = ({"series": "queue"}, {"series": "mails"})


@pytest.mark.parametrize(
    ("queue", "mails", "current", "wanted"),
    [
        pytest.param(waiting(40), waiting(0, "mails"), 0, (10, "TriggersActive"), id="one"),
        pytest.param(waiting(4), waiting(9, "mails"), 0, (5, "TriggersActive"), id="the other"),
        pytest.param(waiting(4), waiting(1, "mails"), 0, (0, "TriggersIdle"), id="neither is active"),
        pytest.param(waiting(5), waiting(1, "mails"), 0, (0, "TriggersIdle"), id="strictly greater"),
        pytest.param(unknown(), waiting(1, "mails"), 0, (2, "TriggersActive"), id="the fallback of the formula"),
        pytest.param(unknown(), waiting(1, "mails"), 5, (2, "TriggersActive"), id="which is a wish like any"),
        pytest.param(waiting(40), unknown("mails"), 5, (None, "TriggerUnknown"), id="no fallback for the other"),
    ],
)
def test_a_formula_makes_one_number_of_all_triggers(
    queue: Series, mails: Series, current: int, wanted: tuple[int | None, str]
) -> None:
    assert answer(event(*NAMES, formula=FORMULA), seen(current, pods(current), queue, mails)) == wanted


@pytest.mark.parametrize(
    ("queue", "mails", "wanted"),
    [
        pytest.param(QUIET, QUIET, 0, id="quiet"),
        pytest.param(QUIET, [(600, 0.0), (200, 4.0), (190, 0.0)], 1, id="one was active"),
        pytest.param([(500, 9.0)], QUIET, 1, id="one was active when last heard of"),
        pytest.param([], QUIET, 1, id="of one nothing is remembered"),
    ],
)
def test_the_cooldown_of_a_formula_is_counted_by_the_formula(
    queue: list[tuple[float, float]], mails: list[tuple[float, float]], wanted: int
) -> None:
    before = past(queue=queue, mails=mails)
    formula = {"expression": "queue + mails", "average_value": 4, "activation": 3}
    observation = seen(3, pods(3), waiting(0), waiting(0, "mails"))
    assert ask(event(*NAMES, formula=formula), observation, before).replicas == wanted


@pytest.mark.parametrize(
    ("track", "wanted"),
    [
        pytest.param([(299, 9.0)], 1, id="the cooldown counts from the last word"),
        pytest.param([(300, 9.0)], 0, id="and ends"),
        pytest.param([], 0, id="long forgotten"),
    ],
)
def test_treating_unknown_as_zero_still_waits_for_the_cooldown(track: list[tuple[float, float]], wanted: int) -> None:
    zero = event({"series": "queue"}, formula={"expression": "queue ?? 0", "average_value": 4})
    assert ask(zero, seen(3, pods(3), unknown()), past(queue=track)).replicas == wanted


def test_measures_show_every_trigger_its_set_point_and_why() -> None:
    rows = ask(event({**QUEUE, "activation": 50}, MAILS, CPU), seen(0, (), waiting(40), waiting(2, "mails"))).measures
    assert [(one.metric, one.current, one.target, one.replicas, one.reason, one.message) for one in rows] == [
        ("queue", "40", "10 (avg)", 4, "NotActive", "not above 50"),
        ("mails", "2", "1 (avg)", 2, "Active", ""),
        ("cpu", "", "0.5 (avg)", None, "Unknown", "cpu: there is no series cpu"),
    ]


def test_measures_of_a_formula_show_what_it_was_made_of() -> None:
    rows = ask(event(*NAMES, formula=FORMULA), seen(0, (), waiting(40), unknown("mails"))).measures
    assert [(one.metric, one.current, one.target, one.replicas, one.reason, one.message) for one in rows] == [
        ("queue", "40", "", None, "", ""),
        ("mails", "", "", None, "Unknown", "mails is error: the source is down"),
        ("formula", "", "4 (avg)", None, "Unknown", "formula: mails is error: the source is down"),
    ]


@pytest.mark.parametrize(
    ("options", "current", "seconds"),
    [({}, 0, 5.0), ({}, 3, None), ({"period": 2}, 3, 2.0), ({"period": 2}, 0, 5.0), ({"period_at_zero": 1}, 0, 1.0)],
)
def test_at_zero_replicas_polling_has_its_own_period(
    options: dict[str, Any], current: int, seconds: float | None
) -> None:
    strategy = event(**options)
    assert strategy.poll_interval(seen(current)) == seconds
    assert strategy.fastest() == min(options.get("period", 5.0), options.get("period_at_zero", 5.0))


def test_it_reads_each_series_once_and_recalls_a_cooldown() -> None:
    strategy = event(QUEUE, {**QUEUE, "name": "again"}, MAILS, cooldown=100)
    assert (strategy.reads(), strategy.recalls()) == (("queue", "mails"), 400.0)
    assert event(cooldown=0).recalls() == 0.0


TWO = [{"series": "queue"}, {"series": "mails"}]
SUM = {"expression": "queue + mails", "value": 1}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"triggers": []}, "triggers: must not be empty, is []"),
        ({}, "triggers: must be given, is missing"),
        ({"triggers": [{"value": 1}]}, "triggers[0].series: must be given, is missing"),
        ({"triggers": [{"series": "", "value": 1}]}, "triggers[0].series: must not be empty"),
        ({"triggers": [{"series": "q"}]}, "triggers[0].value: must be given, or average_value, is missing"),
        (
            {"triggers": [{"series": "q", "value": 1, "average_value": 2}]},
            "triggers[0].value: must be left out beside average_value, is 1",
        ),
        ({"triggers": [{"series": "q", "value": 0}]}, "triggers[0].value: must be > 0"),
        ({"triggers": [{"series": "q", "average_value": -1}]}, "triggers[0].average_value: must be > 0"),
        ({"triggers": [{"series": "q", "value": float("nan")}]}, "triggers[0].value: must be finite, is nan"),
        ({"triggers": [{**QUEUE, "activation": -1}]}, "triggers[0].activation: must be >= 0"),
        ({"triggers": [{**QUEUE, "activates": "no"}]}, "triggers[0].activates: must be true or false"),
        ({"triggers": [{**QUEUE, "activates": False}]}, "triggers[0].activates: must be true of one trigger at least"),
        (
            {"triggers": [{**QUEUE, "activates": False, "activation": 2}]},
            "triggers[0].activation: must be left out with activates = false, is 2",
        ),
        ({"triggers": [QUEUE, QUEUE]}, "triggers[1].name: must be given once, is 'queue' again"),
        ({"triggers": [QUEUE, {**MAILS, "name": "queue"}]}, "triggers[1].name: must be given once, is 'queue' again"),
        ({"triggers": [QUEUE], "least": 0}, "least: must be >= 1"),
        ({"triggers": [QUEUE], "idle": -1}, "idle: must be >= 0"),
        ({"triggers": [QUEUE], "idle": 1}, "idle: must be < least = 1, is 1"),
        ({"triggers": [QUEUE], "cooldown": -1}, "cooldown: must be >= 0"),
        ({"triggers": [QUEUE], "cooldown": 4000}, "cooldown: must be <= 3600"),
        ({"triggers": [QUEUE], "initial_cooldown": 4000}, "initial_cooldown: must be <= 3600"),
        ({"triggers": [QUEUE], "period": 0}, "period: must be >= 0.1"),
        ({"triggers": [QUEUE], "period_at_zero": 0}, "period_at_zero: must be >= 0.1"),
        ({"triggers": [QUEUE], "cooldwon": 1}, 'cooldwon: no such key, did you mean "cooldown"'),
        (
            {"triggers": TWO, "formula": {"expression": "queue + mails"}},
            "formula.value: must be given, or average_value",
        ),
        ({"triggers": TWO, "formula": {**SUM, "average_value": 1}}, "formula.value: must be left out beside"),
        ({"triggers": TWO, "formula": {**SUM, "expression": ""}}, "formula.expression: must not be empty"),
        (
            {"triggers": TWO, "formula": {**SUM, "expression": "queue +"}},
            "formula.expression: must have a number, a name",
        ),
        ({"triggers": TWO, "formula": {**SUM, "activation": -1}}, "formula.activation: must be >= 0"),
        (
            {"triggers": TWO, "formula": {**SUM, "expression": "queue + mials"}},
            "triggers[1].name: must be in the formula (queue + mials), is 'mails'",
        ),
        (
            {"triggers": TWO, "formula": {**SUM, "expression": "queue + mails + males"}},
            "formula.expression: must name triggers (queue, mails), names 'males'",
        ),
        (
            {"triggers": [QUEUE, TWO[1]], "formula": SUM},
            "triggers[0].average_value: must be left out, for the formula has its own, is 10",
        ),
        (
            {"triggers": [TWO[0], {"series": "mails", "activates": False}], "formula": SUM},
            "triggers[1].activates: must be left out, for the formula has its own, is false",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert({"type": "event", **table}, Event, "p.toml", "strategy[0]")
    assert str(caught.value).startswith(f"p.toml: strategy[0].{problem}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(event({"series": "cpu", "value": 1}), id="value"),
        pytest.param(event({"series": "cpu", "average_value": 0.1}, cooldown=0), id="average value"),
        pytest.param(event({"series": "cpu"}, formula={"expression": "cpu * 2", "value": 1}, cooldown=0), id="formula"),
    ],
)
def test_it_does_nothing_that_no_strategy_may(strategy: Event) -> None:
    assert check_strategy(strategy) == []


VALUE = st.none() | st.floats(0, 1e6)
TRACKS = st.lists(st.tuples(st.floats(0, 900), st.floats(0, 50)), max_size=8)
KINDS = st.sampled_from([event(QUEUE, MAILS), event(*NAMES, formula={"expression": "queue + mails", "value": 3})])


@given(KINDS, st.integers(0, 20), VALUE, VALUE, TRACKS, TRACKS)
def test_the_unknown_never_lowers_a_count(
    strategy: Event,
    current: int,
    queue: float | None,
    mails: float | None,
    first: list[tuple[float, float]],
    second: list[tuple[float, float]],
) -> None:
    before = past(queue=sorted(first, reverse=True), mails=sorted(second, reverse=True))
    given_ = [
        unknown(name) if value is None else waiting(value, name) for name, value in (("queue", queue), ("mails", mails))
    ]
    said = ask(strategy, seen(current, pods(current), *given_), before)
    if queue is None or mails is None:
        assert said.replicas is None or said.replicas >= current
    else:
        assert said.replicas is not None


@given(st.integers(0, 20), st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_that_waits_never_asks_for_less(current: int, one: float, other: float) -> None:
    few, many = (ask(event(), seen(current, pods(current), waiting(value))) for value in sorted((one, other)))
    assert (few.replicas or 0) <= (many.replicas or 0)


def test_it_comes_from_toml_as_it_is_written() -> None:
    table = {"type": "event", "triggers": [QUEUE], "cooldown": 60, "priority": 2}
    assert msgspec.convert(table, Event) == event(cooldown=60, priority=2)
