"""The commands `pause` and `resume`: a freeze annotation at workloads, with until when, who and why.

The daemon reads it as one that a person writes by hand, so it survives the daemon, and every daemon sees it. Knows the
annotation; knows nothing of what it does to a decision.
"""

import asyncio
import getpass
import socket
from collections.abc import Sequence

from elasticd.base.errors import UnavailableError
from elasticd.base.shapes import moment
from elasticd.base.text import one_line
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.cluster.kubernetes.objects import Objects
from elasticd.cluster.kubernetes.session import ApiError
from elasticd.decision.workload.vetoes import FREEZE, UNTIL
from elasticd.model.jobs import JOB_KIND
from elasticd.model.reports import StatusReport
from elasticd.model.workload import Ref


def governed(status: StatusReport, policy: str) -> list[Ref]:
    """The workloads that a policy has decided about. Raises UnavailableError where there is none."""
    refs = sorted({decision.workload for decision in status.decisions if decision.policy == policy})
    if not refs:
        raise UnavailableError(f"policy {one_line(policy)}: must have decided about a workload, has not")
    return refs


def note(way: str, until: float | None, why: str) -> str:
    """The annotation of a pause in a direction, until a time (seconds since the epoch; None: until it is resumed)."""
    parts = [way, *([f"{UNTIL}{moment(until)}"] if until is not None else [])]
    parts += [
        f"by {getpass.getuser()}@{socket.gethostname()}",
        *([one_line(why.replace(";", ","), 200)] if why else []),
    ]
    return "; ".join(parts)


def annotate(cluster: Kubernetes, refs: Sequence[Ref], text: str | None) -> list[str]:
    """Write the annotation at these workloads, or remove it; a line for each. Raises UnavailableError for the first
    that cannot be written."""
    return asyncio.run(_annotate(cluster, refs, text))


async def _annotate(cluster: Kubernetes, refs: Sequence[Ref], text: str | None) -> list[str]:
    async with cluster.objects() as objects:
        return [await _annotate_one(objects, ref, text) for ref in refs]


async def _annotate_one(objects: Objects, ref: Ref, text: str | None) -> str:
    if (ref.api_version, ref.kind) == JOB_KIND:
        raise UnavailableError(f'{ref}: must be a workload, is a set of Jobs: set freeze = "both" in its policy')
    resource = await objects.resource([(ref.api_version, ref.kind)])
    try:
        await objects.patch(resource, ref.namespace, ref.name, {"metadata": {"annotations": {FREEZE: text}}})
    except ApiError as error:
        raise UnavailableError(f"{ref}: must be writable, is not: {error}") from None
    return f"{ref}: {text}" if text else f"{ref}: resumed"
