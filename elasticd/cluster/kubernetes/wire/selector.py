"""Label selectors: the grammar of `status.selector` and of labelSelector objects.

Knows equality and set-based requirements; knows nothing of pods, stores or the API.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from elasticd.cluster.kubernetes.wire.objects import LabelSelector, WireRequirement
from elasticd.model.pod_spec import Expression

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EQUALITY = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_COMMA = re.compile(r",(?![^(]*\))")
_FORMS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}


class SelectorError(ValueError):
    """A selector that is empty or does not follow the grammar."""


class Selector(Struct, frozen=True, gc=False):
    """Rules about labels that must all be met."""

    rules: tuple[Expression, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are selected."""
        for rule in self.rules:  # noqa: SIM110  # run for very many pods
            if not rule.matches(labels):
                return False
        return True

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The (label, value) pairs that every selected object carries: what an index can look up."""
        return [(rule.key, rule.values[0]) for rule in self.rules if rule.operator == "In" and len(rule.values) == 1]


@lru_cache(maxsize=16384)
def parse_selector(text: str) -> Selector:
    """The string form, such as `app=web,tier in (a, b),!canary`. Raises SelectorError."""
    if not text.strip():
        raise SelectorError("must select something, is empty")
    return Selector(tuple(_rule(part.strip()) for part in _COMMA.split(text)))


def _rule(text: str) -> Expression:
    if matched := _EQUALITY.fullmatch(text):
        key, operator, value = matched.groups()
        return Expression(key, "NotIn" if operator == "!=" else "In", (value,))
    if matched := _SET.fullmatch(text):
        key, operator, inside = matched.groups()
        values = tuple(dict.fromkeys(value.strip() for value in inside.split(",")))
        if not all(re.fullmatch(_VALUE, value) for value in values):
            raise SelectorError(f"must have label values between the brackets, is {text!r}")
        return Expression(key, "NotIn" if operator == "notin" else "In", values)
    if matched := _EXISTS.fullmatch(text):
        absent, key = matched.groups()
        return Expression(key, "DoesNotExist" if absent else "Exists")
    raise SelectorError(f"must be made of key=value, key in (a, b), key or !key, is {text!r}")


def to_text(selector: LabelSelector | None) -> str:
    """The string form of a labelSelector object; empty when it selects everything or is not there. An operator that is
    not known comes out as a text that does not parse, so that the fault is seen."""
    if selector is None:
        return ""
    pairs = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    return ",".join(pairs + [_expression(expression) for expression in selector.match_expressions or ()])


def _expression(rule: WireRequirement) -> str:
    form = _FORMS.get(rule.operator, "{key} {operator} ?")
    return form.format(key=rule.key, operator=rule.operator, values=",".join(sorted(rule.values or ())))
