"""The options of [[source.topic]]: which topics to subscribe to, and what their levels and payloads name.

Knows templates such as `sensors/{namespace}/{workload}/load`, and which names Kubernetes allows; knows no broker.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta, Struct

from elasticd.ports.source import Subject
from elasticd.sources.mqtt.payload import RefusedError, Steps, compile_path, dig

KEY = "$key"
"""In `names`: the key of the item in the object that holds the items."""

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "pod": ("namespace", "pod"),
    "workload": ("namespace", "kind", "workload"),
    "node": ("node",),
}
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_ALLOWED = {
    "namespace": re.compile(_LABEL),
    "kind": re.compile(r"[A-Z][A-Za-z0-9]{0,62}"),
    "workload": re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*"),
}
_ALLOWED["pod"] = _ALLOWED["node"] = _ALLOWED["workload"]
_LEVEL = re.compile(r"\{([a-z_]+)\}")

Template = Annotated[str, Meta(min_length=1, max_length=1000)]
Fixed = Annotated[str, Meta(description="where neither the topic nor the payload names it")]


class Topic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One kind of topic: [[source.topic]]."""

    topic: Annotated[
        str,
        Meta(min_length=1, max_length=1000, description="template, as sensors/{namespace}/{workload}/load; + and #"),
    ]
    series: Annotated[str, Meta(min_length=1, max_length=63, description="name of what is measured")]
    subject: Annotated[Subject, Meta(description="what a reading is about")]
    namespace: Fixed = ""
    workload: Fixed = ""
    pod: Fixed = ""
    node: Fixed = ""
    kind: Fixed = "Deployment"
    payload: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description='"number", or the path of the number in JSON, or in each item of it; $: the whole',
        ),
    ] = "number"
    scale: Annotated[float, Meta(gt=0, description="what a number is multiplied by, to be in the base unit")] = 1.0
    window: Annotated[float, Meta(ge=0, description="seconds that the sender averages over")] = 0.0
    time: Annotated[
        str,
        Meta(max_length=200, description="path of the time of measurement: epoch s or ms, or RFC 3339; empty: none"),
    ] = ""
    sequence: Annotated[
        str, Meta(max_length=200, description="path of the message's number in its sender's sequence; empty: none")
    ] = ""
    consecutive: Annotated[
        bool, Meta(description="whether each subject's sequence grows by 1 a message: what it skips counts as missed")
    ] = False
    items: Annotated[
        str, Meta(max_length=200, description="path of an array or object of readings in one payload; empty: none")
    ] = ""
    names: Annotated[
        dict[str, str], Meta(description="of each item, the paths of namespace, pod, ...; $key: the item's own key")
    ] = {}
    offline: Annotated[
        str, Meta(max_length=1000, description="template of the topic of senders' last wills; empty: none")
    ] = ""
    offline_payload: Annotated[str, Meta(min_length=1, max_length=1000, description="says that it is gone")] = "offline"
    qos: Annotated[int, Meta(ge=0, le=1, description="of the subscription")] = 1

    def __post_init__(self) -> None:
        levels = self.levels
        if strange_levels := sorted(_levels(self.offline, "offline") - levels):
            raise ValueError(f"offline: must have only levels that topic has too, has {{{strange_levels[0]}}}")
        self._check_paths()
        if strange := sorted(set(self.names) - {*_ALLOWED}):
            raise ValueError(f"names: must name only {', '.join(sorted(_ALLOWED))}, has {strange[0]}")
        for name in _NEEDED[self.subject]:
            if name not in levels and name not in self.names:
                fixed = getattr(self, name)
                if not fixed:
                    raise ValueError(f"{name}: must be given, or be a level of topic: {{{name}}}, is empty")
                if not _ALLOWED[name].fullmatch(fixed):
                    raise ValueError(f'{name}: must be a name that Kubernetes allows, is "{fixed[:60]}"')

    def _check_paths(self) -> None:
        if self.payload == "number" and (self.time or self.sequence or self.items):
            raise ValueError('payload: must be a path where time, sequence or items is one, is "number"')
        if self.consecutive and (not self.sequence or self.items):
            missing = "without items" if self.sequence else "with sequence"
            raise ValueError(f"consecutive: must be true only {missing}, is true")
        if self.names and not self.items:
            raise ValueError("items: must be given with names, is empty")
        paths = {"payload": self.payload, "time": self.time, "sequence": self.sequence, "items": self.items}
        paths |= {f"names.{name}": path for name, path in self.names.items()}
        for option, path in paths.items():
            if path and path not in ("number", KEY):
                try:
                    compile_path(path)
                except ValueError as error:
                    raise ValueError(f"{option}: {error}") from None

    @cached_property
    def levels(self) -> frozenset[str]:
        return _levels(self.topic, "topic")

    @cached_property
    def filters(self) -> tuple[str, ...]:
        """The filters to subscribe to: of readings, and of last wills if there are any."""
        return tuple(_LEVEL.sub("+", template) for template in (self.topic, self.offline) if template)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return _pattern(self.topic)

    @cached_property
    def offline_pattern(self) -> re.Pattern[str] | None:
        return _pattern(self.offline) if self.offline else None

    @cached_property
    def sender_levels(self) -> tuple[str, ...]:
        """The levels that a sender's last will and its readings share."""
        return tuple(sorted(_levels(self.offline, "offline")))

    @cached_property
    def paths(self) -> dict[str, Steps]:
        own = {"payload": self.payload, "time": self.time, "sequence": self.sequence, "items": self.items}
        return {name: compile_path(path) for name, path in own.items() if path and path != "number"}

    @cached_property
    def item_paths(self) -> tuple[Steps | None, ...]:
        """The paths of `names`, compiled; None for an item's own key."""
        return tuple(None if path == KEY else compile_path(path) for path in self.names.values())

    def key(self, names: Mapping[str, Any]) -> str:
        """The subject's key. Raises RefusedError for a name that Kubernetes does not allow."""
        parts = []
        for name in _NEEDED[self.subject]:
            part = names[name] if name in names else getattr(self, name)
            if type(part) is not str or not _ALLOWED[name].fullmatch(part):
                raise RefusedError("name")
            parts.append(part)
        return "/".join(parts)

    def named_by(self, key: str, item: Any) -> tuple[Any, ...]:
        """The values that an item of a batch gives for `names`, in their order."""
        return tuple([key if steps is None else dig(item, steps) for steps in self.item_paths])


