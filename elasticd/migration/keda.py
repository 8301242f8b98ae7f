"""KEDA's objects become policies: a ScaledObject one with `hpa`, `event` or `schedule`, a ScaledJob one with `jobs`.

Where KEDA scales between 0 (or an idle count) and others, the strategy `event` does; where it leaves all to the HPA
that it creates, the strategy `hpa`. Knows KEDA 2.20's fields and defaults; knows nothing of how triggers are read.
"""

import re
from typing import Any

from msgspec import Struct

from elasticd.base.text import shown
from elasticd.base.units import amount
from elasticd.migration.exporters import exporter_of, query_of, thresholds
from elasticd.migration.fields import Fields
from elasticd.migration.hpa import Controller, behavior_table
from elasticd.migration.policy import (
    Imported,
    Subject,
    Table,
    bounds_of,
    subject_of,
    target_of,
    unknown_fields,
    workload_name,
)
from elasticd.migration.queues import queue_source

ANNOTATION = "autoscaling.keda.sh/"
PROMETHEUS = "http://prometheus-server.monitoring:80"
"""Where Prometheus is assumed for triggers that KEDA asks itself."""

_LONGEST_WAIT = 3600


class Trigger(Struct, frozen=True):
    """A trigger as a policy has it. `series` empty: it has none, as cron, or cpu and memory, which `resource` has."""

    name: str
    kind: str
    where: str
    series: str = ""
    point: Table = {}
    activation: float = 0.0
    resource: Table = {}
    window: Table = {}
    zero: bool = False
    """Whether no answer means 0."""

    def external(self) -> Table:
        """As a metric of the strategy `hpa`."""
        return {"type": "External", "series": self.series, **self.point}

    def event(self, *, formula: bool) -> Table:
        """As a trigger of the strategy `event`."""
        table: Table = {"series": self.series}
        if self.name != self.series:
            table["name"] = self.name
        if formula:
            return table
        return {**table, **self.point, **({"activation": self.activation} if self.activation else {})}


