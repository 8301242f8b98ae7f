"""Decisions in words: what `explain`, `status` and `run` print.

Knows the records and the terminal; knows nothing of where a record came from.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elasticd.base.text import counted, one_line
from elasticd.base.units import format_milli, milli
from elasticd.model.actions import Create, Resize
from elasticd.model.forecast import Forecast
from elasticd.model.records import FOREIGN_OWNER, Decision, Outcome, Sizing
from elasticd.model.reports import HistoryRow, Preview, StatusReport
from elasticd.model.workload import LeftOut, Limit, Measure, Recommendation, Series
from elasticd.ui.terminal import add_row, ago, make_table, seconds

_COLOURS = {"scale": "bold green", "keep": "default", "hold": "yellow"}


def explain(decision: Decision, outcome: Outcome | None, now: float) -> RenderableType:
    """Everything a decision was made of, in the order it was made."""
    head = Text.assemble(
        (one_line(str(decision.workload)), "bold"),
        f"  policy {decision.policy} ({decision.mode}), {ago(decision.at, now)}\n",
        (headline(decision), _COLOURS[decision.verdict]),
    )
    parts: list[RenderableType] = [head, Text()]
    parts += _section("Samples", _samples(decision.series, decision.at), counted(decision.pods, "pod"))
    parts[-1:-1] = _remarks(decision.series, decision.at)
    wish = "" if decision.wish is None else f": {decision.wish} replicas"
    parts += _section(f"Wanted{wish}", _recommendations(decision), "no strategy was asked")
    if decision.sizing != Sizing():
        parts += _section("Resources", _resources(decision.sizing), "")
    cut = any(limit.bound for limit in decision.limits) and decision.wish not in (None, decision.replicas)
    become = f": {decision.wish} become {decision.replicas}" if cut else ""
    parts += _section(f"Limits{become}", _limits(decision.limits), "none")
    conditions = (
        (condition.type, str(condition.status), _why(condition.reason, condition.message))
        for condition in decision.conditions
    )
    parts += _section("Conditions", make_table("condition", "status", "why", rows=conditions), "none")
    if decision.failures:
        failures = ((failure.plugin, failure.hook, failure.message) for failure in decision.failures)
        parts += _section("Plugin failures", make_table("plugin", "hook", "", rows=failures), "")
    parts.append(Text.assemble(("Action      ", "dim"), _action(decision, outcome)))
    if outcome is not None and outcome.condition is not None:
        condition = f"{outcome.condition.type} {outcome.condition.status}, {outcome.condition.reason}"
        parts.append(Text.assemble(("            ", "dim"), condition))
    next_look = f"looks again after {decision.interval:g} s ({decision.interval_by or 'policy'})"
    parts.append(Text.assemble(("Next        ", "dim"), next_look))
    return Group(*parts)


def _section(title: str, table: Table, note: str) -> list[RenderableType]:
    body: RenderableType = table if table.row_count else Text(f"  {note}", style="dim")
    return [Text(title, style="bold"), body, Text()]


def headline(decision: Decision) -> str:
    """The decision in one line."""
    if decision.verdict == "scale":
        text = f"{decision.current} -> {decision.replicas} replicas"
    else:
        text = f"{decision.verdict} {counted(decision.current, 'replica')}"
        if decision.verdict == "hold" and decision.wish not in (None, decision.current):
            text += f" (wanted {decision.wish})"
    return one_line(f"{text}: {decision.reason}" + (f", {decision.message}" if decision.message else ""))


def cause(decision: Decision) -> str:
    """Why a count was changed, in one line: the reason, the metrics of the recommendation that was followed, and the
    limits that bound it."""
    followed = _followed_recommendation(decision)
    metrics = [_metric_text(measure) for measure in followed.measures if measure.current] if followed else []
    bound = [f"{limit.name}: {_why(limit.reason, limit.message)}" for limit in decision.limits if limit.bound]
    return one_line("; ".join([_why(decision.reason, decision.message), *metrics, *bound]))


def _samples(all_series: Iterable[Series], at: float) -> Table:
    table = make_table("series", "source", "quality", "samples", "total", "age", "window")
    for series in all_series:
        total, age, window = "-", "-", "-"
        if series.samples:
            total = f"{sum(sample.value for sample in series.samples):.4g}"
            age = seconds(max(0.0, at - series.measured))
            window = seconds(max(sample.window for sample in series.samples))
        quality = Text(series.quality.value, style="default" if series.trusted else "yellow")
        add_row(table, series.name, series.source or "-", quality, str(len(series.samples)), total, age, window)
    return table


def _remarks(all_series: Iterable[Series], at: float) -> Iterator[Text]:
    """One line for each series that has a message or a forecast: in a column of the table it would be too narrow."""
    for series in all_series:
        remark = series.message
        if series.forecast and series.trusted:
            remark += f", expires in {seconds(series.forecast.expires - at)}"
        if remark:
            yield Text(one_line(f"{series.name}: {remark}"), style="dim" if series.trusted else "yellow")


def query(policy: str, series: Series, now: float) -> RenderableType:
    """All samples of a series, as a policy's strategies see them, and what they are worth."""
    worth = series.quality.value if series.trusted else f"{series.quality.value}, not trusted"
    source = f" from {series.source}" if series.source else ""
    head = f"{series.name} for policy {policy}: {worth}{source}"
    table = make_table("pod", "container", "value", "age", "received", "window")
    for sample in series.samples:
        ages = (seconds(now - sample.measured), f"{seconds(now - sample.received)} ago", seconds(sample.window))
        add_row(table, sample.pod or "-", sample.container or "-", f"{sample.value:.6g}", *ages)
    message = "" if series.forecast and series.trusted else series.message  # the lines below say the same
    lines = [Text(f"  {one_line(message)}", style="dim")] if message else []
    lines += [Text(f"  {one_line(line)}") for line in _forecast_lines(series.forecast, now)] if series.forecast else []
    return Group(Text(one_line(head), style="bold"), *lines, *([table] if table.row_count else []))


