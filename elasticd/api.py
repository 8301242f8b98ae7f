"""All that a plugin may import."""

from msgspec import Meta, Struct, field

from elasticd.actions import Mark
from elasticd.batch import Job
from elasticd.calendars import Hours, Instant, Spell, Standing, standing, steady
from elasticd.derived import Derived
from elasticd.foreseen import Forecast, PerPod
from elasticd.hookspecs import hookimpl
from elasticd.memory import Change, Past, Point, Run
from elasticd.model import (
    Condition,
    Container,
    Limit,
    Measure,
    Node,
    Observation,
    Pod,
    Quality,
    Rank,
    Recommendation,
    Ref,
    Room,
    Sample,
    Series,
    Workload,
)
from elasticd.past import timeline
from elasticd.policy import MOST, Bounds, Count, Policy, Poll, Seconds, Strategy, unheeded
from elasticd.records import Decision, Outcome
from elasticd.resources import Resources
from elasticd.serving import Serving, request_of, serving
from elasticd.sizes import unfit
from elasticd.units import format_milli, milli, parse_quantity
from elasticd.windows import Pick, Rate, Rates, cool_down, restrain, stabilize

__all__ = [
    "MOST",
    "Bounds",
    "Change",
    "Condition",
    "Container",
    "Count",
    "Decision",
    "Derived",
    "Forecast",
    "Hours",
    "Instant",
    "Job",
    "Limit",
    "Measure",
    "Meta",
    "Node",
    "Observation",
    "Outcome",
    "Past",
    "Mark",
    "PerPod",
    "Pick",
    "Point",
    "Pod",
    "Policy",
    "Poll",
    "Quality",
    "Rank",
    "Rate",
    "Rates",
    "Recommendation",
    "Ref",
    "Resources",
    "Room",
    "Run",
    "Sample",
    "Seconds",
    "Series",
    "Spell",
    "Standing",
    "Serving",
    "Strategy",
    "Struct",
    "Workload",
    "cool_down",
    "field",
    "format_milli",
    "hookimpl",
    "milli",
    "parse_quantity",
    "request_of",
    "restrain",
    "serving",
    "stabilize",
    "standing",
    "steady",
    "timeline",
    "unfit",
    "unheeded",
]