class Reading:
    """What is collected while an object is read."""

    def __init__(self, subject: Subject, workload: str, prometheus: str) -> None:
        self.subject, self.workload, self.prometheus = subject, workload, prometheus
        self.notes: list[str] = []
        self.sources: list[Table] = []
        self.missing: list[str] = []
        """Why no policy can be made."""

    def trigger(self, of: Fields, index: int) -> Trigger:
        """Read a trigger, and note its source."""
        kind, where = of.text("type"), of.path
        metadata_fields = of.table("metadata")
        metadata = {key: metadata_fields.scalar(key) for key in metadata_fields.given()}
        name = of.text("name", "") or f"s{index}_{re.sub('[^A-Za-z0-9_]', '_', kind)}"
        metric_type = of.text("metricType", "")
        if of.has("authenticationRef"):
            of.ignore("authenticationRef")
            if kind not in ("cpu", "memory", "cron"):
                self.notes.append(f"{where}.authenticationRef: give its source the credentials (docs/sources.md)")
        of.ignore("useCachedMetrics")
        if kind in ("cpu", "memory"):
            return self._resource(name, kind, where, metadata, metric_type)
        if kind == "cron":
            return self._cron(name, where, metadata)
        return self._series(name, kind, where, metadata, metric_type)

    def _resource(self, name: str, kind: str, where: str, metadata: dict[str, str], metric_type: str) -> Trigger:
        """A metric of pods' resources, which the HPA reads itself."""
        by = metric_type or metadata.get("type", "Utilization")
        point: Table = {"average_value": metadata.get("value", "")}
        if by == "Utilization":
            point = {"utilization": int(self._number(where, "value", metadata.get("value", "")))}
        container = metadata.get("containerName", "")
        table = {"type": "ContainerResource", "resource": kind, "container": container} if container else {}
        return Trigger(name, kind, where, resource={**(table or {"type": "Resource", "resource": kind}), **point})

    def _cron(self, name: str, where: str, metadata: dict[str, str]) -> Trigger:
        replicas = int(self._number(where, "desiredReplicas", metadata.get("desiredReplicas", "")))
        window = {"name": name, "start": metadata.get("start", ""), "end": metadata.get("end", ""),
                  "zone": metadata.get("timezone", "UTC"), "replicas": replicas}  # fmt: skip
        return Trigger(name, "cron", where, window=window)

    def _series(self, name: str, kind: str, where: str, metadata: dict[str, str], metric_type: str) -> Trigger:
        series = f"{self.subject.namespace}.{self.subject.name}.{name}"
        key, activation = thresholds(kind, metadata)
        default = exporter_of(kind).default
        text = metadata.get(key, "" if default is None else str(default))
        point = self._number(where, key, text) if text else 1.0
        if not text:
            self.notes.append(
                f"{where}.metadata: no set point is known of {kind}: average_value is 1, write the right one"
            )
        if point <= 0:
            self.notes.append(f"{where}.metadata.{key}: {point:g} is no set point, 1 is written")
            point = 1.0
        self._source(kind, where, series, metadata)
        above = metadata.get(activation, "")
        active = self._number(where, activation, above) if above else exporter_of(kind).active
        goal = "value" if metric_type == "Value" else "average_value"
        ignores = kind == "prometheus" and metadata.get("ignoreNullValues", "true") != "false"
        return Trigger(
            name, kind, where, series, {goal: point}, active, zero=ignores,
        )  # fmt: skip

    def _number(self, where: str, key: str, text: str) -> float:
        value = amount(text)
        if value != value:  # noqa: PLR0124 - NaN
            self.missing.append(f"{where}.metadata.{key}: must be a number, is {shown(text)}")
            return 1.0
        return value

    def _source(self, kind: str, where: str, series: str, metadata: dict[str, str]) -> None:
        """The source of a series: Prometheus itself, a broker, or Prometheus with the usual exporter."""
        namespace, workload_kind, workload = self.workload.split("/")
        about = {"namespace": namespace, "kind": workload_kind, "workload": workload}
        if kind == "mqtt":
            host, _, port = metadata.get("host", "").removeprefix("tcp://").removeprefix("mqtt://").partition(":")
            topic: Table = {"topic": metadata.get("topic", series), "series": series, "subject": "workload"}
            topic |= about
            self.sources.append({
                "type": "mqtt", "name": f"imported-{host or 'mqtt'}", "host": host or "localhost",
                "port": int(port) if port.isdecimal() else 0, "topic": [topic],
            })  # fmt: skip
            return
        if (queue := queue_source(kind, metadata, series, self.workload)) is not None:
            self.sources.append(queue.table)
            if queue.note:
                self.notes.append(f"{where}: {queue.note}")
            return
        query, url = metadata.get("query", ""), metadata.get("serverAddress", "")
        if kind != "prometheus":
            url, query = self.prometheus, query_of(kind, metadata, namespace)
            known = exporter_of(kind)
            from_ = f" from {known.exporter}" if known.exporter else ""
            written = "a query is written" if query else "write its query"
            caution = f"; {known.caution}" if known.caution else ""
            self.notes.append(f"{where}: elasticd reads {kind} through Prometheus{from_}: {written}{caution}")
        host = re.sub(r"[^A-Za-z0-9.-]", "-", url.partition("://")[2].partition("/")[0])
        table = {"name": series, "query": query or "WRITE_THE_QUERY", **about}
        name = f"imported-{host}" if host else "imported-prometheus"
        self.sources.append({"type": "prometheus", "name": name, "url": url or PROMETHEUS, "series": [table]})
        for key in ("customHeaders", "queryParameters", "unsafeSsl", "namespace", "cortexOrgID"):
            if kind == "prometheus" and metadata.get(key):
                self.notes.append(f"{where}.metadata.{key}: set it at the source (docs/sources.md)")


