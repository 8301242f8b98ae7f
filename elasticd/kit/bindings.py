"""Binding rules: to which nodes a pod is bound by their labels, and what is done where they cannot take it.

Records, and the annotation in which a pod brings its own. Knows labels; knows no nodes in number and places nothing.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from elasticd.base.decode import convert
from elasticd.base.errors import UNREADABLE, ConfigError
from elasticd.base.text import shown
from elasticd.model.pod_spec import Expression, Operator, possible, possible_key, whole_number
from elasticd.model.workload import Pod

BINDING = "elasticd.io/binding"
"""Annotation of a pod: its binding, as JSON."""

OWN_BINDING = "its annotation"
"""Whence a pod has a binding that it brings itself."""

LabelChange = Annotated[
    Literal["still", "reschedule", "kill"],
    Meta(description="when its node's labels no longer match: it stays, goes back to the queue, or is deleted"),
]
Empty = Annotated[
    Literal["default", "reschedule"],
    Meta(description="where no node matches: default places it as if it were not bound, reschedule lets it wait"),
]
NotFit = Annotated[
    Literal["default", "force", "reschedule"],
    Meta(
        description="where nodes match and none has room: default places it elsewhere, force preempts others, "
        "reschedule lets it wait"
    ),
]

_KUBERNETES: dict[str, Operator] = {
    "in": "In", "notIn": "NotIn", "exists": "Exists", "doesNotExist": "DoesNotExist", "gt": "Gt", "lt": "Lt",
}  # fmt: skip


class LabelRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One expression about a label of nodes."""

    key: Annotated[str, Meta(min_length=1, description="a label of nodes")]
    operator: Annotated[
        Literal["in", "notIn", "exists", "doesNotExist", "gt", "lt"],
        Meta(description="how the label is compared; gt and lt compare whole numbers"),
    ]
    values: Annotated[
        tuple[str, ...], Meta(description="one or more for in and notIn, one number for gt and lt, none else")
    ] = ()

    def __post_init__(self) -> None:
        if not possible_key(self.key):
            rule = "what a label's key can be (NAME or DOMAIN/NAME, NAME at most 63 of A-Z a-z 0-9 - _ .)"
            raise ValueError(f"key: must be {rule}, is {shown(self.key)}")
        count = len(self.values)
        if self.operator in ("in", "notIn") and not count:
            raise ValueError(f"values: must not be empty for {self.operator}, is []")
        if impossible := [value for value in self.values if not possible((value,))]:
            rule = "what a label can be (at most 63 of A-Z a-z 0-9 - _ .)"
            raise ValueError(f"values: must be {rule}, is {shown(impossible[0])}")
        if self.operator in ("exists", "doesNotExist") and count:
            raise ValueError(f"values: must be left out for {self.operator}, is {shown(self.values[0])}")
        if self.operator in ("gt", "lt") and (count != 1 or whole_number(self.values[0]) is None):
            listed = ", ".join(map(shown, self.values))
            least = " less than 2^63" if count == 1 and self.values[0].isdecimal() else ""
            raise ValueError(f"values: must be one whole number{least} for {self.operator}, is [{listed}]")

    @property
    def expression(self) -> Expression:
        return Expression(self.key, _KUBERNETES[self.operator], self.values)

    def __str__(self) -> str:
        return f"{self.key} {self.operator}" + f" [{', '.join(self.values)}]" * bool(self.values)


class Binding(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that match all expressions, and what is done where there are none, where they are full, and later when
    labels change. Without expressions it binds to nothing. Thesis, 4.2 (multiNodeSelectors)."""

    expressions: Annotated[
        tuple[LabelRule, ...], Meta(description="rules about labels of nodes, all of which hold")
    ] = ()
    node_label_change: LabelChange = "still"
    collection_is_empty: Empty = "reschedule"
    resource_not_fit: NotFit = "reschedule"

    def matches(self, labels: dict[str, str]) -> bool:
        return all(rule.expression.matches(labels) for rule in self.expressions)

    def __str__(self) -> str:
        return ", ".join(map(str, self.expressions))


class _Written(Binding, frozen=True, rename="camel"):
    """As the thesis spells it."""

    node_label_change: LabelChange = "still"
    collection_is_empty: Empty = "reschedule"
    resource_not_fit: NotFit = "reschedule"


class BindingRule(Binding, frozen=True):
    """A binding by the operator, of the pods that it selects."""

    pods: Annotated[dict[str, str], Meta(description="labels of the pods: all of them; none: every pod")] = field(
        default_factory=dict
    )
    namespaces: Annotated[tuple[str, ...], Meta(min_length=1, description='of the pods; "*" is any')] = ("*",)

    def __post_init__(self) -> None:
        if not self.expressions:
            raise ValueError("expressions: must not be empty, is []")

    def has(self, pod: Pod) -> bool:
        """Whether the rule is about this pod."""
        inside = pod.namespace in self.namespaces or "*" in self.namespaces
        return inside and self.pods.items() <= pod.labels.items()

    def brings_nothing(self, namespaces: Sequence[str]) -> Iterator[str]:
        """Parts without effect, as "option: ...": expressions that no node can obey, namespaces outside of these."""
        for key in dict.fromkeys(rule.key for rule in self.expressions):
            if {"exists", "doesNotExist"} <= {rule.operator for rule in self.expressions if rule.key == key}:
                yield f"expressions: no node ever matches: {key} must exist and must not"
        outside = [namespace for namespace in self.namespaces if namespace not in ("*", *namespaces)]
        if outside and "*" not in namespaces:
            yield f"namespaces: brings nothing for {', '.join(outside)}: not in pool.namespaces"


def bindings_of(pod: Pod, rules: Sequence[BindingRule], *, annotations: bool) -> list[tuple[str, Binding]]:
    """All bindings of a pod, each with where it comes from: its own annotation (if `annotations` count), then these
    rules. Raises ValueError where its own cannot be read, as binding_of does."""
    own = binding_of(pod) if annotations else None
    bindings: list[tuple[str, Binding]] = [] if own is None else [(OWN_BINDING, own)]
    return bindings + [(f"rules[{index}]", rule) for index, rule in enumerate(rules) if rule.has(pod)]


def binding_of(pod: Pod) -> Binding | None:
    """What a pod's own annotation binds it to; None: it has none, or one without expressions. Raises ValueError where
    it cannot be read, in one line: the key, what must hold, what is."""
    text = pod.annotations.get(BINDING)
    if text is None:
        return None
    binding = _read_binding(text)
    if isinstance(binding, str):
        raise ValueError(binding)
    return binding if binding.expressions else None


@lru_cache(maxsize=1024)
def _read_binding(text: str) -> Binding | str:
    """The binding, or what is wrong with it. Cached, as a pod that waits is looked at again and again."""
    try:
        raw = msgspec.json.decode(text)
    except UNREADABLE as error:
        return f"{BINDING}: must be JSON, is {shown(text)}: {error}"
    if not isinstance(raw, dict):
        return f"{BINDING}: must be a JSON object, is {shown(raw)}"
    try:
        return Binding(*msgspec.structs.astuple(convert(raw, _Written, BINDING)))
    except ConfigError as error:
        # What is worded for TOML, in words for JSON.
        return str(error).partition(": write [[")[0].replace("one table", "an object").replace("a table", "an object")
