"""What a number is worth: samples in, a graded series out.

Knows that age counts from the measurement and that garbage is never zero; knows nothing of where a
number came from or what it will decide.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import inf

from msgspec.structs import replace

from elasticd.model.forecast import Forecast
from elasticd.model.workload import Quality, Readings, Sample, Series

FUTURE = 60.0
"""Seconds a source's clock may run ahead of ours before its samples are called invalid."""

_AGES = 10 * 365 * 86400.0
"""Seconds; a source that calls a number older than that does not know how old it is."""

NO_SAMPLE = "no sample"
NO_FORECAST = "there is no forecast of it yet"

SETTLING = 60.0
"""Seconds after its start within which a pod may well have no sample: metrics-server needs two scrapes of one."""


def grade(
    name: str, source: str, samples: Iterable[Sample], at: float, max_age: float, pods: AbstractSet[str] = frozenset()
) -> Series:
    """A series of the samples that can be used at this time, and what it is worth as a whole.

    Dropped are NaN, infinite, negative and future samples (INVALID) and those older than `max_age` seconds (STALE);
    of a pod, all or none, for a part of its containers is not the pod. A series of the workload as a whole is then
    worth no more than that. One of pods is PARTIAL when one of the `pods` expected has none left: pods whose samples
    are of no use are like pods without one, and what others have does not make up for it.
    """
    received = tuple(samples)
    if not received:
        return Series(name, source, Quality.EMPTY, (), NO_SAMPLE)
    latest, oldest = at + FUTURE, at - max_age
    times = {s.measured for s in received}  # those of one reading are mostly of one time
    fresh = received
    if not _all_good([s.value for s in received], times, oldest, latest):
        fresh = tuple([s for s in received if 0.0 <= s.value < inf and oldest <= s.measured <= latest])
    if len(fresh) == len(received) and (not pods or pods <= {s.pod for s in fresh}):
        return Series(name, source, Quality.FRESH, fresh, "", max(times))
    valid = tuple([s for s in received if 0.0 <= s.value < inf and s.measured <= latest])
    worst = (Quality.PARTIAL, "")
    if len(fresh) < len(received):
        worst = _explain_dropped(received, valid, fresh, at, max_age)
    if not pods:
        return Series(name, source, worst[0], fresh, worst[1], _newest_time(fresh))
    good = {id(s) for s in fresh}  # by identity: a NaN equals nothing
    spoilt = {s.pod for s in received if id(s) not in good}
    usable = tuple([s for s in fresh if s.pod not in spoilt])
    coverage = f"{len(pods & {s.pod for s in usable})} of {len(pods)} pods have a sample"
    quality = Quality.PARTIAL if usable else worst[0]
    return Series(name, source, quality, usable, "; ".join(filter(None, (coverage, worst[1]))), _newest_time(usable))


def _all_good(values: Sequence[float], times: AbstractSet[float], oldest: float, latest: float) -> bool:
    """Whether all samples can be used, as they nearly always can. False too for values so great that their sum is
    infinite. A sum shows a NaN, which min and max may not."""
    good = sum(values) < inf and min(values) >= 0.0
    return good and sum(times) < inf and oldest <= min(times) and max(times) <= latest


def expected(name: str, reading: Readings, workload: str, at: float) -> Series:
    """A series that is forecast: FRESH while the forecast may be believed, STALE once it has expired, INVALID where
    there is a doubt, EMPTY before there is one. Its sample is what is expected now, measured when it was fitted.
    Its worth alone never holds what others know: while it is EMPTY, a strategy that uses forecasts may."""
    forecast = reading.forecasts[name].get(workload)
    if forecast is None:
        fault = reading.faults.get(name)
        why = f"{NO_FORECAST}: {fault}" if fault else NO_FORECAST
        return Series(name, reading.source, Quality.EMPTY, (), why)
    places = forecast.window(at, at)
    samples = () if places is None else (Sample(forecast.values[places[0]], forecast.fitted, reading.received),)
    quality, message = _grade_forecast(forecast, at)
    return Series(name, reading.source, quality, samples, message, forecast.fitted, forecast=forecast)


def _grade_forecast(forecast: Forecast, at: float) -> tuple[Quality, str]:
    if forecast.doubt:
        return Quality.INVALID, forecast.doubt
    if at >= forecast.expires:
        return Quality.STALE, f"the forecast expired {at - forecast.expires:.0f} s ago"
    skill = "" if forecast.skill is None else f", skill {forecast.skill:.2f}"
    period = f", period {forecast.period:g} s" if forecast.period else ""
    return Quality.FRESH, f"{forecast.method}{period}{skill}"


def cover(series: Series, expected: AbstractSet[str], coverage: float) -> Series:
    """A partial series, marked as not covering when less than `coverage` (0 to 1) of the expected pods have a sample.
    Expected are those that have settled, and those of which there was a sample, be it garbage; of others that have
    just started, nobody can have measured anything yet."""
    sampled = len(expected & {s.pod for s in series.samples})
    if sampled >= coverage * len(expected):
        return series
    message = f"{series.message}; of {len(expected)} that should, at least {coverage:.0%} must"
    return replace(series, message=message, covered=False)


def apart(
    series: Series, halves: Sequence[Sample], settled: AbstractSet[str], at: float, max_age: float, coverage: float
) -> Series:
    """Add the samples of pods of which another container has none. Only usable ones are added, and only if enough of
    the settled pods then have a sample, so that a strategy that looks at one container alone may trust the series."""
    good = tuple([s for s in halves if 0.0 <= s.value < inf and at - max_age <= s.measured <= at + FUTURE])
    sampled = {s.pod for s in (*series.samples, *good)}
    covered = len(sampled) >= coverage * len(settled | sampled)
    return replace(series, apart=good) if good and covered else series


def doubted(series: Series, why: str) -> Series:
    """The series whose samples may be too low, for this reason: they may raise a count, but not lower it, and that it
    has none says nothing."""
    message = f"{series.message}; {why}" if series.message else why
    return replace(series, quality=Quality.INVALID, message=message, apart=(), may_raise=True)


def unseen(series: Series, why: str) -> Series:
    """A series of fewer pods than the workload's controller counts, for this reason: doubted, and there."""
    return series if series.unseen else replace(doubted(series, why), unseen=series.trusted)


def _newest_time(samples: tuple[Sample, ...]) -> float:
    return max([s.measured for s in samples]) if samples else 0.0


def _explain_dropped(
    received: tuple[Sample, ...], valid: tuple[Sample, ...], fresh: tuple[Sample, ...], at: float, max_age: float
) -> tuple[Quality, str]:
    if len(valid) < len(received):
        dropped = len(received) - len(valid)
        return Quality.INVALID, f"{dropped} of {len(received)} samples are NaN, infinite, negative or of the future"
    age, dropped = at - min(s.measured for s in received), len(received) - len(fresh)
    ages = f"up to {age:.0f} s old" if age < _AGES else "of unknown age"
    return Quality.STALE, f"{dropped} of {len(received)} samples are {ages}, at most {max_age:g} s"


def failed(name: str, source: str, message: str) -> Series:
    """A series whose source could not be read."""
    return Series(name, source, Quality.ERROR, (), message)
