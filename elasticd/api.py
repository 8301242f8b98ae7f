"""All that a plugin may import."""

from msgspec import Meta, Struct, field

from elasticd.calendars import Hours, Instant, Spell, Standing, standing, steady
from elasticd.derived import Derived
from elasticd.hookspecs import hookimpl
from elasticd.memory import Change, Past, Point, Run
from elasticd.model import (
    Condition,
    Container,
    Decision,
    Limit,
    Mark,
    Measure,
    Node,
    Observation,
    Outcome,
    Pod,
    Quality,
    Recommendation,
    Ref,
    Sample,
    Series,
    Workload,
)
from elasticd.policy import Bounds, Count, Policy, Seconds, Strategy
from elasticd.resources import Resources
from elasticd.sizes import unfit
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
    "Hours",
    "Instant",
    "Limit",
    "Measure",
    "Meta",
    "Node",
    "Observation",
    "Outcome",
    "Past",
    "Mark",
    "Pick",
    "Point",
    "Pod",
    "Policy",
    "Quality",
    "Rate",
    "Rates",
    "Recommendation",
    "Ref",
    "Resources",
    "Run",
    "Sample",
    "Seconds",
    "Series",
    "Spell",
    "Standing",
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
    "standing",
    "steady",
    "unfit",
]
