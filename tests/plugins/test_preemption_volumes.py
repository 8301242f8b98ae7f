"""Preemption of pods with claims: those stay that would find another folder on another node."""

from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.api import PoolObservation, Spared, Victims
from elasticd.model.pod_spec import PodClaim
from elasticd.model.policy import PoolPolicy, PoolSelect
from elasticd.model.volumes import Storage
from tests.kit.pools import NOW, columns, node, pod
from tests.kit.preemption import decode, running
from tests.kit.volumes import claim, storage, volume, within

DATA, UNREAD = claim("data", volume="pv"), ("persistentvolumes",)
LOCAL = Spared("lesser pods have local storage", ("local_storage of strategy preemption is true",))
GOING = Spared("lesser pods have claims that are being deleted", ("lesser pods have no such claims",))
NOT_KNOWN = Spared(
    "lesser pods have claims whose volumes are not known",
    ("persistent volumes and claims can be read (right to list and watch them)",),
)


def bound(**more: Any) -> Storage:
    """A claim that is bound to such a volume."""
    return storage(DATA, volume("pv", **more))


LEAVING = storage(replace(DATA, deleted=True), volume("pv"))


@pytest.mark.parametrize(
    ("known", "options", "stays"),
    [
        pytest.param(bound(), {}, "", id="a volume that is attached elsewhere"),
        pytest.param(bound(terms=within("name", "a")), {}, "", id="a disk of the node"),
        pytest.param(bound(local=True), {}, "LocalStorage", id="a folder"),
        pytest.param(bound(local=True), {"mode": "paper"}, "LocalStorage", id="a folder, by the thesis"),
        pytest.param(bound(local=True), {"local_storage": True}, "", id="a folder that may be lost"),
        pytest.param(bound(local=True, terms=within("name", "a")), {}, "", id="a folder to which it comes back"),
        pytest.param(bound(local=True, terms=within("name", "a", "b")), {}, "LocalStorage", id="a folder of two nodes"),
        pytest.param(storage(unknown=UNREAD), {}, "ClaimsUnknown", id="volumes that are not read"),
        pytest.param(storage(unknown=UNREAD), {"local_storage": True}, "", id="not read, and may be lost"),
        pytest.param(None, {}, "ClaimsUnknown", id="nobody reads volumes"),
        pytest.param(storage(DATA), {}, "ClaimsUnknown", id="the volume is not seen"),
        pytest.param(storage(), {}, "ClaimsUnknown", id="the claim is not seen"),
        pytest.param(replace(bound(), unknown=("csinodes",)), {}, "", id="something else is not read"),
        pytest.param(LEAVING, {}, "ClaimsGoing", id="a claim that is being deleted"),
        pytest.param(LEAVING, {"local_storage": True}, "ClaimsGoing", id="it is, and local storage may be lost"),
    ],
)
def test_a_pod_that_might_lose_what_its_claim_holds_stays(
    known: Storage | None, options: dict[str, Any], stays: str
) -> None:
    one, urgent = running("it", cpu=1, volume_claims=(PodClaim("data"),)), pod("p", 0.5, priority=9, restart="Always")
    view = columns([node(name, cpu=1, labels={"name": name}) for name in "ab"], [one], storage=known)
    strategy, seen = decode(**options), PoolObservation(NOW, (urgent,), confirmed=NOW)
    answer = strategy.select_victims(urgent, 0, view, seen, False, {})
    assert answer == {"LocalStorage": LOCAL, "ClaimsUnknown": NOT_KNOWN, "ClaimsGoing": GOING}.get(stays, answer)
    assert isinstance(answer, Victims) == (not stays)
    policy = PoolPolicy(name="pool", pool=PoolSelect(), strategies=(strategy,))
    assert [turn.stays for turn in strategy.explain_victims(0, view, seen, policy).turns] == [stays]
