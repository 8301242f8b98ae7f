"""That the newest reading is known, each is counted once, and what is not known is never zero."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.model.workload import Sample
from elasticd.sources.mqtt.table import SensorReading, SensorTable, Slot
from elasticd.testing import NOW

KEY = "shop/Deployment/web"
SENDER = ("up/{workload}", "web")


def table(**options: Any) -> tuple[SensorTable, Slot]:
    made = SensorTable(**{"subjects": 100, "ttl": 600.0, "skew": 60.0, **options})
    return made, made.slot("workload", "load")


def reading(value: float = 1.0, **options: Any) -> SensorReading:
    given = {"time": None, "sequence": None, "received": NOW, "retained": False, "again": False, **options}
    return SensorReading(value, **given)


def sample(slot: Slot, key: str = KEY) -> Sample:
    (only,) = slot.samples[key]
    return only


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (reading(1, sequence=1), reading(2, sequence=2), "new"),
        (reading(1, sequence=2), reading(2, sequence=1), "late"),
        (reading(1, sequence=1), reading(1, sequence=1, again=True), "duplicate"),
        (reading(1, sequence=9), reading(2, sequence=0, received=NOW + 61), "new"),
        (reading(1, sequence=9), reading(2, sequence=0, received=NOW + 61, again=True), "late"),
        (reading(1, sequence=9, time=NOW), reading(2, sequence=8, time=NOW + 1), "late"),
        (reading(1, sequence=9, time=NOW), reading(2, sequence=0, time=NOW + 61, received=NOW + 61), "new"),
        (reading(1, time=NOW - 1), reading(2, time=NOW), "new"),
        (reading(1, time=NOW), reading(2, time=NOW - 1), "late"),
        (reading(1, time=NOW), reading(1, time=NOW), "duplicate"),
        (reading(1, time=NOW), reading(2, time=NOW), "new"),
        (reading(1, time=NOW), reading(2, time=NOW, again=True), "late"),
        (reading(1), reading(1), "new"),
        (reading(1), reading(1, again=True), "duplicate"),
        (reading(1), reading(2, again=True), "new"),
        (reading(1), reading(2, retained=True), "late"),
        (reading(1), reading(1, retained=True), "duplicate"),
        (reading(1), reading(2, time=None), "new"),
    ],
)
def test_of_two_readings_the_newer_is_known(first: SensorReading, second: SensorReading, verdict: str) -> None:
    made, slot = table()
    assert made.take(slot, KEY, first) == "new"
    assert made.take(slot, KEY, second) == verdict
    assert sample(slot).value == (second if verdict == "new" else first).value


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.booleans(), st.booleans(), st.randoms())
def test_in_whatever_order_messages_come_the_newest_is_known(
    numbers: list[int], sequenced: bool, timed: bool, chance: random.Random
) -> None:
    made, slot = table()
    counted = dict.fromkeys(("new", "late", "duplicate"), 0)
    chance.shuffle(numbers)
    for number in numbers:
        verdict = made.take(
            slot,
            KEY,
            reading(
                float(number),
                sequence=number if sequenced else None,
                time=NOW - 30 + number if timed or not sequenced else None,
                again=chance.random() < 0.5,
            ),
        )
        counted[verdict] += 1
    assert sample(slot).value == max(numbers)
    assert sum(counted.values()) == len(numbers)
    rises = sum(number > max(numbers[:index], default=-1) for index, number in enumerate(numbers))
    assert counted["new"] == rises


@pytest.mark.parametrize(
    ("options", "measured"),
    [
        ({}, NOW),
        ({"time": NOW - 5}, NOW - 5),
        ({"time": NOW + 60}, NOW),
        ({"retained": True}, 0.0),
        ({"retained": True, "time": NOW - 86_400}, NOW - 86_400),
    ],
    ids=str,
)
def test_a_sample_is_as_old_as_its_measurement(options: dict[str, Any], measured: float) -> None:
    made, slot = table()
    assert made.take(slot, KEY, reading(**options)) == "new"
    assert (sample(slot).measured, sample(slot).received) == (measured, NOW)


@pytest.mark.parametrize(
    "options", [{"time": NOW - 3600}, {"time": NOW + 3600}, {"time": NOW + 61, "retained": True}], ids=str
)
def test_a_clock_that_is_wrong_is_refused(options: dict[str, Any]) -> None:
    made, slot = table()
    assert made.take(slot, KEY, reading(**options)) == "clock"
    assert slot.samples == {}


def gone(verdicts: list[SensorReading]) -> tuple[list[str], Sample]:
    made, slot = table()
    made.take(slot, KEY, reading(1, sequence=5, time=NOW), SENDER)
    assert made.gone(slot, SENDER, NOW + 10) == {KEY}
    return [made.take(slot, KEY, one, SENDER) for one in verdicts], sample(slot)


def test_a_will_saying_offline_makes_a_sensor_unknown_not_zero() -> None:
    _, left = gone([])
    assert (left.value, left.measured) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (reading(2, sequence=6, time=NOW + 11, received=NOW + 11), "new"),
        (reading(2, sequence=0, time=NOW + 11, received=NOW + 11), "new"),
        (reading(1, sequence=5, time=NOW, received=NOW + 11, again=True), "duplicate"),
        (reading(2, sequence=4, time=NOW - 1, received=NOW + 11, again=True), "late"),
        (reading(2, sequence=6, time=NOW + 5, received=NOW + 11, retained=True), "late"),
        (reading(2, sequence=6, time=NOW + 11, received=NOW + 11, retained=True), "new"),
    ],
)
def test_only_a_newer_message_brings_a_sensor_back(after: SensorReading, verdict: str) -> None:
    (found,), left = gone([after])
    assert found == verdict
    assert (left.measured > 0) == (verdict == "new")


def test_a_retained_reading_of_an_absent_sender_is_not_taken() -> None:
    made, slot = table()
    made.gone(slot, SENDER, NOW)
    assert made.take(slot, KEY, reading(retained=True), SENDER) == "late"
    assert made.take(slot, KEY, reading(), SENDER) == "new"
    assert slot.away == {}


def test_a_will_is_about_its_own_sender_alone() -> None:
    made, slot = table()
    made.take(slot, KEY, reading(), SENDER)
    made.take(slot, "shop/Deployment/api", reading(), ("up/{workload}", "api"))
    made.gone(slot, SENDER, NOW)
    assert sample(slot, "shop/Deployment/api").measured == NOW


def test_who_is_silent_is_forgotten_and_others_are_not() -> None:
    made, slot = table()
    made.take(slot, KEY, reading(), SENDER)
    made.take(slot, "shop/Deployment/api", reading(received=NOW + 300))
    made.take(slot, "shop/Deployment/db", reading(received=NOW + 300))
    made.sweep(NOW + 601)
    assert set(slot.samples) == {"shop/Deployment/api", "shop/Deployment/db"}
    assert (made.size, slot.senders) == (2, {})
    made.sweep(NOW + 10_000)
    assert (made.size, made.silent()) == (0, {"load"})


def test_there_are_never_more_subjects_than_there_may_be() -> None:
    made, slot = table(subjects=2)
    said = [made.take(slot, f"shop/Deployment/w{index}", reading()) for index in range(4)]
    assert said == ["new", "new", "subjects", "subjects"]
    assert made.take(slot, "shop/Deployment/w0", reading(2)) == "new"
    assert made.size == len(slot.samples) == 2
    for index in range(9):
        made.gone(slot, ("up", f"{index}"), NOW)
    assert len(slot.away) == 2


def test_views_are_live_and_cannot_be_written() -> None:
    made, slot = table()
    view = made.views("workload")["load"]
    made.take(slot, KEY, reading())
    assert view[KEY] == slot.samples[KEY]
    with pytest.raises(TypeError):
        view[KEY] = ()  # type: ignore[index]


def test_a_sample_of_a_pod_names_the_pod() -> None:
    made, _ = table()
    slot = made.slot("pod", "load")
    made.take(slot, "shop/web-1", reading(window=15.0))
    assert (sample(slot, "shop/web-1").pod, sample(slot, "shop/web-1").window) == ("web-1", 15.0)


@pytest.mark.parametrize(
    ("sequences", "missed"),
    [
        pytest.param((1, 2, 3), 0, id="none is missing"),
        pytest.param((1, 5), 3, id="a gap"),
        pytest.param((1, 3, 7), 4, id="two gaps"),
        pytest.param((7,), 0, id="the first that is heard"),
        pytest.param((5, 5), 0, id="again"),
        pytest.param((1, 4, 2, 3), 2, id="stragglers are late, and were missed"),
        pytest.param((1, None, 9), 0, id="of a reading without a number nobody knows"),
        pytest.param((9, 1), 0, id="a straggler only"),
    ],
)
def test_what_consecutive_numbers_skip_is_missed(sequences: tuple[int | None, ...], missed: int) -> None:
    made, slot = table()
    for sequence in sequences:
        made.take(slot, KEY, reading(1, sequence=sequence, consecutive=True))
    assert made.missed == missed


def test_a_sender_that_counts_anew_has_skipped_nothing() -> None:
    made, slot = table()
    made.take(slot, KEY, reading(1, sequence=9, consecutive=True))
    assert made.take(slot, KEY, reading(1, sequence=0, consecutive=True, received=NOW + 61)) == "new"
    assert made.missed == 0


def test_numbers_that_need_not_be_consecutive_skip_nothing() -> None:
    made, slot = table()
    for sequence in (1, 9):
        made.take(slot, KEY, reading(1, sequence=sequence))
    assert made.missed == 0


def test_each_subject_counts_for_itself() -> None:
    made, slot = table()
    for key, sequence in (("shop/Deployment/a", 1), ("shop/Deployment/b", 7), ("shop/Deployment/a", 3)):
        made.take(slot, key, reading(1, sequence=sequence, consecutive=True))
    assert made.missed == 1
