"""The formula over triggers: a small expression language, compiled once into functions.

Knows numbers, names of triggers and nothing else, so that a formula can do no harm. An unknown operand makes every
result unknown but that of `??`. Knows nothing of samples, pods or counts.

Operators from the loosest to the tightest, as in KEDA's language, expr:

    c ? a : b        ||        &&        == != < <= > >=        + -        * / %        -a !a        a ?? b

and min, max, abs, ceil, floor. A comparison gives 1 or 0; a condition is true unless it is 0. Of the libraries,
simpleeval and asteval evaluate Python and cel-python CEL: none has `??`, and all of them raise an error where a number
is missing.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from elasticd.api import Struct

Values = Mapping[str, float | None]
"""The reading of each trigger; None: not known."""

Node = Callable[[Mapping[str, float]], float]
"""A function of the readings that are known. Raises one of UNKNOWN where it needs another, or is no finite number."""

UNKNOWN = KeyError, ArithmeticError

LONGEST, DEEPEST = 500, 40
"""The most characters, and the most nested brackets and conditions: what a person can still read."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>\?\?|\|\||&&|[<>=!]=|[-+*/%<>!?:(),]))",
    re.ASCII,
)
_STRENGTHS = {"||": 10, "&&": 15, "+": 30, "-": 30, "*": 60, "/": 60, "%": 60, "??": 500}
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_COUNTED: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
}  # fmt: skip
_STRENGTHS |= dict.fromkeys(_COMPARED, 20)
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min, "max": max, "abs": abs, "ceil": math.ceil, "floor": math.floor,
}  # fmt: skip
_OF_ONE = ("abs", "ceil", "floor")
_NOT, _MINUS = 50, 90


class _Token(Struct, frozen=True):
    kind: str
    text: str
    column: int


class Formula(Struct, frozen=True):
    """A compiled formula: the names that it uses, and the function of their values."""

    names: frozenset[str]
    node: Node

    def of(self, values: Values) -> float | None:
        """Its value; None: not known."""
        try:
            return self.node({name: value for name, value in values.items() if value is not None})
        except UNKNOWN:
            return None


@lru_cache(maxsize=1024)
def read(text: str) -> Formula:
    """Compile a formula. Raises ValueError, with a message of one line, for invalid text."""
    if len(text) > LONGEST:
        raise ValueError(f"must have at most {LONGEST} characters, has {len(text)}")
    reader = _Reader(_tokens(text))
    node = reader.condition()
    reader.expect("", "end here or go on with an operator")
    return Formula(frozenset(reader.names), node)


def _tokens(text: str) -> list[_Token]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None or match.lastgroup is None:
            start = at + len(text[at:end]) - len(text[at:end].lstrip())
            raise ValueError(f"must be made of numbers, names and operators, has {text[start]!r} at column {start + 1}")
        kind = match.lastgroup
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*tokens, _Token("end", "", end + 1)]


class _Reader:
    """Parses tokens from the left by operator precedence (Pratt 1973)."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0
        self.names: set[str] = set()

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, mark: str) -> bool:
        if self._next.kind != "mark" or self._next.text != mark:
            return False
        self._at += 1
        return True

    def expect(self, mark: str, what: str) -> None:
        """Take this mark, or raise an error that says what must stand there. An empty mark is the end."""
        if self._next.text != mark:
            raise self._fault(what)
        self._at += 1

    def _fault(self, what: str) -> ValueError:
        actual = repr(self._next.text) if self._next.text else "the end"
        return ValueError(f"must {what} at column {self._next.column}, is {actual}")

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"must be at most {DEEPEST} deep, is deeper at column {self._next.column}")

    def condition(self) -> Node:
        """Parse `c ? a : b`, or an expression that binds tighter."""
        self._descend()
        node = self._operation(1)
        if self._accept("?"):
            yes = self.condition()
            self.expect(":", 'have ":"')
            node = _choose(node, yes, self.condition())
        self._depth -= 1
        return node

    def _operation(self, least: int) -> Node:
        """Parse operands and operators of at least this strength."""
        node = self._operand()
        while (strength := _STRENGTHS.get(self._next.text, 0)) >= least:
            mark = self._take().text
            right = self._operation(strength + 1)
            if mark in _COMPARED and self._next.text in _COMPARED:
                raise self._fault("have brackets around one of two comparisons")
            node = _join(mark, node, right)
        return node

    def _operand(self) -> Node:
        token = self._next
        if token.kind == "number":
            return _number(self._take())
        if token.kind == "name":
            return self._name(self._take())
        if self._accept("("):
            node = self.condition()
            self.expect(")", 'have ")"')
            return node
        if token.text in ("-", "!"):
            return self._sign(self._take().text)
        raise self._fault('have a number, a name, "-", "!" or "("')

    def _sign(self, mark: str) -> Node:
        self._descend()
        node = self._operation(_MINUS if mark == "-" else _NOT)
        self._depth -= 1
        return _apply(operator.neg if mark == "-" else operator.not_, (node,))

    def _name(self, token: _Token) -> Node:
        name = token.text
        if not self._accept("("):
            self.names.add(name)
            return lambda values: values[name]
        if name not in _FUNCTIONS:
            raise ValueError(f"must use {', '.join(_FUNCTIONS)} alone, has {name}( at column {token.column}")
        operands = [self.condition()]
        while name not in _OF_ONE and self._accept(","):
            operands.append(self.condition())
        self.expect(")", 'have ")"' if name in _OF_ONE else 'have "," or ")"')
        function = _FUNCTIONS[name]
        return _apply(lambda *values: function(values) if name in ("min", "max") else function(*values), operands)


def _number(token: _Token) -> Node:
    value = float(token.text)
    if not math.isfinite(value):
        raise ValueError(f"must have finite numbers, has {token.text} at column {token.column}")
    return lambda values: value


def _choose(condition: Node, yes: Node, no: Node) -> Node:
    return lambda values: yes(values) if condition(values) else no(values)


def _join(mark: str, left: Node, right: Node) -> Node:
    """An operation. The right operand of `??`, `&&` and `||` is evaluated only where the left one does not decide."""
    if mark == "??":
        return _coalesce(left, right)
    if mark == "&&":
        return lambda values: float(bool(left(values) and right(values)))
    if mark == "||":
        return lambda values: float(bool(left(values) or right(values)))
    return _apply(_COUNTED.get(mark) or _COMPARED[mark], (left, right))


def _coalesce(left: Node, right: Node) -> Node:
    def evaluate(values: Mapping[str, float]) -> float:
        try:
            return left(values)
        except UNKNOWN:
            return right(values)

    return evaluate


def _apply(function: Callable[..., float], operands: Sequence[Node]) -> Node:
    def evaluate(values: Mapping[str, float]) -> float:
        result = float(function(*[operand(values) for operand in operands]))
        if not math.isfinite(result):
            raise ArithmeticError
        return result

    return evaluate