def _forecast_lines(forecast: Forecast, now: float) -> Iterator[str]:
    """A forecast in a few lines: its method, its age, and values at some times ahead."""
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


def _recommendations(decision: Decision) -> Table:
    """A row for each recommendation, and below it its metrics. The one that was followed has a mark."""
    table = make_table("", "strategy", "replicas", "why")
    followed = _followed_recommendation(decision)
    for recommendation in decision.recommendations:
        mark, style = (">", "bold") if recommendation is followed else ("", "default")
        count, why = _count(recommendation.replicas), _why(recommendation.reason, recommendation.message)
        if recommendation.abstains:
            count, style = "-", "dim"
        elif recommendation.replicas is None:
            style = "yellow"
        elif _is_expired(recommendation, decision.at):
            why, style = f"expired {seconds(decision.at - (recommendation.expires or 0.0))} ago: {why}", "yellow"
        add_row(table, *(Text(one_line(cell), style=style) for cell in (mark, recommendation.strategy, count, why)))
        for measure in recommendation.measures:
            asks = _count(measure.replicas) if measure.reason or measure.replicas is not None else "-"
            add_row(table, "", "", asks, _metric_text(measure))
            for left_out in measure.left_out:
                add_row(table, "", "", "", _left_out_text(left_out))
    return table


def _followed_recommendation(decision: Decision) -> Recommendation | None:
    """The recommendation that was chosen; None where a mean of several was used, or there is none."""
    if decision.wish is None or decision.reason == "MeanOfStrategies":
        return None
    wished = (
        recommendation
        for recommendation in decision.recommendations
        if recommendation.replicas == decision.wish and not _is_expired(recommendation, decision.at)
    )
    return min(
        wished,
        key=lambda wish: (wish.reason != decision.reason, -wish.priority, wish.reason, wish.message),
        default=None,
    )


