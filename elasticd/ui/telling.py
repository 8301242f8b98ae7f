"""Finds out what commands print about pods: from the journal and, if it runs, from the daemon that writes it.

Knows where to ask, and what to say where there is no answer; knows nothing of how an answer is shown.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elasticd.base.errors import ConfigError, ElasticdError, UnavailableError, near, nearest
from elasticd.base.text import one_line
from elasticd.config import Settings, load_settings
from elasticd.model.moves import Underway
from elasticd.model.pod_status import PodStatus, undecided
from elasticd.registry import discover
from elasticd.ui import remote
from elasticd.ui.pod_story import Held, Story, held, story
from elasticd.ui.recent import pods

_KINDS = ("pod", "pods", "po")


def pod_of(words: Sequence[str], namespace: str = "") -> str | None:
    """The pod, NAMESPACE/NAME, that these words are about: `pod shop/web`, or shop/Pod/web, as the daemon prints it, or
    pod/web of a `namespace`; None: they are about a workload. Raises ConfigError where they name none."""
    parts = words[-1].split("/")
    if namespace and len(words) == 1 and len(parts) == 2 and parts[0].lower() in _KINDS:
        words, parts = ["pod", parts[1]], [parts[1]]
    if namespace and len(words) == 2 and len(parts) == 1 and words[0].lower() in _KINDS:
        parts = [namespace, *parts]
    if len(parts) == 3 and parts[1].lower() in _KINDS:
        parts = [parts[0], parts[2]]
    elif words[0].lower() not in _KINDS:
        return None
    text = " ".join(words[1:] if words[0].lower() in _KINDS else words)
    right = len(words) <= 2 and len(parts) == 2 and all(map(is_name, parts))
    if not right:
        raise ConfigError("", "POD", f'must be NAMESPACE/NAME, is "{one_line(text)}"')
    return "/".join(parts)


def is_name(part: str) -> bool:
    """Whether this can be a name: it is not empty, and is valid Unicode."""
    try:
        return bool(part.encode())
    except UnicodeEncodeError:
        return False


class PodReport(NamedTuple):
    """What the journal says of a pod, and what a running daemon knows of it, or why none is asked."""

    story: Story
    seen: PodStatus | str

    def record(self) -> dict[str, object]:
        """The report as JSON-ready data."""
        story, status = self.story, self.seen
        return {
            "decision": story.placing,
            "outcomes": story.placed,
            "moving": story.moving,
            "moved": story.moved,
            "gave_way": story.gave_way,
            "seen": None if isinstance(status, str) else status,
        }


def told_of(pod: str, folder: Path, config: Path, policy: str | None) -> PodReport:
    """Report on a pod, NAMESPACE/NAME, from the journal in this folder and from the daemon of this config, if the
    folder is the daemon's. Raises UnavailableError, which says why, if nothing was decided."""
    status, pod_story = _ask_daemon(pod, folder, config), story(folder, pod, policy)
    if pod_story.empty:
        raise UnavailableError(f"{folder}: {_explain_nothing(folder, pod, policy, pod_story, status)}")
    return PodReport(pod_story, status)


def _ask_daemon(pod: str, folder: Path, config: Path) -> PodStatus | str:
    try:
        settings = load_settings(config, discover())
        if settings.state.resolve() != folder.resolve():
            return f"{folder} is not the state folder of {config}"
        return remote.pod(settings.http, pod)
    except ElasticdError as error:
        return str(error)


def _explain_nothing(folder: Path, pod: str, policy: str | None, pod_story: Story, status: PodStatus | str) -> str:
    """Say that nothing was decided about a pod, and why, as far as it is known."""
    text = f"the journal has no decision about pod {one_line(pod)}"
    if policy is not None and pod_story.others:
        policies = sorted(pod_story.others)
        theirs = nearest(policy, policies) or f"; there are some of {', '.join(policies)}"
        return one_line(f'the journal has no decision of policy "{policy}" about pod {pod}{theirs}')
    if isinstance(status, str):
        return f"{text}{near(pod, pods(folder))}; told from the journal alone: {one_line(status)}"
    return f"{text}: {undecided(pod, status)}"


class Moves(NamedTuple):
    """What is being moved, and which pods are held back; `note`: why that is not known."""

    in_flight: list[Underway]
    held_back: list[Held]
    note: str = ""


def moves(settings: Settings) -> Moves:
    """The moves of a running daemon. What is held back is told by its journal, of policies in force. Raises
    UnavailableError where no daemon answers."""
    in_flight = remote.moves(settings.http)
    status = remote.pod(settings.http, "")
    if not status.leading:
        return Moves(in_flight, [], "what is held back is told by the elasticd that leads, and this one does not")
    try:
        held_back = held(settings.state)
    except UnavailableError as error:
        return Moves(in_flight, [], f"what is held back is not known: {error}")
    policies, going = {pool.policy for pool in status.pools}, {move.pod for move in in_flight}
    return Moves(
        in_flight,
        [entry for entry in held_back if entry.decision.policy in policies and entry.decision.pod not in going],
    )
