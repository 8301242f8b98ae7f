"""Units: Kubernetes quantities, the integer thousandths the HPA counts in, and written times.

Knows numbers and their suffixes; knows nothing of pods, policies or the world.
"""

import math
import re
from datetime import datetime
from functools import lru_cache
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|μs|ns|s)")
_DURATION_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}

_SHORT = 280
"""Digits of numbers that a double holds with any suffix."""


def parse_quantity(text: str) -> float:
    """A Kubernetes quantity ("250m", "1.5Gi", "1e3") in its base unit (cores, bytes, ones), as the nearest double.
    Raises ValueError when the text is not a quantity, or one that no double can hold."""
    digits = text[:-2] if text[-1:] == "i" else text[:-1]
    if digits.isdecimal() and digits.isascii() and len(digits) < _SHORT:  # nearly all are, and there are very many
        suffix = text[len(digits) :]
        if suffix in _DECIMAL:
            return float(f"{digits}e{_DECIMAL[suffix]}")
        if suffix in _BINARY:
            return float(digits) * _BINARY[suffix]
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"must be a quantity such as 250m, 2 or 1.5Gi, is {text!r}")
    number, suffix, exponent = match.groups()
    if suffix in _BINARY:
        value = float(number) * _BINARY[suffix]
    else:
        value = float(f"{number}e{_DECIMAL[suffix]}" if suffix else f"{number}e{exponent or 0}")
    if math.isinf(value):
        raise ValueError(f"must be less than 1.8e308, is {text!r}")
    return value


def amount(quantity: Any) -> float:
    """The amount in base units; NaN when it is no quantity or not finite."""
    if isinstance(quantity, bool):
        return math.nan
    try:
        value = parse_quantity(quantity) if isinstance(quantity, str) else float(quantity)
    except (ValueError, TypeError, OverflowError):
        return math.nan
    return value if math.isfinite(value) else math.nan


@lru_cache(maxsize=256)
def go_seconds(text: str) -> float:
    """Seconds of a Go duration such as 30s or 1m0.5s; 0 when it is none."""
    parts = _DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return 0.0
    return sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)


def milli(value: float) -> int:
    """Thousandths of a value, rounded up, as Kubernetes' Quantity.MilliValue does.

    The sixth decimal of a thousandth is where a quantity ends (one nano); rounding there first removes the binary
    noise of a double, so 0.069 is 69 and not 70 (up to some millions; beyond, a fraction may come out one thousandth
    too high). Raises ValueError for NaN and infinities.
    """
    if not math.isfinite(value):
        raise ValueError(f"must be finite, is {value}")
    if value == int(value):
        return int(value) * 1000
    return math.ceil(round(value * 1000, 6))


def format_milli(thousandths: int) -> str:
    """Thousandths as Kubernetes prints them: 1500 is "1500m", 2000 is "2"."""
    units, remainder = divmod(thousandths, 1000)
    return f"{thousandths}m" if remainder else str(units)


def format_amount(resource: str, amount: int, *, up: bool) -> str:
    """Thousandths of a core, bytes or ones as a person writes them, never less than they are (`up`) or never more."""
    if resource == "cpu":
        return format_milli(amount)
    if amount < 2**20:
        return str(amount)
    if amount % 2**30 == 0:
        return f"{amount >> 30}Gi"
    return f"{-(-amount >> 20) if up else amount >> 20}Mi"


def parse_time(text: str) -> float:
    """An RFC 3339 time with its offset from UTC, in seconds since the epoch; NaN for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return math.nan if moment.tzinfo is None else moment.timestamp()