def _is_expired(recommendation: Recommendation, at: float) -> bool:
    return recommendation.expires is not None and recommendation.expires <= at


def _metric_text(measure: Measure) -> str:
    target = f", target {measure.target}" if measure.target else ""
    problem = _why(measure.reason, measure.message)
    return f"{measure.metric} {measure.current or '-'}{target}" + (f": {problem}" if problem else "")


def _left_out_text(left_out: LeftOut) -> str:
    unnamed = left_out.count - len(left_out.pods)
    names = ", ".join([*left_out.pods, *([f"{unnamed} more"] if unnamed > 0 and left_out.pods else [])])
    return f"without {counted(left_out.count, 'pod')}{f' ({names})' if names else ''}: {left_out.why}"


def _why(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message


def _resources(sizing: Sizing) -> Table:
    table = make_table("container", "resource", "requests", "should", "why")
    for container in sizing.resources:
        why = f"{container.reason}: {container.message}" if container.message else container.reason
        for name in sorted({*container.present, *container.requests}) or ["-"]:
            amounts = [amount(name, requests.get(name)) for requests in (container.present, container.requests)]
            add_row(table, container.container, name, *amounts, why)
    remarks = [f"pods are left as they are: {sizing.unresized}"] if sizing.unresized else []
    for resizing in sizing.resizing[:_RESIZING]:
        why = _why(resizing.state, resizing.message or _RESIZES.get(resizing.state, ""))
        remarks.append(f"{resizing.pod}: {why}")
    if len(sizing.resizing) > _RESIZING:
        remarks.append(f"and {len(sizing.resizing) - _RESIZING} more pods that are being resized")
    for remark in remarks:
        add_row(table, "", "", "", "", remark)
    return table


_RESIZING = 10
"""How many pods that are being resized are listed one by one, at most."""
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


def _action(decision: Decision, outcome: Outcome | None) -> str:
    action = decision.action
    steps = [f"mark {mark.pod or mark.workload} ({mark.reason})" for mark in decision.marks]
    if isinstance(action, Create):
        steps += [f"create {counted(action.after - action.before, 'Job')} from {action.names()[0]} on"]
    elif action:
        steps += [f"scale {action.before} -> {action.after}"]
    steps += [f"delete {counted(len(removal.jobs), 'Job')} ({removal.reason})" for removal in decision.removals]
    steps += [resize(change) for change in decision.sizing.resizes]
    if not steps:
        return "none"
    text = ", ".join(steps)
    if outcome is None and decision.mode == "observe" and not action:
        return f"would {text}"
    return f"{text}: {answer(outcome)}" if outcome else f"{text}: no answer is recorded"


def answer(outcome: Outcome) -> str:
    """The result of an action, with the reason and the API's status."""
    codes = [outcome.reason] * bool(outcome.reason) + [f"HTTP {outcome.code}"] * bool(outcome.code)
    code = f" ({', '.join(codes)})" if codes else ""
    message = f", {outcome.message}" if outcome.message else ""
    return one_line(f"{outcome.result}{code} in {outcome.seconds:.3f} s{message}")


def _count(replicas: int | None) -> str:
    return "unknown" if replicas is None else str(replicas)


def preview(report: Preview) -> Iterator[RenderableType]:
    """A row for each workload that would change now, and how many those are."""
    if report.changes:
        rows = (
            (
                str(row.workload),
                row.policy,
                str(row.now),
                str(row.would_be),
                row.governed,
                _why(row.reason, row.message),
            )
            for row in report.changes
        )
        yield make_table("workload", "policy", "now", "would be", "governed", "why", rows=rows)
    many = len(report.changes)
    changes = f"{counted(many, 'workload')} would change" if many else "nothing would change"
    yield Text(f"{changes} now, of {report.workloads} that these policies govern")
    if report.note:
        yield Text(one_line(report.note), style="yellow")


def history(rows: Sequence[HistoryRow]) -> RenderableType:
    """A row for each time that something else was decided, by this machine's clock."""
    table = make_table("at", "for", "policy", "replicas", "wanted", "verdict", "why", "result")
    for row in rows:
        decision = row.decision
        at = datetime.fromtimestamp(decision.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        lasts = f"{seconds(row.until - decision.at)}, {row.decisions} x" if row.decisions > 1 else "-"
        verdict = Text(decision.verdict, style=_COLOURS[decision.verdict])
        result = "-" if row.outcome is None else " ".join(filter(None, (row.outcome.result, row.outcome.reason)))
        why = _why(decision.reason, decision.message)
        add_row(table, at, lasts, decision.policy, _replicas(decision), _wanted(decision), verdict, why, result)
    return table


def _replicas(decision: Decision) -> str:
    changes = decision.current != decision.replicas
    return f"{decision.current} -> {decision.replicas}" if changes else str(decision.current)


def _wanted(decision: Decision) -> str:
    return "-" if decision.wish is None else str(decision.wish)


def status(report: StatusReport, now: float) -> Iterator[RenderableType]:
    """How the daemon stands, and a row for each governed workload: its last decision."""
    yield Text(one_line(_standing_line(report)), style="default" if report.running and report.leading else "yellow")
    yield from (Text(one_line(line), style="yellow") for line in _fault_lines(report))
    yield _decision_table(report, now)
    rows = {decision.policy for decision in report.decisions}
    silent = [policy.policy for policy in report.policies or () if not policy.pool and policy.policy not in rows]
    if silent:
        yield Text(one_line(f"nothing is decided yet by: {', '.join(silent)}"), style="yellow")
    if pools := [policy.policy for policy in report.policies or () if policy.pool]:
        yield Text(one_line(f"policies of pools (elasticd nodes): {', '.join(pools)}"))


def _standing_line(report: StatusReport) -> str:
    dry = "; dry run: nothing is sent to the cluster" if report.dry_run else ""
    if not report.running:
        return f"{report.note}{dry}"
    in_force = f"{counted(len(report.policies or ()), 'policy')} in force{dry}"
    if report.leading:
        return f"this elasticd leads, {in_force}"
    leader = f"{report.leader} leads" if report.leader else "nobody is known to lead"
    return f"this elasticd does not lead, {leader}: below is what this one decided before; {in_force}"


def _fault_lines(report: StatusReport) -> Iterator[str]:
    """What is wrong, of faults of evicted pods the first few."""
    yield from report.faults[:_FAULTS]
    if more := report.faults[_FAULTS:]:
        yield f"and {counted(len(more), 'more fault')} of evicted pods (elasticd moves)"
    yield from filter(None, (report.memory, report.kept))


_FAULTS = 10
"""How many faults of evicted pods are shown, at most."""


def _decision_table(report: StatusReport, now: float) -> Table:
    table = make_table("policy", "mode", "workload", "replicas", "wanted", "verdict", "why", "poll", "judged")
    undone = {(outcome.policy, outcome.workload): outcome for outcome in report.undone}
    for decision in report.decisions:
        mode = "dry run" if report.dry_run and decision.mode == "act" else decision.mode
        verdict, why = Text(decision.verdict, style=_COLOURS[decision.verdict]), decision.reason
        failed = undone.get((decision.policy, decision.workload)) if decision.verdict == "scale" else None
        if failed is not None:
            word = "refused" if failed.result == "refused" else "failing"
            verdict, why = Text(word, style="bold red"), failed.reason or answer(failed)
        if decision.sizing.foreign:
            why = f"{why}; requests: {FOREIGN_OWNER}"
        counts = _replicas(decision), _wanted(decision)
        when = f"{decision.interval:g} s", ago(decision.at, now)
        add_row(table, decision.policy, mode, str(decision.workload), *counts, verdict, why, *when)
    return table
