"""The reasons of answers: one word each, few of them."""

import pytest

from elasticd.cluster.kubernetes.write.answers import conflict, failed, reason_of


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "NoReply"),
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (413, "TooLarge"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "ServerError"),
        (504, "ServerError"),
        (302, "Rejected"),
        (418, "Rejected"),
    ],
)
def test_every_status_has_a_word(code: int, reason: str) -> None:
    assert reason_of(code) == failed(code, "").reason == reason


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (409, "Conflict"), (0, "Conflict"), (500, "Conflict")])
def test_conflict_is_a_conflict_however_it_was_seen(code: int, reason: str) -> None:
    assert conflict(code, "").reason == reason
