"""Compare what is decided now with what was recorded: `python -m tests.decisions [--record] [SCENE ...]`.

Exit code 1 where anything differs; the first differences are printed, field by field. `--record` takes what comes out
now for what is right, which a change of behaviour has to say in its commit.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from tests.decisions.scenes import SCENES, lines, record, recorded

SHOWN = 4
"""Differences that are printed of a scene."""

RENAMED: dict[str, str] = {}
"""Words of records that have another name now: what was recorded is read as if it had been written with the new one."""


def main(arguments: Sequence[str]) -> int:
    """Record or compare these scenes, or all."""
    names = [name for name in arguments if not name.startswith("-")] or [*SCENES]
    if unknown := [name for name in names if name not in SCENES]:
        print(f"must be of {', '.join(SCENES)}, is {unknown[0]}")
        return 2
    different = 0
    for name in names:
        found = list(lines(name))
        if "--record" in arguments:
            record(name, found)
            print(f"{name}: {len(found)} records")
            continue
        told = list(differences([_renamed(line) for line in recorded(name)], found))
        different += bool(told)
        print(f"{name}: {len(found)} records, {len(told) or 'none'} different")
        for line in told[:SHOWN]:
            print(f"  {line}")
    return 1 if different else 0


def _renamed(line: str) -> str:
    for old, new in RENAMED.items():
        line = line.replace(old, new)
    return line


def differences(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """A line for each record that is not as it was, with the fields in which it differs."""
    for number, (old, new) in enumerate(zip_longest(before, after, fillvalue="null"), 1):
        if old != new:
            was, is_ = json.loads(old), json.loads(new)
            fields = "; ".join(_fields(was, is_)) or "in the order of its fields"
            shown = is_ or was
            yield f"record {number}, at {shown.get('at')}, {shown.get('policy')}: {fields}"[:300]


def _fields(was: Any, is_: Any, key: str = "") -> Iterator[str]:
    if isinstance(was, dict) and isinstance(is_, dict):
        for name in dict.fromkeys([*was, *is_]):
            yield from _fields(was.get(name), is_.get(name), f"{key}.{name}" if key else name)
    elif isinstance(was, list) and isinstance(is_, list) and len(was) == len(is_):
        for index, pair in enumerate(zip(was, is_, strict=True)):
            yield from _fields(*pair, f"{key}[{index}]")
    elif was != is_:
        yield f"{key or 'record'} was {json.dumps(was)}, is {json.dumps(is_)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
