"""A pod whose owner is deleted while it is away is created once, without that owner."""

from typing import Any

import pytest

from elasticd.cluster.kubernetes.session import Session
from elasticd.model.actions import Announce
from tests.cluster.kubernetes.fake import FakeApi, HurriedClock, Say, status, until
from tests.cluster.kubernetes.restoring import ACTION, NONE, Server, daemon, granted, running
from tests.cluster.kubernetes.test_evict import served

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": "o"}
PATH = "/api/v1/namespaces/shop/configmaps/settings"
CONFIG_MAPS = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True}


def owner(uid: str) -> dict[str, Any]:
    """The owner as it is read."""
    return {"metadata": {"name": "settings", "uid": uid}}


@pytest.mark.parametrize(
    ("reply", "is_kept"),
    [
        pytest.param(owner("o"), True, id="it is there"),
        pytest.param(NONE, False, id="it is gone"),
        pytest.param(owner("another"), False, id="another has its name"),
        pytest.param(status(403, "Forbidden", "no"), True, id="it may not be read"),
        pytest.param(status(503, "ServiceUnavailable", "later"), True, id="its server does not answer"),
    ],
)
async def test_a_copy_names_no_owner_that_is_gone(
    server: Server, session: Session, clock: HurriedClock, api: FakeApi, reply: dict[str, Any] | Say, *, is_kept: bool
) -> None:
    told: list[Announce] = []
    discovered = served("v1")
    api.on("GET", "/api/v1", {"resources": [*discovered["resources"], CONFIG_MAPS]})
    api.on("GET", PATH, reply)
    server.pod = running(ownerReferences=[OWNER])
    async with daemon(session, clock, announce=told.append) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    assert server.created[0]["metadata"]["ownerReferences"] == ([OWNER] if is_kept else [])
    assert [(each.uid, each.reason, each.warning) for each in told] == [("u", "OwnerGone", True)] * (not is_kept)


async def test_an_owner_that_is_gone_is_told_of_once(
    server: Server, session: Session, clock: HurriedClock, api: FakeApi
) -> None:
    """Not at each attempt while a quota refuses the copy."""
    told: list[Announce] = []
    discovered = served("v1")
    api.on("GET", "/api/v1", {"resources": [*discovered["resources"], CONFIG_MAPS]})
    api.on("GET", PATH, NONE)
    refused = iter([True] * 3)

    def fails(step: int, what: str) -> str:
        return "undone" if what == "POST pods" and next(refused, False) else ""

    server.pod, server.fault = running(ownerReferences=[OWNER]), fails
    async with daemon(session, clock, announce=told.append) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    assert [each.reason for each in told] == ["OwnerGone"]


async def test_an_owner_of_an_unserved_kind_is_kept(server: Server, session: Session, clock: HurriedClock) -> None:
    """Kubernetes deletes no pod for it."""
    server.pod = running(ownerReferences=[OWNER])
    async with daemon(session, clock) as one:
        await one.evict(ACTION, granted)
        await until(server.made_anew)
    assert server.created[0]["metadata"]["ownerReferences"] == [OWNER]
