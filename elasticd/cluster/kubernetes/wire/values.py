"""Values as Kubernetes writes them: quantities and Go's durations.

Knows that they come from outside: what makes no sense stays in sight as NaN, so that judgement can refuse it.
Knows nothing of what they are values of.
"""

import math
import re
from functools import lru_cache
from typing import Any

from elasticd.base.units import parse_quantity

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|μs|ns|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


def amount(quantity: Any) -> float:
    """The amount in base units; NaN when it is no quantity or not finite."""
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
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
