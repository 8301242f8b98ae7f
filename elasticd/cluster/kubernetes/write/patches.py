"""Patches objects that still are the ones that were judged: annotations of pods and workloads, requests of pods.

A mark is an annotation that other controllers heed, or that another elasticd must find. A pod is resized in place,
where the API server has pods/resize: from Kubernetes 1.33 on. Either says how things shall be, so that one whose reply
was lost is simply written again. Knows the paths and preconditions; knows nothing of what a mark means or of why.
"""

from collections.abc import Mapping
from math import ceil

import msgspec
from msgspec.structs import replace

from elasticd.base.units import format_milli, milli
from elasticd.cluster.kubernetes.session import STRATEGIC_PATCH, ApiError, Session, decoded, encode
from elasticd.cluster.kubernetes.watch.discovery import PODS, Discovery, UnknownKindError
from elasticd.cluster.kubernetes.wire.convert import to_pod
from elasticd.cluster.kubernetes.wire.objects import Metadata, Wire, WirePod
from elasticd.cluster.kubernetes.write.answers import conflict, failed, other_uid, refused_by, unknown_kind
from elasticd.cluster.kubernetes.write.budget import Allowed, Budget
from elasticd.decision.workload.vetoes import OURSELVES
from elasticd.kit.history import NO_RESIZE
from elasticd.model.actions import Answer, Mark, Resize
from elasticd.model.workload import Pod

RECOMMENDED_ONLY = Answer(
    "refused", message="recommended only: the API server has no pods/resize, as Kubernetes has from 1.33 on",
    reason=NO_RESIZE,
)  # fmt: skip

_POD = msgspec.json.Decoder(WirePod)


class _Marked(Wire, frozen=True):
    """What was written, as the API server has it."""

    metadata: Metadata = Metadata()


_MARKED = msgspec.json.Decoder(_Marked)

BY_US = {"fieldManager": OURSELVES}
"""Who wrote a mark, or resized a pod, is looked at later. Without this the server goes by the User-Agent, which a proxy
may change."""


class Patcher:
    """Writes marks and resizes pods, within the budget."""

    def __init__(self, session: Session, discovery: Discovery, budget: Budget) -> None:
        self._session, self._discovery, self._budget = session, discovery, budget

    async def mark(self, mark: Mark, allowed: Allowed) -> Answer:
        """Write the annotations, if the object has the expected UID and they are `allowed` when their turn comes."""
        if stop := await self._budget.turn(allowed):
            return stop
        ref = mark.workload
        metadata = {"uid": mark.uid, "annotations": mark.annotations}
        if mark.version:
            metadata["resourceVersion"] = mark.version
        try:
            resource = PODS if mark.pod else await self._discovery.scalable((ref.api_version, ref.kind))
            body = encode({"metadata": metadata})
            request = resource.request("patch", ref.namespace, mark.pod or ref.name, body=body)
            written = await self._session.send(replace(request, params=BY_US))
            removed = _removed(decoded(written, _MARKED, "object").metadata, mark)
        except UnknownKindError as error:
            return unknown_kind(error)
        except ApiError as error:
            self._budget.pause(error.quiet)
            return _explain(error, mark)
        if removed:
            return failed(200, f"admission, as a webhook, does not keep its annotation {removed}")
        return Answer("done", 200)

    async def resize(self, resize: Resize, allowed: Allowed) -> Answer:
        """Resize the pod, if it is as the decision found it and it is `allowed` when its turn comes, and after the pod
        was read: the daemon may have been suspended meanwhile."""
        try:
            if await self._discovery.body_of("v1", "pods/resize") is None:
                return RECOMMENDED_ONLY
            return await self._budget.turn(allowed) or await self._change(resize, allowed)
        except ApiError as error:
            self._budget.pause(error.quiet)
            if other_uid(error):
                return conflict(404, f"it was deleted and recreated: {error}")
            if error.code in (404, 409):
                return conflict(error.code, f"it is gone or has changed: {error}")
            return refused_by(error)

    async def _change(self, resize: Resize, allowed: Allowed) -> Answer:
        # As it is now, for its resourceVersion: that of the pod that was judged is not kept.
        body = await self._session.send(PODS.request("get", resize.workload.namespace, resize.pod))
        pod = decoded(body, _POD, "Pod")
        if stop := _find_change(resize, to_pod(pod)) or allowed():
            return stop
        await self._patch(resize, pod)
        return Answer("done", 200)

    async def _patch(self, resize: Resize, pod: WirePod) -> None:
        sidecars = {container.name for container in pod.spec.init_containers or ()}
        # A strategic merge patch finds containers by their names, each in its own list.
        spec: dict[str, list[object]] = {}
        for name, amounts in resize.after.items():
            entry = {"name": name, "resources": {"requests": quantities(amounts)}}
            spec.setdefault("initContainers" if name in sidecars else "containers", []).append(entry)
        body = {"metadata": {"uid": resize.uid, "resourceVersion": pod.metadata.resource_version}, "spec": spec}
        request = PODS.request("patch", resize.workload.namespace, resize.pod, "resize", encode(body))
        await self._session.send(replace(request, content_type=STRATEGIC_PATCH, params=BY_US))


def _removed(metadata: Metadata, mark: Mark) -> str:
    """The first annotation that the object has not as it was to be written; empty: all are there."""
    kept = metadata.annotations or {}
    wanted = mark.annotations.items() if metadata.uid else ()
    return next((name for name, text in wanted if text is not None and kept.get(name) != text), "")


def _explain(error: ApiError, mark: Mark) -> Answer:
    if error.code == 409 and mark.version and not other_uid(error):
        return conflict(409, f"it changed: {error}")
    if error.code in (404, 409) or other_uid(error):  # 409: the uid is another, so that what was to be marked is gone
        return conflict(404, f"it is gone: {error}")
    return refused_by(error)


def _find_change(resize: Resize, pod: Pod) -> Answer | None:
    if pod.uid != resize.uid:
        return conflict(404, "it was deleted and recreated")
    present = {container.name: container.requests for container in pod.containers}
    for name, amounts in resize.after.items():
        now = {key: value for key, value in present.get(name, {}).items() if key in amounts}
        if now != resize.before.get(name, {}):
            return conflict(
                409, f"{name} requests {_format_amounts(now)}, not {_format_amounts(resize.before.get(name, {}))}"
            )
    return None


def quantities(amounts: Mapping[str, float]) -> dict[str, str]:
    """Amounts as Kubernetes quantities: cores in thousandths, bytes whole."""
    return {name: format_milli(milli(value)) if name == "cpu" else str(ceil(value)) for name, value in amounts.items()}


def _format_amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value}" for name, value in quantities(amounts).items()) or "nothing"
