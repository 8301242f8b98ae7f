"""All that a plugin may import."""

from msgspec import Meta, Struct, field

from elasticd.actions import Mark
from elasticd.batch import Job
from elasticd.bindings import BINDING, Binding, LabelRule, binding_of
from elasticd.calendars import Hours, Instant, Spell, Standing, standing, steady
from elasticd.columns import needed, whole
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
from elasticd.needs import Disk, Expression, Needs, Operator, Port, Repel, Taint, Term, Toleration
from elasticd.past import timeline
from elasticd.placements import (
    Candidate,
    Column,
    DisruptionBudget,
    Mask,
    Nodes,
    Placement,
    PodDecision,
    PodOutcome,
    PoolObservation,
    Refusal,
    Scores,
    Selection,
    Victims,
    Whole,
)
from elasticd.policy import MOST, Bounds, Count, Policy, Poll, PoolPolicy, PoolSelect, Seconds, Strategy, unheeded
from elasticd.records import Decision, Outcome
from elasticd.resources import Resources
from elasticd.serving import Serving, request_of, serving
from elasticd.sizes import unfit
from elasticd.units import format_milli, milli, parse_quantity
from elasticd.windows import Pick, Rate, Rates, cool_down, restrain, stabilize

__all__ = [
    "BINDING",
    "Binding",
    "Bounds",
    "Candidate",
    "Change",
    "Column",
    "Condition",
    "Container",
    "Count",
    "Decision",
    "Derived",
    "Disk",
    "DisruptionBudget",
    "Expression",
    "Forecast",
    "Hours",
    "Instant",
    "Job",
    "LabelRule",
    "Limit",
    "MOST",
    "Mark",
    "Mask",
    "Measure",
    "Meta",
    "Needs",
    "Node",
    "Nodes",
    "Observation",
    "Operator",
    "Outcome",
    "Past",
    "PerPod",
    "Pick",
    "Placement",
    "Pod",
    "PodDecision",
    "PodOutcome",
    "Point",
    "Policy",
    "Poll",
    "PoolObservation",
    "PoolPolicy",
    "PoolSelect",
    "Port",
    "Quality",
    "Rank",
    "Rate",
    "Rates",
    "Recommendation",
    "Ref",
    "Refusal",
    "Repel",
    "Resources",
    "Room",
    "Run",
    "Sample",
    "Scores",
    "Seconds",
    "Selection",
    "Series",
    "Serving",
    "Spell",
    "Standing",
    "Strategy",
    "Struct",
    "Taint",
    "Term",
    "Toleration",
    "Victims",
    "Whole",
    "Workload",
    "binding_of",
    "cool_down",
    "field",
    "format_milli",
    "hookimpl",
    "milli",
    "needed",
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
    "whole",
]