def scaled_object_policy(
    table: Any, file: str, namespace: str, controller: Controller | None = None, prometheus: str = PROMETHEUS
) -> Imported:
    """The policy that decides as KEDA with this ScaledObject. Raises ConfigError for what KEDA would refuse."""
    flags, manifest = controller or Controller(), Fields(table, file)
    subject, notes = subject_of(manifest, namespace), list[str]()
    spec = manifest.table("spec")
    reference = spec.table("scaleTargetRef")
    target = target_of(reference, subject.namespace, notes, "Deployment")
    reference.ignore("envSourceContainerName")
    reading = Reading(subject, workload_name(target), prometheus)
    triggers = [reading.trigger(of, index) for index, of in enumerate(spec.tables("triggers"))]
    if not triggers:
        raise spec.wrong("triggers", "must have a trigger, has none")
    plan = _Plan(spec, triggers, reading, flags)
    policy: Table = {
        "mode": "observe",
        "interval": flags.sync_period,
        "freeze": _frozen(subject, reading),
        "workload": target,
        **plan.tables(),
    }
    notes += [*reading.notes, *unknown_fields(manifest)]
    if reading.missing:
        return Imported("ScaledObject", subject.namespace, subject.name, None, (), (*reading.missing, *notes))
    return Imported("ScaledObject", subject.namespace, subject.name, policy, tuple(reading.sources), tuple(notes))


def _frozen(subject: Subject, reading: Reading) -> str:
    """The freeze that KEDA's annotations of a pause mean."""
    pauses = {key: subject.annotations.get(f"{ANNOTATION}{key}") for key in
              ("paused", "paused-replicas", "paused-scale-in", "paused-scale-out")}  # fmt: skip
    if (count := pauses["paused-replicas"]) is not None:
        text = f"the count stays as it is, and is not set to {shown(count)}"
        reading.notes.append(f"metadata.annotations.{ANNOTATION}paused-replicas: {text}")
        return "both"
    if pauses["paused"] is not None and pauses["paused"] != "false":
        return "both"
    down, up = (pauses[f"paused-scale-{way}"] == "true" for way in ("in", "out"))
    return "both" if down and up else "down" if down else "up" if up else "none"


