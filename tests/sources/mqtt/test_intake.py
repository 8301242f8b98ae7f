"""That messages become readings, whatever they hold, and that none harms another."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.sources.mqtt import intake as intakes
from elasticd.sources.mqtt.intake import Inbox, Intake
from elasticd.sources.mqtt.packets import Message
from elasticd.sources.mqtt.table import SensorTable
from elasticd.sources.mqtt.topics import Topic
from elasticd.testing import NOW

WEB = "sensors/shop/web/load"


class Listened:
    """An intake with all that it fills."""

    def __init__(self, *topics: Topic, **options: Any) -> None:
        self.woken: list[tuple[str, str]] = []
        self.table = SensorTable(options.get("subjects", 100), 600, 60)
        self.inbox = Inbox(options.get("queue", 100))
        self.intake = Intake(
            topics,
            self.table,
            self.inbox,
            max_payload=options.get("max_payload", 1000),
            wake=lambda subject, key: self.woken.append((subject, key)),
        )

    def hear(self, topic: str, payload: object, *, retained: bool = False, again: bool = False) -> None:
        said = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.intake.put(Message(topic, said, retained, again, NOW))
        while not self.intake.work():
            pass

    def values(self, subject: Any = "workload", series: str = "load") -> dict[str, float]:
        return {key: sample.value for key, (sample,) in self.table.views(subject)[series].items()}


def topic(template: str = "sensors/{namespace}/{workload}/load", **options: Any) -> Topic:
    return Topic(**{"topic": template, "series": "load", "subject": "workload", **options})


def test_a_number_on_a_topic_becomes_a_reading_and_wakes() -> None:
    heard = Listened(topic(scale=0.001))
    heard.hear(WEB, b"250")
    assert heard.values() == {"shop/Deployment/web": 0.25}
    assert heard.woken == [("workload", "shop/Deployment/web")]


def test_one_document_feeds_several_series() -> None:
    heard = Listened(topic(payload="cpu", time="ts"), topic(series="memory", payload="memory"))
    heard.hear(WEB, {"cpu": 2, "memory": 5, "ts": NOW})
    heard.hear(WEB, {"cpu": "broken", "memory": 6, "ts": NOW + 1})
    assert (heard.values(), heard.values(series="memory")) == ({"shop/Deployment/web": 2}, {"shop/Deployment/web": 6})
    assert heard.intake.refused == {"value": 1}


def test_an_array_of_readings_names_the_subject_of_each() -> None:
    batch = topic(
        "agents/{node}", subject="pod", payload="cpu", items="pods", names={"namespace": "ns", "pod": "name"}, time="ts"
    )
    heard = Listened(batch)
    pods = [{"ns": "shop", "name": "web-1", "cpu": 1}, {"ns": "shop", "name": "web-2", "cpu": 2, "ts": NOW - 9}]
    heard.hear("agents/n1", {"ts": NOW - 1, "pods": [*pods, {"ns": "Bad", "name": "x", "cpu": 1}, 7, None]})
    assert heard.values("pod") == {"shop/web-1": 1, "shop/web-2": 2}
    measured = {key: one.measured for key, (one,) in heard.table.views("pod")["load"].items()}
    assert measured == {"shop/web-1": NOW - 1, "shop/web-2": NOW - 9}
    assert heard.intake.refused == {"name": 1, "value": 2}


def test_items_that_are_none_are_refused() -> None:
    heard = Listened(topic("load/{namespace}", subject="pod", payload="$", items="pods", names={"pod": "name.a"}))
    heard.hear("load/shop", {"pods": 7})
    heard.hear("load/shop", {"pods": [{"name": {"a": []}}]})
    assert heard.intake.refused == {"items": 1, "value": 1}


def test_a_large_batch_is_decoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "SLICE", 0.0005)
    said = json.dumps({f"p{index}": index for index in range(5000)}).encode()
    batch = topic("load/{namespace}", subject="pod", payload="$", items="$", names={"pod": "$key"})
    heard = Listened(batch, subjects=9999, max_payload=len(said))
    heard.intake.put(Message("load/shop", said, retained=False, again=False, received=NOW))
    heard.intake.put(Message("load/shop", b'{"last": 1}', retained=False, again=False, received=NOW))
    turns = 1
    while not heard.intake.work():
        turns += 1
    assert turns > 1
    assert (heard.table.size, heard.woken[-1]) == (5001, ("pod", "shop/last"))
    assert len(heard.intake._routes["load/shop"][0].keys) == 5001


def test_an_object_of_readings_names_them_by_its_keys() -> None:
    heard = Listened(topic("load/{namespace}", subject="pod", payload="$", items="$", names={"pod": "$key"}))
    heard.hear("load/shop", {"web-1": 1, "web-2": 2.5, "": 3, "web-4": None})
    assert heard.values("pod") == {"shop/web-1": 1, "shop/web-2": 2.5}
    assert heard.intake.refused == {"name": 1, "value": 1}


def test_a_last_will_makes_all_that_its_sender_told_unknown() -> None:
    batch = topic("agents/{agent}/pods", subject="pod", namespace="shop", payload="$", items="$", names={"pod": "$key"})
    heard = Listened(
        Topic(**{name: getattr(batch, name) for name in batch.__struct_fields__} | {"offline": "agents/{agent}/up"})
    )
    heard.hear("agents/a/pods", {"web-1": 1, "web-2": 2})
    heard.hear("agents/b/pods", {"web-3": 3})
    heard.woken.clear()
    heard.hear("agents/a/up", b"offline")
    measured = {key: one.measured for key, (one,) in heard.table.views("pod")["load"].items()}
    assert measured == {"shop/web-1": 0, "shop/web-2": 0, "shop/web-3": NOW}
    assert sorted(heard.woken) == [("pod", "shop/web-1"), ("pod", "shop/web-2")]
    heard.hear("agents/a/up", b"online")
    assert [one.measured for (one,) in heard.table.views("pod")["load"].values()] == [0, 0, NOW]
    heard.hear("agents/a/pods", {"web-1": 1})
    assert heard.table.views("pod")["load"]["shop/web-1"][0].measured == NOW


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        (WEB, b"x" * 1001, "size"),
        (WEB, b"{", "json"),
        (WEB, b'{"v": "\xff"}', "json"),
        (WEB, b'{"v": true, "ts": 1}', "value"),
        (WEB, b'{"v": 1}', "time"),
        (WEB, b'{"v": 1, "ts": "soon"}', "time"),
        ("sensors/Shop/web/load", b'{"v": 1, "ts": 1}', "name"),
        ("sensors/shop/web/other", b"1", "topic"),
        ("", b"1", "topic"),
    ],
)
def test_what_cannot_be_taken_is_counted_by_its_reason(name: str, payload: bytes, reason: str) -> None:
    heard = Listened(topic(payload="v", time="ts"))
    heard.hear(name, payload)
    assert heard.intake.refused == {reason: 1}
    assert (heard.values(), heard.woken) == ({}, [])


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(max_size=30) | st.just(WEB), st.binary(max_size=60), st.booleans()), max_size=20))
def test_no_sample_comes_out_of_garbage(messages: list[tuple[str, bytes, bool]]) -> None:
    heard = Listened(topic(payload="v"))
    for name, payload, retained in messages:
        heard.hear(name, payload, retained=retained)
    assert heard.values() == {}
    assert sum(heard.intake.refused.values()) == len(messages) == heard.intake.received


def test_topics_remembered_are_bounded_too() -> None:
    heard = Listened(topic(), subjects=5)
    for index in range(20):
        heard.hear(f"sensors/shop/w{index}/load", b"1")
    assert len(heard.intake._routes) <= 5
    assert (heard.table.size, heard.intake.verdicts["subjects"]) == (5, 15)


def test_names_of_items_remembered_are_bounded_too() -> None:
    batch = topic("agents/{node}", subject="pod", namespace="shop", payload="$", items="$", names={"pod": "$key"})
    heard = Listened(batch, subjects=10)
    for node in range(5):
        heard.hear(f"agents/n{node}", {f"p{node}-{index}": 1 for index in range(7)})
    assert sum(len(route.keys) for routes in heard.intake._routes.values() for route in routes) <= 10
    assert (heard.table.size, heard.intake.verdicts["subjects"]) == (10, 25)


def test_every_message_of_a_flood_is_decoded_or_counted() -> None:
    heard = Listened(topic(), queue=100)
    for number in range(1000):
        heard.intake.put(Message(f"sensors/shop/w{number % 10}/load", b"%d" % number, False, False, NOW))
        assert heard.intake.room
        if number % 7 == 0:
            heard.intake.take(heard.inbox.get() or pytest.fail("something waits"))
    while not heard.intake.work():
        pass
    assert heard.values() == {f"shop/Deployment/w{number % 10}": number for number in range(990, 1000)}
    assert heard.inbox.shed > 0
    assert heard.intake.received == 1000 == heard.intake.decoded + heard.inbox.shed


def test_what_is_too_large_is_neither_decoded_nor_shed() -> None:
    heard = Listened(topic())
    heard.hear(WEB, b"1" * 1001)
    assert (heard.intake.received, heard.intake.decoded, heard.inbox.shed) == (1, 0, 0)
