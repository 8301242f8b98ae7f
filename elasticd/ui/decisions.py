"""Decisions in words: what `explain`, `status` and `run` print.

Knows the records and the terminal; knows nothing of where a record came from.
"""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.text import counted, one_line
from elasticd.base.units import format_milli, milli
from elasticd.model.actions import Create, Resize
from elasticd.model.forecast import Forecast
from elasticd.model.records import Decision, Outcome, Sizing
from elasticd.model.reports import StatusReport
from elasticd.model.workload import LeftOut, Limit, Measure, Recommendation, Series

_COLOURS = {"scale": "bold green", "keep": "default", "hold": "yellow"}


def seconds(value: float) -> str:
    """A duration as a person says it: 0.4 s, 12 s, 3 min, 5 h."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


def make_table(*columns: str) -> Table:
    """A table as all commands print them."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row. Names and messages come from strangers: no line break or escape of theirs reaches the terminal."""
    table.add_row(*(one_line(cell) if isinstance(cell, str) else cell for cell in cells))


def explain(decision: Decision, outcome: Outcome | None, now: float) -> RenderableType:
    """Everything a decision was made of, in the order it was made."""
    head = Text.assemble(
        (one_line(str(decision.workload)), "bold"),
        f"  policy {decision.policy} ({decision.mode}), {seconds(max(0.0, now - decision.at))} ago\n",
        (headline(decision), _COLOURS[decision.verdict]),
    )
    parts: list[RenderableType] = [head, Text()]
    parts += _section("Samples", _samples(decision.series, decision.at), counted(decision.pods, "pod"))
    parts[-1:-1] = _remarks(decision.series, decision.at)
    wish = "" if decision.wish is None else f": {decision.wish} replicas"
    parts += _section(f"Wanted{wish}", _wanted(decision), "no strategy was asked")
    if decision.sizing != Sizing():
        parts += _section("Resources", _resources(decision.sizing), "")
    cut = any(limit.bound for limit in decision.limits) and decision.wish not in (None, decision.replicas)
    become = f": {decision.wish} become {decision.replicas}" if cut else ""
    parts += _section(f"Limits{become}", _limits(decision.limits), "none")
    parts += _section("Conditions", _conditions(decision), "none")
    if decision.failures:
        parts += _section("Plugin failures", _failures(decision), "")
    parts.append(Text.assemble(("Action      ", "dim"), _action(decision, outcome)))
    next_look = f"looks again after {decision.interval:g} s ({decision.interval_by or 'policy'})"
    if outcome is not None and outcome.condition is not None:
        told = f"{outcome.condition.type} {outcome.condition.status}, {outcome.condition.reason}"
        parts.append(Text.assemble(("            ", "dim"), told))
    parts.append(Text.assemble(("Next        ", "dim"), next_look))
    return Group(*parts)


def _section(title: str, table: Table, note: str) -> list[RenderableType]:
    body: RenderableType = table if table.row_count else Text(f"  {note}", style="dim")
    return [Text(title, style="bold"), body, Text()]


def headline(decision: Decision) -> str:
    """The answer in one line."""
    if decision.verdict == "scale":
        told = f"{decision.current} -> {decision.replicas} replicas"
    else:
        told = f"{decision.verdict} {counted(decision.current, 'replica')}"
        if decision.verdict == "hold" and decision.wish not in (None, decision.current):
            told += f" (wanted {decision.wish})"
    return one_line(f"{told}: {decision.reason}" + (f", {decision.message}" if decision.message else ""))


def _samples(series: Iterable[Series], at: float) -> Table:
    table = make_table("series", "source", "quality", "samples", "total", "age", "window")
    for one in series:
        total, age, window = "-", "-", "-"
        if one.samples:
            total = f"{sum(sample.value for sample in one.samples):.4g}"
            age = seconds(max(0.0, at - one.measured))
            window = seconds(max(sample.window for sample in one.samples))
        quality = Text(one.quality.value, style="default" if one.trusted else "yellow")
        add_row(table, one.name, one.source or "-", quality, str(len(one.samples)), total, age, window)
    return table


def _remarks(series: Iterable[Series], at: float) -> Iterator[Text]:
    """What there is to say of single series, a line each: in a column of the table it would be narrow."""
    for one in series:
        told = one.message
        if one.forecast and one.trusted:
            told += f", expires in {seconds(one.forecast.expires - at)}"
        if told:
            yield Text(one_line(f"{one.name}: {told}"), style="dim" if one.trusted else "yellow")


def query(policy: str, series: Series, now: float) -> RenderableType:
    """All samples of a series, as a policy's strategies see them, and what they are worth."""
    worth = series.quality.value if series.trusted else f"{series.quality.value}, not trusted"
    source = f" from {series.source}" if series.source else ""
    head = f"{series.name} for policy {policy}: {worth}{source}"
    table = make_table("pod", "container", "value", "age", "received", "window")
    for one in series.samples:
        ages = (seconds(now - one.measured), f"{seconds(now - one.received)} ago", seconds(one.window))
        add_row(table, one.pod or "-", one.container or "-", f"{one.value:.6g}", *ages)
    said = "" if series.forecast and series.trusted else series.message  # what is below says the same
    told = [Text(f"  {one_line(said)}", style="dim")] if said else []
    told += [Text(f"  {one_line(line)}") for line in _foreseen(series.forecast, now)] if series.forecast else []
    return Group(Text(one_line(head), style="bold"), *told, *([table] if table.row_count else []))


