"""Forecast: enough pods now for the highest load that is expected while new pods would start.

Knows models from a load to a number of pods, and a forecast's own quality; knows nothing of how a forecast is made.
"""

from functools import lru_cache
from math import ceil
from typing import Annotated, ClassVar, Literal

from elasticd.api import (
    MOST,
    Forecast,
    Limit,
    Measure,
    Meta,
    Observation,
    Quality,
    Recommendation,
    Series,
    Strategy,
    hookimpl,
)

MOST_QUEUED = 100_000.0
"""Above this offered load (in servers) M/M/c is approximated by the load plus twice its square root."""

Positive = Annotated[float, Meta(gt=0)]
Use = Annotated[float, Meta(ge=0)]


class Ahead(Strategy, tag="forecast", frozen=True):
    """Replicas for the highest load expected within `lead` seconds, from a source of type forecast.

    Beside a reactive strategy it only raises the count: with a forecast that has expired, is in doubt or could not be
    made, it has no opinion, says why, and other strategies decide alone. Until the first one is there, as after a
    restart, no scale-in begins (NoForecastYet). A forecast that ends before `lead` counts as far as it reaches. A peak
    counts until it has passed out of the window, so nothing is taken away early. With a reactive strategy and a
    schedule the result is max(proactive, reactive, floor), cut at the ceiling.

    `model` turns a load into pods: "value" is load / target; "mm1" and "mmc" are queues in which each pod serves `mu`
    requests a second and a response may take `wait` seconds; "linear" is the fewest pods of which each uses at most
    `target`, by a line that is learnt or given. Source: AHPA (Zhou et al., AAAI 2023), whose forecast shift is
    reconstructed; Kapacity's replica predictor for "linear".
    """

    wants_forecasts: ClassVar[bool] = True

    series: Annotated[str, Meta(min_length=1, description="the series of a source of type forecast")]
    lead: Annotated[float, Meta(ge=0, le=604800, description="seconds that a new pod needs until it serves")] = 180.0
    bound: Annotated[
        Literal["upper", "expected"], Meta(description="upper: the source's quantile of what may come")
    ] = "upper"
    model: Annotated[Literal["value", "mm1", "mmc", "linear"], Meta(description="from a load to pods")] = "value"
    target: Annotated[Positive | None, Meta(description='load of one pod; for "linear" what one pod may use')] = None
    mu: Annotated[Positive | None, Meta(description="requests a second that one pod can serve")] = None
    wait: Annotated[Positive | None, Meta(description="seconds that an answer may take on average")] = None
    slope: Annotated[Use | None, Meta(description='what a pod uses for each unit of load; of "linear"')] = None
    intercept: Annotated[Use | None, Meta(description='what a pod uses without load; of "linear"')] = None

    def __post_init__(self) -> None:
        needed, allowed = _NEEDED[self.model], ("slope", "intercept") if self.model == "linear" else ()
        for name in ("target", "mu", "wait", "slope", "intercept"):
            option = getattr(self, name)
            if name in needed and option is None:
                raise ValueError(f'{name}: must be given for model = "{self.model}", is missing')
            if name not in (*needed, *allowed) and option is not None:
                raise ValueError(f'{name}: must be left out for model = "{self.model}", is {option:g}')
        if (self.slope is None) != (self.intercept is None):
            lone, absent = ("intercept", "slope") if self.slope is None else ("slope", "intercept")
            raise ValueError(f"{absent}: must be given with {lone}, or both be learnt, is missing")
        if self.mu and self.wait and self.wait * self.mu <= 1:
            raise ValueError(f"wait: must be > 1 / mu = {1 / self.mu:g}, the time of service alone, is {self.wait:g}")
        if self.target and self.intercept is not None and self.target <= self.intercept:
            raise ValueError(f"target: must be > intercept = {self.intercept:g}, is {self.target:g}")

    def reads(self) -> tuple[str, ...]:
        return (self.series,)

    @hookimpl
    def recommend_replicas(self, observation: Observation) -> Recommendation:
        """The pods for the highest load expected; no opinion, never unknown, without a usable forecast."""
        series, now = observation.series.get(self.series), observation.at
        forecast = None if series is None or not series.trusted else series.forecast
        if forecast is None or forecast.doubt or now >= forecast.expires:
            return _none("NoForecast", _lacking(self.series, series, now))
        places = forecast.window(now, now + self.lead)
        if places is None:
            return _none("NoForecast", f"{self.series} says nothing of this time")
        values = forecast.upper if self.bound == "upper" else forecast.values
        peak = max(places, key=values.__getitem__)
        replicas = self._pods(forecast, values[peak])
        if replicas is None:
            return _none("NoModel", forecast.untaught or "no number of pods would be enough")
        ahead = max(0.0, forecast.first + peak * forecast.step - now)
        return self._recommend(forecast, replicas, values[peak], ahead)

    @hookimpl
    def limit(self, observation: Observation) -> Limit | None:
        """No scale-in before the first forecast, which may want the pods that would go. The source ends this: of a
        workload that gets none it says so, by a forecast in doubt."""
        series = observation.series.get(self.series)
        if series is None or series.forecast is not None or series.quality is not Quality.EMPTY:
            return None
        message, lowest = f"{self.series}: {series.message}", observation.workload.replicas
        return Limit("NoForecastYet", message, lowest, condition="AbleToScale")

    def _pods(self, forecast: Forecast, load: float) -> int | None:
        """How many pods a load needs, by the model; None where the line is not learnt or no number would be enough."""
        if self.mu is not None and self.wait is not None:
            return mm1(load, self.mu, self.wait) if self.model == "mm1" else mmc(load, self.mu, self.wait)
        if self.target is None:
            return None
        if self.model == "value":
            return _round_up(load / self.target)
        slope, intercept = self.slope, self.intercept
        if slope is None or intercept is None:
            if forecast.per_pod is None:
                return None
            slope, intercept = forecast.per_pod.slope, forecast.per_pod.intercept
        return linear(load, slope, intercept, self.target)

    def _recommend(self, forecast: Forecast, replicas: int, load: float, ahead: float) -> Recommendation:
        by = f"{forecast.quantile:.0%} of it" if self.bound == "upper" else "expected"
        message = f"{load:.4g} ({by}) in {ahead:.0f} s, looking {self.lead:g} s ahead"
        skill = "" if forecast.skill is None else f", skill {forecast.skill:.2f}"
        period = f", period {forecast.period:g} s" if forecast.period else ""
        target = "" if self.target is None else f"{self.target:g}"
        how = f"{forecast.method}{period}{skill}, error {forecast.error:.3g}"
        measure = Measure(self.series, f"{load:.4g}", target, replicas, reason=self.model, message=how)
        return Recommendation(replicas, "ForecastAbove", message, (measure,), expires=forecast.expires)


