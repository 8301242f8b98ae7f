"""Text from strangers, made fit for one line of a log, a journal or a terminal.

Knows characters; knows nothing of who said it.
"""

import codecs
import reprlib
import unicodedata
from collections.abc import Mapping, Sequence

LONGEST = 500
"""Characters of one line; what is longer is cut."""

_TABLES = (list, tuple, dict, set, frozenset)
_BRIEF = reprlib.Repr()
"""Looks at the first few entries alone: there may be millions."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """Put a text on one line: what cannot be printed (or encoded) is escaped, and it is cut to `longest` characters."""
    text = " ".join(text[: 4 * longest].split())
    if not text.isprintable():
        text = escape(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def plain(text: str) -> str:
    """Escape what cannot be printed (or encoded) in a text, and keep its lines."""
    return "\n".join(line if line.isprintable() else escape(line) for line in text.split("\n"))


codecs.lookup("unicode_escape")  # is imported when first looked up: not when no file can be opened any more


def escape(text: str) -> str:
    """Escape what cannot be printed (or encoded) in a text, line breaks too."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def unprintable(text: str) -> str:
    """The first control character of a text, escaped; empty: there is none. Those that break and indent lines are
    allowed; those that only change how others look, such as a direction of writing, are not."""
    for character in "" if text.isprintable() else text:
        if unicodedata.category(character) in ("Cc", "Cf") and character not in "\t\n\r":
            return escape(character)
    return ""


def is_name(text: str) -> bool:
    """Whether a text can be a name: it can be seen, is on one line, and does not begin or end with a space."""
    return bool(text) and text.isprintable() and text == text.strip()


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 pod, 2 pods, 2 policies."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{count} {noun}s"


def named(names: Sequence[str], most: int = 3) -> str:
    """The first of these names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def tallied(counts: Mapping[str, int]) -> str:
    """Each word with its count, the greatest count first; where there is only one word, that word alone."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {word}" for word, count in ordered) if len(ordered) > 1 else "".join(counts)


def last_heard(at: float, confirmed: float) -> str:
    """When the cluster was last heard of, for a sentence; 0: never."""
    if not confirmed:
        return "the cluster has not been read yet"
    return f"the cluster was last heard of {at - confirmed:.0f} s ago"


def raised(error: BaseException) -> str:
    """An exception's type and text in one line, even if its text cannot be had."""
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException:  # a stranger's: it may do anything when it is looked at
        return kind
    return one_line(f"{kind}: {text}" if text else kind)


def shown(value: object, longest: int = 60) -> str:
    """A value as TOML or JSON writes it, near enough to recognise, in one line."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if not isinstance(value, str):
        return one_line(_text(value), longest)
    escaped = escape(value[:longest])
    return f'"{escaped}"' if len(escaped) <= longest - 2 else f'"{escaped[: longest - 4]}...'


def _text(value: object) -> str:
    try:
        return _BRIEF.repr(value) if type(value) in _TABLES else str(value)
    except BaseException:
        return f"a {type(value).__name__}"
