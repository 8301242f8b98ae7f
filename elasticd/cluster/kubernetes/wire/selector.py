"""Label selectors: the grammar of `status.selector` and of labelSelector objects.

Knows equality and set-based requirements; knows nothing of pods, stores or the API.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from elasticd.cluster.kubernetes.wire.objects import LabelSelector, WireRequirement

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EQUALITY = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_COMMA = re.compile(r",(?![^(]*\))")
_WORD = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class SelectorError(ValueError):
    """A selector that is empty or does not follow the grammar."""


class Requirement(Struct, frozen=True, gc=False):
    """One condition on one label. `values` is empty for exists and !."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it. As in Kubernetes, a missing label is not in any set."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case _:
                return value is None


class Selector(Struct, frozen=True, gc=False):
    """Requirements that must all be met."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The (label, value) pairs that every selected object carries: what an index can look up."""
        return tuple(
            (requirement.key, next(iter(requirement.values)))
            for requirement in self.requirements
            if requirement.operator == "in" and len(requirement.values) == 1
        )


@lru_cache(maxsize=16384)
def parse_selector(text: str) -> Selector:
    """The string form, such as `app=web,tier in (a, b),!canary`. Raises SelectorError."""
    if not text.strip():
        raise SelectorError("must select something, is empty")
    return Selector(tuple(_requirement(part.strip()) for part in _COMMA.split(text)))


def _requirement(text: str) -> Requirement:
    if matched := _EQUALITY.fullmatch(text):
        key, operator, value = matched.groups()
        return Requirement(key, "notin" if operator == "!=" else "in", frozenset((value,)))
    if matched := _SET.fullmatch(text):
        key, operator, inside = matched.groups()
        return Requirement(key, operator, _values(text, inside))
    if matched := _EXISTS.fullmatch(text):
        absent, key = matched.groups()
        return Requirement(key, "!" if absent else "exists")
    raise SelectorError(f"must be made of key=value, key in (a, b), key or !key, is {text!r}")


def _values(text: str, inside: str) -> frozenset[str]:
    values = [value.strip() for value in inside.split(",")]
    if not all(re.fullmatch(_VALUE, value) for value in values):
        raise SelectorError(f"must have label values between the brackets, is {text!r}")
    return frozenset(values)


def to_text(selector: LabelSelector | None) -> str:
    """The string form of a labelSelector object; empty when it selects everything or is not there.

    An operator that is not known comes out as a text that does not parse, so that the fault is seen.
    """
    if selector is None:
        return ""
    pairs = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    return ",".join(pairs + [_expression(expression) for expression in selector.match_expressions or ()])


def _expression(expression: WireRequirement) -> str:
    match _WORD.get(expression.operator):
        case "in" | "notin" as word:
            return f"{expression.key} {word} ({','.join(sorted(expression.values or ()))})"
        case "exists":
            return expression.key
        case "!":
            return f"!{expression.key}"
        case _:
            return f"{expression.key} {expression.operator} ?"