class _Plan:
    """The strategies and limits of a ScaledObject."""

    def __init__(self, spec: Fields, triggers: list[Trigger], reading: Reading, flags: Controller) -> None:
        self._reading, self._flags, self._spec = reading, flags, spec
        self._polling = min(max(spec.whole("pollingInterval", 30), 1), _LONGEST_WAIT)
        self._cooldown = self._seconds("cooldownPeriod", 300)
        self._initial = self._seconds("initialCooldownPeriod", 0)
        self._least, self._most = spec.whole("minReplicaCount", 0), spec.whole("maxReplicaCount", 100)
        self._idle = spec.whole("idleReplicaCount", 0) if spec.has("idleReplicaCount") else None
        spec.ignore("idleReplicaCount")
        if self._idle is not None and self._idle >= self._least:
            raise spec.wrong("idleReplicaCount", f"must be < minReplicaCount = {self._least}, is {self._idle}")
        advanced = spec.table("advanced")
        if advanced.flag("restoreToOriginalReplicaCount", default=False):
            where = "spec.advanced.restoreToOriginalReplicaCount"
            reading.notes.append(f"{where}: a policy that is removed leaves the count as it is")
        hpa = advanced.table("horizontalPodAutoscalerConfig")
        hpa.ignore("name")
        self._behavior = behavior_table(hpa.table("behavior")) if hpa.has("behavior") else None
        hpa.ignore("behavior")
        self._modifiers = advanced.table("scalingModifiers")
        self._formula = self._modifiers.text("formula", "")
        self._triggers = self._named(triggers) if self._formula else triggers
        if all(trigger.resource for trigger in self._triggers) and (self._least == 0 or self._idle is not None):
            note = "spec.minReplicaCount: cpu and memory wake nothing, so it never goes below 1, or minReplicaCount"
            reading.notes.append(note)
            self._least, self._idle = max(self._least, 1), None
        self._fallback = self._trust()

    def _seconds(self, key: str, default: int) -> int:
        value = self._spec.whole(key, default)
        if value > _LONGEST_WAIT:
            self._reading.notes.append(f"spec.{key}: {value} s are cut to {_LONGEST_WAIT}")
        return min(max(value, 0), _LONGEST_WAIT)

    def tables(self) -> Table:
        """The tables of the policy but the first."""
        bare = [trigger for trigger in self._triggers if trigger.series]
        resources = [trigger.resource for trigger in self._triggers if trigger.resource]
        windows = [trigger.window for trigger in self._triggers if trigger.window]
        least = self._least
        by_event = bool(bare) and (least == 0 or self._idle is not None or bool(self._formula))
        strategies = [self._event(bare, least)] if by_event else []
        metrics = [*([] if by_event else [trigger.external() for trigger in bare]), *resources]
        if metrics:
            strategies.append(self._hpa(metrics))
        bounds = bounds_of(least if self._idle is None else self._idle, self._most, self._spec, "maxReplicaCount")
        if windows:
            strategies.append(self._schedule(windows, bounds))
            if not bare and bounds["min"] == 0 and not any(window["replicas"] for window in windows):
                self._reading.missing.append("spec.triggers: none of them ever asks for a replica")
        limits = self._limits(least, by_event=by_event, by_hpa=bool(metrics), by_calendar=bool(windows))
        zero = [trigger.series for trigger in bare if trigger.zero]
        trust = {"coverage": 0.0, **({"zero_when_empty": zero} if zero else {}), **self._fallback}
        self._cautions(by_event=by_event, resources=bool(resources), windows=bool(windows))
        return {"replicas": bounds, "trust": trust, "strategy": strategies, **({"limit": limits} if limits else {})}

    def _cautions(self, *, by_event: bool, resources: bool, windows: bool) -> None:
        notes = self._reading.notes
        if by_event and resources:
            notes.append("spec.triggers: while cpu or memory asks for a pod, it does not go to 0 or idle; KEDA does")
        if by_event and windows:
            notes.append(
                "spec.cooldownPeriod: it does not begin when the hours of a cron trigger end, but when the others rest"
            )
        if by_event and not self._formula:
            notes.append("spec.triggers: from 0 it goes to as many as are needed, within the rate; KEDA first to one")

    def _event(self, triggers: list[Trigger], least: int) -> Table:
        """The strategy that KEDA's own loop and the HPA are together."""
        down = (self._behavior or {}).get("scale_down", {})
        window = down.get("stabilization_window", self._flags.downscale_stabilization)
        strategy: Table = {
            "type": "event",
            "least": max(least, 1),
            "idle": self._idle or 0,
            "cooldown": self._cooldown,
            "downscale_stabilization": window,
            "initial_cooldown": self._initial,
            "tolerance": self._tolerance(),
            "period": self._flags.sync_period,
            "period_at_zero": self._polling,
        }
        if least >= 1 and self._idle is None:  # then KEDA leaves all to the HPA, whatever is active
            strategy |= {"cooldown": window}
        strategy["triggers"] = [trigger.event(formula=bool(self._formula)) for trigger in triggers]
        if self._formula:
            strategy["formula"] = self._formula_table(always=least >= 1 and self._idle is None)
        return strategy

    def _tolerance(self) -> float:
        behavior = self._behavior or {}
        ways: set[float] = {
            behavior.get(way, {}).get("tolerance", self._flags.tolerance) for way in ("scale_up", "scale_down")
        }
        if len(ways) > 1:
            self._reading.notes.append("behavior.tolerance: event has one for both ways: the smaller is written")
        return min(ways)

    def _formula_table(self, *, always: bool) -> Table:
        modifiers, expression = self._modifiers, _translated(self._formula)
        goal = "value" if modifiers.text("metricType", "") == "Value" else "average_value"
        target = amount(modifiers.scalar("target"))
        if not target > 0:
            raise modifiers.wrong("target", f"must be a number > 0, is {shown(modifiers.any('target'))}")
        activation = amount(modifiers.scalar("activationTarget", "0"))
        if expression != self._formula:
            self._reading.notes.append(f"{modifiers.where('formula')}: is written {expression}")
        table: Table = {"expression": expression, goal: target}
        return table if always or not activation > 0 else {**table, "activation": activation}

    def _named(self, triggers: list[Trigger]) -> list[Trigger]:
        """Those triggers that a formula names, and those that the HPA reads itself."""
        names = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", self._formula))
        kept = [trigger for trigger in triggers if trigger.resource or trigger.name in names]
        for trigger in triggers:
            if trigger not in kept:
                self._reading.notes.append(f"{trigger.where}: the formula does not name it: it is left out, as in KEDA")
            elif trigger.window:
                self._reading.missing.append(f"{trigger.where}: cron is no series that a formula could use")
        return kept

    def _hpa(self, metrics: list[Table]) -> Table:
        flags = self._flags
        behavior = {} if self._behavior is None else {"behavior": self._behavior}
        rules = {} if flags.rules == "current" else {"rules": flags.rules}
        return {
            "type": "hpa", "period": flags.sync_period, "tolerance": flags.tolerance,
            "downscale_stabilization": flags.downscale_stabilization,
            "cpu_initialization_period": flags.cpu_initialization_period,
            "initial_readiness_delay": flags.initial_readiness_delay, **rules, "metrics": metrics, **behavior,
        }  # fmt: skip

    def _schedule(self, windows: list[Table], bounds: Table) -> Table:
        for window in windows:
            window["replicas"] = min(window["replicas"], bounds["max"])
        alone = len(windows) == len(self._triggers)
        default = {"default": bounds["min"] if self._idle is None else self._idle} if alone else {}
        return {"type": "schedule", **default, "windows": windows}

    def _limits(self, least: int, *, by_event: bool, by_hpa: bool, by_calendar: bool) -> list[Table]:
        """What the HPA that KEDA creates limits, where no strategy `hpa` does it."""
        limits: list[Table] = []
        if by_hpa:
            return limits
        if by_calendar and not by_event:
            return [{"type": "stabilization", "up": 0, "down": self._cooldown}]
        behavior, step = self._behavior, max(least, 1) - (self._idle or 0)
        for way, key in (("scale_up", "up"), ("scale_down", "down")):
            direction = (behavior or {}).get(way, {})
            policies = direction.get("policies", _legacy_up(step) if way == "scale_up" else [])
            select = direction.get("select", "Max")
            if select == "Disabled" and not policies:
                policies = _legacy_up(step)
            if key == "up" and step > 1 and all(rate["type"] != "Pods" or rate["value"] < step for rate in policies):
                note = "they hold for the way from 0 or idle to minReplicaCount too; KEDA goes at once"
                self._reading.notes.append(f"behavior.scaleUp.policies: {note}")
            if policies:
                limits.append({"type": "rate", key: policies, "select": select})
        if up := (behavior or {}).get("scale_up", {}).get("stabilization_window", 0):
            limits.append({"type": "stabilization", "up": up, "down": 0})
        if behavior is None:
            self._reading.notes.append(
                "spec.advanced: the HPA's first step from 1 is to 4, here to 5 (4 pods or 100 % in 15 s)"
            )
        elif any("down" in limit for limit in limits if limit["type"] == "rate") and (
            least == 0 or self._idle is not None
        ):
            self._reading.notes.append(
                "behavior.scaleDown.policies: they hold for the way to 0 or idle too; KEDA goes at once"
            )
        return limits

    def _trust(self) -> Table:
        """The table [trust] of a fallback."""
        if not self._spec.has("fallback"):
            self._spec.ignore("fallback")
            return {}
        fallback = self._spec.table("fallback")
        replicas, most = fallback.whole("replicas", 0), self._most
        after = fallback.whole("failureThreshold", 3) * self._polling
        least = self._least if self._idle is None else self._idle
        if not least <= replicas <= most:
            note = f"{replicas} is outside of {least} to {most}, and is cut to them, as the HPA does"
            self._reading.notes.append(f"{fallback.where('replicas')}: {note}")
            replicas = min(max(replicas, least), most)
        behavior = fallback.text("behavior", "static")
        tables: dict[str, Table] = {
            "static": {"unknown": "fallback", "replicas": replicas, "may_lower": True},
            "currentReplicas": {"unknown": "hold"},
            "currentReplicasIfHigher": {"unknown": "floor", "replicas": replicas},
            "currentReplicasIfLower": {"unknown": "ceiling", "replicas": replicas},
            "scalingModifiers": {"unknown": "hold"},
        }
        if _CHAIN.fullmatch(self._formula):  # where none is known, KEDA takes the replicas; other formulas are an error
            tables["scalingModifiers"] = tables["static"]
        if behavior not in tables:
            raise fallback.wrong("behavior", f"must be one of {', '.join(tables)}, is {shown(behavior)}")
        return {**tables[behavior], "after": after}


