"""Which messages are let go when more come than can be decoded, and that each of them is counted."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticd.sources.mqtt import intake as inboxes
from elasticd.sources.mqtt.intake import Inbox
from elasticd.sources.mqtt.packets import Message
from elasticd.testing import NOW


def said(topic: object, number: int, size: int = 0) -> Message:
    return Message(f"t{topic}", str(number).encode().rjust(size), False, False, NOW)


def left(inbox: Inbox) -> Iterator[tuple[str, int]]:
    while (message := inbox.get()) is not None:
        yield message.topic, int(message.payload)


def test_while_there_are_few_all_wait_in_their_order() -> None:
    inbox = Inbox(10)
    for number in range(5):
        inbox.put(said(number % 2, number))
    assert list(left(inbox)) == [("t0", 0), ("t1", 1), ("t0", 2), ("t1", 3), ("t0", 4)]
    assert inbox.shed == 0


def test_overflow_sheds_the_oldest_messages_behind_the_first_half() -> None:
    inbox = Inbox(10)
    for number in range(25):
        inbox.put(said(number % 2, number))
    assert list(left(inbox)) == [*((f"t{number % 2}", number) for number in range(5)), ("t1", 23), ("t0", 24)]
    assert inbox.shed == 18


def test_every_flooding_topic_is_decoded_in_its_turn() -> None:
    inbox, decoded = Inbox(100), set[str]()
    for number in range(4000):
        inbox.put(said(number % 40, number))
        if number % 40 == 0 and (message := inbox.get()) is not None:
            decoded.add(message.topic)
    assert len(decoded) == 40


def test_an_inbox_has_room_until_newest_messages_would_be_lost() -> None:
    inbox = Inbox(10)
    for number in range(10):
        assert inbox.room
        inbox.put(said(number, number))
    assert not inbox.room
    inbox.put(said(10, 10))  # who does not look loses the oldest
    assert [number for _, number in left(inbox)] == list(range(1, 11))
    assert (inbox.shed, inbox.room) == (1, True)


@pytest.mark.parametrize(
    ("topics", "kept"), [pytest.param(1, 2, id="one topic"), pytest.param(50, 3, id="as many topics as messages")]
)
def test_large_messages_that_wait_are_bounded_by_their_bytes(
    topics: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "MOST_BYTES", 100)
    inbox = Inbox(1000)
    for number in range(50):
        inbox.put(said(number % topics, number, 30))
        assert 30 * len(inbox) <= 100
    assert (inbox.shed, len(inbox)) == (50 - kept, kept)
    assert list(left(inbox))[-1][1] == 49
    inbox.put(said("all", 0, 99))
    assert (inbox.room, inbox.shed) == (True, 50 - kept), "what has left counts no more"


def test_a_message_above_the_byte_limit_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxes, "MOST_BYTES", 100)
    inbox = Inbox(10)
    inbox.put(said(0, 0))
    inbox.put(said(1, 1, 200))
    assert (len(inbox), inbox.room, inbox.shed) == (1, False, 1)
    assert list(left(inbox)) == [("t1", 1)]
    assert inbox.room


@given(st.lists(st.integers(0, 9) | st.none(), max_size=300), st.integers(10, 40))
def test_the_newest_message_of_each_topic_is_always_decoded(turns: list[int | None], most: int) -> None:
    inbox, newest, got, put = Inbox(most), dict[str, int](), list[tuple[str, int]](), 0
    for turn in turns:
        if turn is None:
            if (message := inbox.get()) is not None:
                got.append((message.topic, int(message.payload)))
        elif inbox.room:
            put += 1
            inbox.put(said(turn, put))
            newest[f"t{turn}"] = put
        assert len(inbox) <= most
        assert put == len(got) + len(inbox) + inbox.shed
    got += left(inbox)
    numbers = [number for _, number in got]
    assert numbers == sorted(numbers)
    assert dict(got) == newest
    assert put == len(got) + inbox.shed


@given(st.lists(st.integers(0, 3) | st.none(), max_size=300))
def test_an_inbox_with_few_topics_always_has_room(turns: list[int | None]) -> None:
    inbox = Inbox(10)
    for number, turn in enumerate(turns):
        if turn is None:
            inbox.get()
        else:
            inbox.put(said(turn, number))
        assert inbox.room
