"""Which pods stay where they are, whoever wants them moved or out of the way.

Pure. Knows what makes a pod one that must not be disturbed; knows no policy.
"""

from elasticd.model import Pod

CRITICAL = 2_000_000_000
"""The least priority of system-critical pods."""

SPARE = "elasticd.io/do-not-disrupt"
"""Annotation of a pod that is to be left alone."""


def stationary(pod: Pod) -> bool:
    """Whether it belongs to its node: a kubelet runs it from a file, or a DaemonSet wants it there and ends it where it
    does not. Nobody is told that such a pod stays."""
    return pod.static or pod.owner[0] in ("Node", "DaemonSet")


def rooted(pod: Pod) -> tuple[str, str] | None:
    """Why a pod can never be moved or made to give way: one word and a sentence; None: it can."""
    if pod.static or pod.owner[0] == "Node":
        return "Static", "a kubelet runs it from a file"
    if pod.owner[0] == "DaemonSet":
        return "DaemonSet", "its DaemonSet wants it on this node"
    if pod.needs.priority >= CRITICAL:
        return "Critical", "it is of system-critical priority"
    if pod.annotations.get(SPARE, "false") != "false":
        return "DoNotDisrupt", f"its annotation {SPARE} asks for it"
    return None
