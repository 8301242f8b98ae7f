"""Advice about options that are allowed but have no effect, a line each, beside the mistakes that `check` finds.

Knows policies and sources as they are written, and the files that they name; knows nothing of what is running.
"""

from collections.abc import Sequence

from elasticd.base.errors import ConfigError
from elasticd.config import Settings
from elasticd.model.policy import Policy
from elasticd.ports.source import Source


def advise(policies: Sequence[Policy], sources: Sequence[Source]) -> list[str]:
    """A line for each policy that runs more often than any of its sources is updated."""
    return [line for policy in policies if (line := _too_often(policy, sources))]


def examine(settings: Settings, file: str) -> list[ConfigError]:
    """Mistakes in the settings that only this machine shows: files that sources and publisher need and cannot use."""
    checks = [(f"source[{index}]", source.examine) for index, source in enumerate(settings.sources)]
    if settings.outlet is not None:
        checks.append(("outlet", settings.outlet.examine))
    errors = []
    for key, ask in checks:
        try:
            ask()
        except ConfigError as error:
            errors.append(type(error)(file, key, str(error)))
    return errors


def _too_often(policy: Policy, sources: Sequence[Source]) -> str:
    intervals = [(fast, strategy) for strategy in policy.strategies if (fast := strategy.fastest()) is not None]
    interval, by = policy.interval, "interval"
    if intervals:
        interval, strategy = min(intervals, key=lambda pair: pair[0])
        by = f"strategy {strategy.__struct_config__.tag}"
    paces = [(pace, source.label) for source in _sources_of(policy, sources) if (pace := _pace(source)) is not None]
    if not paces or len(paces) < len(_sources_of(policy, sources)) or min(paces)[0] <= interval:
        return ""
    pace, label = min(paces)
    why = f"{label} usually has something new every {pace:g} s (if not, say so by its option resolution)"
    return f"{policy.name}.toml: {by}: to look every {interval:g} s brings nothing: {why}"


def _sources_of(policy: Policy, sources: Sequence[Source]) -> list[Source]:
    """The sources that may have what the policy reads."""
    trusted = policy.trust.sources
    reads = [strategy.reads() for strategy in policy.strategies]
    names = None if None in reads else {name for series in reads for name in series or ()}
    return [
        source
        for source in sources
        if (not trusted or source.label in trusted) and _may_have(source.offers() or source.usual_series, names)
    ]


def _may_have(offers: tuple[str, ...] | None, names: set[str] | None) -> bool:
    return offers is None or names is None or bool(names & set(offers))


def _pace(source: Source) -> float | None:
    return source.usual if source.resolution is None else source.resolution
