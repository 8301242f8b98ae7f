"""The API server is asked whose token counts, and what its holder may read."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.reviews import may_read
from elasticd.cluster.kubernetes.session import Session
from tests.cluster.kubernetes.fake import FakeApi, status

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
SUBJECTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
USER = {"username": "ada", "groups": ["ops"], "extra": {"scopes": ["a"]}}


def knows(api: FakeApi, token: dict[str, Any], access: dict[str, Any] | None = None) -> None:
    """Script what the server says of a token, and of its holder."""
    api.on("POST", TOKENS, {"status": token})
    api.on("POST", SUBJECTS, {"status": access or {}})


@pytest.mark.parametrize(
    ("token", "access", "why"),
    [
        pytest.param({"authenticated": True, "user": USER}, {"allowed": True}, "", id="may"),
        pytest.param({"authenticated": True, "user": USER}, {}, "ada may not get /status", id="may not"),
        pytest.param({"error": "no"}, {"allowed": True}, "the API server does not know this token", id="unknown"),
        pytest.param(
            {"authenticated": True}, {"allowed": True}, "the API server does not know this token", id="nobody"
        ),
        pytest.param({"user": USER}, {"allowed": True}, "the API server does not know this token", id="not proved"),
    ],
)
async def test_a_token_counts_where_its_holder_may_read(
    api: FakeApi, session: Session, token: dict[str, Any], access: dict[str, Any], why: str
) -> None:
    knows(api, token, access)
    assert await may_read(session, "abc", "/status") == why


async def test_the_holder_is_asked_about_as_the_server_knows_him(api: FakeApi, session: Session) -> None:
    knows(api, {"authenticated": True, "user": USER}, {"allowed": True})
    await may_read(session, "abc", "/status")
    (token,), (subject,) = api.asked("POST", TOKENS), api.asked("POST", SUBJECTS)
    assert token.body["spec"] == {"token": "abc"}
    spec = subject.body["spec"]
    assert (spec["user"], spec["groups"], spec["extra"]) == ("ada", ["ops"], {"scopes": ["a"]})
    assert spec["nonResourceAttributes"] == {"verb": "get", "path": "/status"}


async def test_a_server_that_forbids_to_ask_lets_nobody_in(api: FakeApi, session: Session) -> None:
    api.on("POST", TOKENS, status(403, "Forbidden", "tokenreviews is forbidden"))
    why = await may_read(session, "abc", "/status")
    assert why.startswith("the API server cannot be asked: ")
    assert "abc" not in why