def _none(reason: str, message: str) -> Recommendation:
    return Recommendation(None, reason, message, abstains=True)


def _lacking(name: str, series: Series | None, now: float) -> str:
    if series is None or series.forecast is None:
        return (series.message if series else "") or f"{name} is no forecast"
    if series.forecast.doubt:
        return f"not believed: {series.forecast.doubt}"
    if now >= series.forecast.expires:
        return f"the forecast expired {now - series.forecast.expires:.0f} s ago"
    return series.message or f"{name} is {series.quality.value}"


_NEEDED = {"value": {"target"}, "mm1": {"mu", "wait"}, "mmc": {"mu", "wait"}, "linear": {"target"}}


def _round_up(pods: float) -> int:
    """The count that is enough. Rounding errors just above a whole number do not add a pod."""
    return MOST if pods >= MOST else ceil(round(pods, 9))


def mm1(load: float, mu: float, wait: float) -> int:
    """Pods, each with a queue of its own and an equal part of the load, for a mean response time of `wait` s: ceil(load
    / (mu - 1 / wait)). AHPA, for many pods; it provisions far more than M/M/c."""
    return _round_up(load / (mu - 1 / wait))


@lru_cache(maxsize=1024)
def mmc(load: float, mu: float, wait: float) -> int:
    """The fewest pods behind one queue for a mean response time of `wait` s: C / (c mu - load) + 1 / mu, where C is
    Erlang's probability of waiting. AHPA, for few pods."""
    offered = load / mu
    if offered <= 0:
        return 0
    if offered > MOST_QUEUED:  # the square-root rule, whose error is small here
        return _round_up(offered + 2 * offered**0.5)
    blocked, pods = 1.0, 0
    while True:
        pods += 1
        blocked = offered * blocked / (pods + offered * blocked)  # Erlang B, which leads to C
        if pods > offered:
            waiting = blocked / (1 - offered / pods * (1 - blocked))
            if waiting / (pods * mu - load) + 1 / mu <= wait:
                return pods


def linear(load: float, slope: float, intercept: float, target: float) -> int | None:
    """The fewest pods of which each uses at most `target`, where a pod uses slope x its load + intercept; None where it
    uses more even without load. Kapacity tries each count up to twice the highest; a line needs but a division."""
    return None if target <= intercept else _round_up(slope * load / (target - intercept))


@hookimpl
def register_strategies() -> list[type[Strategy]]:
    return [Ahead]