def _levels(template: str, option: str) -> frozenset[str]:
    """The names in a template. Raises ValueError for a malformed one."""
    names: list[str] = []
    parts = template.split("/")
    for index, part in enumerate(parts):
        if name := _LEVEL.fullmatch(part):
            names.append(name[1])
        elif part == "#" and index < len(parts) - 1:
            raise ValueError(f'{option}: must have # only at the end, is "{template[:60]}"')
        elif part not in ("+", "#") and re.search(r"[{}+#\0]", part):
            raise ValueError(f'{option}: must have whole levels as {{name}}, + or #, has "{part[:60]}"')
    if len(names) > len(set(names)):
        raise ValueError(f'{option}: must have each name once, is "{template[:60]}"')
    return frozenset(names)


def _pattern(template: str) -> re.Pattern[str]:
    """A pattern of the topics that match the template, with a group for each name."""
    words = []
    for part in template.split("/"):
        if name := _LEVEL.fullmatch(part):
            words.append(f"(?P<{name[1]}>[^/]*)")
        else:
            words.append({"+": "[^/]*", "#": ".*"}.get(part, re.escape(part)))
    # The filter a/# also matches a.
    text = "/".join(words)
    return re.compile(text.removesuffix("/.*") + "(?:/.*)?" if text.endswith("/.*") else text, re.DOTALL)