def _legacy_up(step: int) -> list[Table]:
    """About what an HPA without behavior allows at once; and the step from idle to the minimum, which KEDA makes."""
    return [{"type": "Pods", "value": max(4, step), "period": 15}, {"type": "Percent", "value": 100, "period": 15}]


_CHAIN = re.compile(r"\s*[A-Za-z_]\w*\s*(\?\?\s*[A-Za-z_]\w*\s*)*")
"""A formula that is the first of its triggers that is known."""
_COUNT = re.compile(r"\b(count|sum)\(\s*\[([^\[\]]*)\]\s*(?:,\s*\{([^{}]*)\}\s*)?\)")


def _translated(formula: str) -> str:
    """The formula without the functions over lists that elasticd has not: count with a condition, and sum."""

    def spelled(match: re.Match[str]) -> str:
        names = [name.strip() for name in match[2].split(",") if name.strip()]
        rule = match[3] or ("#" if match[1] == "sum" else "# != 0")
        return "(" + " + ".join(f"({rule.replace('#', name)})" for name in names) + ")" if names else "0"

    return _COUNT.sub(spelled, formula)


def scaled_job_policy(
    table: Any, file: str, namespace: str, controller: Controller | None = None, prometheus: str = PROMETHEUS
) -> Imported:
    """The policy that creates Jobs as KEDA with this ScaledJob. Raises ConfigError for what KEDA would refuse."""
    manifest = Fields(table, file)
    subject = subject_of(manifest, namespace)
    spec, name = manifest.table("spec"), subject.name[:43].rstrip("-.").replace(".", "-")
    reading = Reading(subject, f"{subject.namespace}/Job/{name}", prometheus)
    if name != subject.name:
        reading.notes.append(f"metadata.name: a job set's name has at most 43 characters, and no dot: {name}")
    triggers = [reading.trigger(of, index) for index, of in enumerate(spec.tables("triggers"))]
    if not triggers:
        raise spec.wrong("triggers", "must have a trigger, has none")
    polling = min(max(spec.whole("pollingInterval", 30), 1), _LONGEST_WAIT)
    most, least = spec.whole("maxReplicaCount", 100), spec.whole("minReplicaCount", 0)
    if not 0 <= least <= most:
        raise spec.wrong("minReplicaCount", f"must be from 0 to maxReplicaCount = {most}, is {least}")
    policy: Table = {
        "mode": "observe",
        "interval": polling,
        "freeze": _frozen(subject, reading),
        "replicas": {"min": 0, "max": most},
        "job": _job_table(spec, subject.namespace, name, reading),
    }
    strategy = _jobs_strategy(spec, triggers, least, reading)
    zero = [trigger.series for trigger in triggers if trigger.zero]
    if zero:
        policy["trust"] = {"zero_when_empty": zero}
    policy["strategy"] = [strategy]
    spec.ignore("envSourceContainerName")
    notes = (*reading.notes, *unknown_fields(manifest))
    if reading.missing:
        return Imported("ScaledJob", subject.namespace, subject.name, None, (), (*reading.missing, *notes))
    return Imported("ScaledJob", subject.namespace, subject.name, policy, tuple(reading.sources), notes)


