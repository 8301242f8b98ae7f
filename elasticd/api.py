"""All that a plugin may import."""

from msgspec import Meta, Struct, field

from elasticd.derived import Derived
from elasticd.foreseen import Forecast, PerPod
from elasticd.hookspecs import hookimpl
from elasticd.model import (
    Change,
    Condition,
    Container,
    Decision,
    Limit,
    Measure,
    Node,
    Observation,
    Outcome,
    Past,
    Pod,
    Quality,
    Recommendation,
    Ref,
    Run,
    Sample,
    Series,
    Workload,
)
from elasticd.policy import Bounds, Count, Policy, Seconds, Strategy
from elasticd.units import format_milli, milli, parse_quantity
from elasticd.windows import Pick, Rate, Rates, cool_down, restrain, stabilize

__all__ = [
    "Bounds",
    "Change",
    "Condition",
    "Container",
    "Count",
    "Decision",
    "Derived",
    "Forecast",
    "Limit",
    "Measure",
    "Meta",
    "Node",
    "Observation",
    "Outcome",
    "Past",
    "PerPod",
    "Pick",
    "Pod",
    "Policy",
    "Quality",
    "Rate",
    "Rates",
    "Recommendation",
    "Ref",
    "Run",
    "Sample",
    "Seconds",
    "Series",
    "Strategy",
    "Struct",
    "Workload",
    "cool_down",
    "field",
    "format_milli",
    "hookimpl",
    "milli",
    "parse_quantity",
    "restrain",
    "stabilize",
]