def _foreseen(forecast: Forecast, now: float) -> Iterator[str]:
    """What is expected when, in a few lines, and how it was found."""
    if not forecast.method:
        return
    period = f"period {seconds(forecast.period)}" if forecast.period else "no period"
    skill = "-" if forecast.skill is None else f"{forecast.skill:.2f}"
    yield f"{forecast.method}, {period}, skill {skill}, error {forecast.error:.4g} on what was held out"
    ends = forecast.expires - now
    expiry = f"expires in {seconds(ends)}" if ends > 0 else f"expired {seconds(-ends)} ago"
    yield f"its last sample is {seconds(max(0.0, now - forecast.fitted))} old, {expiry}"
    places = forecast.window(now, forecast.first + len(forecast.values) * forecast.step) or range(0)
    for place in [places[len(places) * quarter // 4] for quarter in range(4)] if places else []:
        ahead = seconds(max(0.0, forecast.first + place * forecast.step - now))
        spread = f"{forecast.lower[place]:.4g} to {forecast.upper[place]:.4g}"
        yield f"in {ahead}: {forecast.values[place]:.4g} ({spread})"
    if places:
        peak = max(places, key=forecast.values.__getitem__)
        yield f"most in {seconds(max(0.0, forecast.first + peak * forecast.step - now))}: {forecast.values[peak]:.4g}"
    if line := forecast.per_pod:
        yield f"a pod uses {line.slope:.4g} x its load + {line.intercept:.4g} (correlation {line.correlation:.2f})"
    if forecast.untaught:
        yield f"not learnt what a pod uses: {forecast.untaught}"


def _wanted(decision: Decision) -> Table:
    """What each strategy said, and below it what of. The one that was followed has a mark."""
    table = make_table("", "strategy", "replicas", "why")
    followed = _followed(decision)
    for said in decision.recommendations:
        mark, style = (">", "bold") if said is followed else ("", "default")
        count, why = _count(said.replicas), _why(said.reason, said.message)
        if said.abstains:
            count, style = "-", "dim"
        elif said.replicas is None:
            style = "yellow"
        elif _expired(said, decision.at):
            why, style = f"expired {seconds(decision.at - (said.expires or 0.0))} ago: {why}", "yellow"
        add_row(table, *(Text(one_line(cell), style=style) for cell in (mark, said.strategy, count, why)))
        for measure in said.measures:
            add_row(table, "", "", _count(measure.replicas), _measured(measure))
            for one in measure.left_out:
                add_row(table, "", "", "", _left_out(one))
    return table


def _followed(decision: Decision) -> Recommendation | None:
    """The recommendation that became the wish. A mean is none of them, unless it happens to be one's count."""
    wished = [
        one for one in decision.recommendations if one.replicas == decision.wish and not _expired(one, decision.at)
    ]
    if decision.wish is None or decision.reason == "MeanOfStrategies" or not wished:
        return None
    return min(wished, key=lambda one: (one.reason != decision.reason, -one.priority, one.reason, one.message))


def _expired(said: Recommendation, at: float) -> bool:
    return said.expires is not None and said.expires <= at


def _measured(measure: Measure) -> str:
    """What a metric is, what it should be, and what is to say of it."""
    target = f", target {measure.target}" if measure.target else ""
    problem = _why(measure.reason, measure.message)
    return f"{measure.metric} {measure.current or '-'}{target}" + (f": {problem}" if problem else "")


def _left_out(one: LeftOut) -> str:
    """How many pods a metric's rule leaves out, which and why."""
    more = one.count - len(one.pods)
    named = ", ".join([*one.pods, *([f"{more} more"] if more > 0 and one.pods else [])])
    return f"without {counted(one.count, 'pod')}{f' ({named})' if named else ''}: {one.why}"


def _why(reason: str, message: str) -> str:
    """The word for counting, and the sentence."""
    return f"{reason}: {message}" if reason and message else reason or message


def _resources(sizing: Sizing) -> Table:
    table = make_table("container", "resource", "requests", "should", "why")
    for one in sizing.resources:
        why = f"{one.reason}: {one.message}" if one.message else one.reason
        for name in sorted({*one.present, *one.requests}) or ["-"]:
            present, wanted = (requests.get(name) for requests in (one.present, one.requests))
            add_row(table, one.container, name, amount(name, present), amount(name, wanted), why)
    if sizing.unresized:
        add_row(table, "", "", "", "", f"pods are left as they are: {sizing.unresized}")
    for each in sizing.resizing[:_RESIZING]:
        add_row(table, "", "", "", "", f"{each.pod}: {_why(each.state, each.message or _RESIZES.get(each.state, ''))}")
    if len(sizing.resizing) > _RESIZING:
        add_row(table, "", "", "", "", f"and {len(sizing.resizing) - _RESIZING} more pods that are being resized")
    return table


_RESIZING = 10
"""The most pods that are being resized of which each is told."""
_RESIZES = {
    "Deferred": "its node has no room for what it requests now",
    "Infeasible": "its node can never give it what it requests",
    "InProgress": "its kubelet is about to give it what it requests",
}


def amount(resource: str, value: float | None) -> str:
    """An amount of a resource as a person writes it: 250m, 300Mi."""
    if value is None:
        return "-"
    if resource == "cpu":
        return format_milli(milli(value))
    return f"{value / 2**20:.0f}Mi" if resource == "memory" else f"{value:g}"


def resize(change: Resize) -> str:
    """Which pod requests what from now on."""
    changes = [
        f"{name} {amount(name, change.before.get(container, {}).get(name))} -> {amount(name, value)}"
        for container, amounts in change.after.items()
        for name, value in amounts.items()
    ]
    return f"resize {change.pod} ({', '.join(changes)})"


def _limits(limits: Iterable[Limit]) -> Table:
    table = make_table("limit", "allows", "binds", "why")
    for limit in limits:
        low = "0" if limit.lowest is None else str(limit.lowest)
        high = "any" if limit.highest is None else str(limit.highest)
        binds = Text("yes", style="yellow") if limit.bound else Text("no", style="dim")
        add_row(table, limit.name, f"{low} to {high}", binds, _why(limit.reason, limit.message))
    return table


def _conditions(decision: Decision) -> Table:
    table = make_table("condition", "status", "why")
    for condition in decision.conditions:
        add_row(table, condition.type, str(condition.status), _why(condition.reason, condition.message))
    return table


def _failures(decision: Decision) -> Table:
    table = make_table("plugin", "hook", "")
    for failure in decision.failures:
        add_row(table, failure.plugin, failure.hook, failure.message)
    return table


def _action(decision: Decision, outcome: Outcome | None) -> str:
    action = decision.action
    steps = [f"mark {mark.pod or mark.workload} ({mark.reason})" for mark in decision.marks]
    if isinstance(action, Create):
        steps += [f"create {counted(action.after - action.before, 'Job')} from {action.names()[0]} on"]
    elif action:
        steps += [f"scale {action.before} -> {action.after}"]
    steps += [f"delete {counted(len(one.jobs), 'Job')} ({one.reason})" for one in decision.removals]
    steps += [resize(one) for one in decision.sizing.resizes]
    if not steps:
        return "none"
    told = ", ".join(steps)
    if outcome is None and decision.mode == "observe" and not action:
        return f"would {told}"
    return f"{told}: {answer(outcome)}" if outcome else f"{told}: no answer is recorded"


def answer(outcome: Outcome) -> str:
    """What came of an action, with the reason and the API's status."""
    codes = [outcome.reason] * bool(outcome.reason) + [f"HTTP {outcome.code}"] * bool(outcome.code)
    code = f" ({', '.join(codes)})" if codes else ""
    more = f", {outcome.message}" if outcome.message else ""
    return one_line(f"{outcome.result}{code} in {outcome.seconds:.3f} s{more}")


def _count(replicas: int | None) -> str:
    return "unknown" if replicas is None else str(replicas)


def status(report: StatusReport, now: float) -> Iterator[RenderableType]:
    """How the daemon stands, and a row for each governed workload: its last decision."""
    yield Text(one_line(_standing(report)), style="default" if report.running and report.leading else "yellow")
    yield _decided(report, now)
    rows = {one.policy for one in report.decisions}
    silent = [one.policy for one in report.policies or () if not one.pool and one.policy not in rows]
    if silent:
        yield Text(one_line(f"nothing is decided yet by: {', '.join(silent)}"), style="yellow")
    if pools := [one.policy for one in report.policies or () if one.pool]:
        yield Text(one_line(f"policies of pools (elasticd nodes): {', '.join(pools)}"))


def _standing(report: StatusReport) -> str:
    dry = "; dry run: nothing is sent to the cluster" if report.dry_run else ""
    if not report.running:
        return f"{report.note}{dry}"
    count = len(report.policies or ())
    told = f"{count} {'policy' if count == 1 else 'policies'} in force{dry}"
    if report.leading:
        return f"this elasticd leads, {told}"
    other = f"{report.leader} leads" if report.leader else "nobody is known to lead"
    return f"this elasticd does not lead, {other}: below is what this one decided before; {told}"


def _decided(report: StatusReport, now: float) -> Table:
    table = make_table("policy", "mode", "workload", "replicas", "wanted", "verdict", "why", "poll", "judged")
    for one in report.decisions:
        mode = "dry run" if report.dry_run and one.mode == "act" else one.mode
        verdict = Text(one.verdict, style=_COLOURS[one.verdict])
        wanted = str(one.wish) if one.wish is not None else "-"
        ago = f"{seconds(max(0.0, now - one.at))} ago"
        poll = f"{one.interval:g} s"
        count = str(one.current) if one.current == one.replicas else f"{one.current} -> {one.replicas}"
        add_row(table, one.policy, mode, str(one.workload), count, wanted, verdict, one.reason, poll, ago)
    return table