def _job_table(spec: Fields, namespace: str, name: str, reading: Reading) -> Table:
    """The table [job], with the template."""
    rollout = spec.table("rollout")
    older = spec.text("rolloutStrategy", "")
    how = rollout.text("strategy", "") or older or "default"
    if how not in ("default", "gradual"):
        raise rollout.wrong("strategy", f"must be default or gradual, is {shown(how)}")
    if rollout.has("propagationPolicy"):
        rollout.ignore("propagationPolicy")
        reading.notes.append("spec.rollout.propagationPolicy: Jobs are deleted with their pods")
    job = spec.any("jobTargetRef")
    if not isinstance(job, dict):
        raise spec.wrong("jobTargetRef", f"must be a table, is {shown(job)}")
    for key in ("selector", "manualSelector"):
        if key in job:
            reading.notes.append(f"spec.jobTargetRef.{key}: Kubernetes makes one for each Job")
    kept = {key: value for key, value in job.items() if key not in ("selector", "manualSelector")}
    return {
        "namespace": namespace,
        "name": name,
        "successful_history": spec.whole("successfulJobsHistoryLimit", 100),
        "failed_history": spec.whole("failedJobsHistoryLimit", 100),
        "rollout": how,
        "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": _without_nulls(kept)},
    }


def _without_nulls(value: Any) -> Any:
    """Without what the server leaves empty, such as metadata.creationTimestamp: null, which TOML cannot say."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def _jobs_strategy(spec: Fields, triggers: list[Trigger], least: int, reading: Reading) -> Table:
    scaling = spec.table("scalingStrategy")
    how = scaling.text("strategy", "default") or "default"
    strategy: Table = {"type": "jobs", "strategy": how if how in ("accurate", "eager", "custom") else "default"}
    strategy["calculation"] = scaling.text("multipleScalersCalculation", "max") or "max"
    if strategy["strategy"] in ("default", "custom"):
        strategy["spare"] = least
    elif least:
        reading.notes.append(f'spec.minReplicaCount: with strategy "{how}" no Jobs wait beyond what the queue needs')
    deduction = scaling.whole("customScalingQueueLengthDeduction", 0)
    share = amount(scaling.scalar("customScalingRunningJobPercentage", "0") or "0")
    if how == "custom":
        strategy |= {"deduction": deduction, "running_percentage": min(max(share, 0.0), 1.0)}
    if conditions := scaling.any("pendingPodConditions"):
        reading.notes.append(f"spec.scalingStrategy.pendingPodConditions: {shown(conditions)} becomes started = "
                             '"running" or "ready": see docs/jobs.md')  # fmt: skip
        if how == "accurate" and any("Ready" in str(condition) for condition in conditions):
            strategy["started"] = "ready"
    queues = [trigger for trigger in triggers if trigger.series]
    for trigger in triggers:
        if not trigger.series:
            reading.notes.append(f"{trigger.where}: {trigger.kind} is no queue, and was left out")
    if not queues:
        reading.missing.append("spec.triggers: none of them is a queue")
    strategy["queue"] = [
        {"series": queue.series, "per_job": next(iter(queue.point.values())), "activation": queue.activation}
        for queue in queues
    ]
    return strategy
