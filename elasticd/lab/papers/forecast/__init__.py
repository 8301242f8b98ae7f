"""Forecasts: series taken apart, periods found, and a week scaled with a forecast and without.

Sources: RobustSTL (Wen et al., AAAI 2019), AHPA (Zhou et al., AAAI 2023) and its forecaster's code, Crane's page on
time series forecasting by DSP, Kapacity's replica predictor.
"""

from collections.abc import Sequence
from itertools import product

from elasticd.lab.papers import Reproduction, Work, paragraphs, summed_up
from elasticd.lab.papers.forecast import parts, weeks
from elasticd.registry import discover


def reproduce(seeds: Sequence[int], work: Work) -> Reproduction:
    """Takes a series apart for each seed, and plays a week in each way with each seed."""
    registry, keys = discover(), list(product((*weeks.WAYS, weeks.IDEAL), seeds))
    taken = work.each(seeds, parts.run, parts.Parts, then=len(keys))
    played = work.each(keys, lambda key: weeks.run(registry, key), weeks.Week)
    claims = (*parts.claims(taken), *weeks.claims(played, seeds))
    return Reproduction(
        "forecast",
        "scale before the load is there, by its days and weeks",
        "Wen et al., AAAI 2019 (RobustSTL); Zhou et al., AAAI 2023 (AHPA); Crane; Kapacity",
        SETUP,
        claims,
        FINDINGS,
        UNKNOWN,
        (*parts.charts(seeds[0]), *weeks.charts(played, seeds[0]), *weeks.bars(played, seeds)),
        "elasticd simulate config/scenarios/forecast/elasticd.toml",
        summed_up(claims, MAIN),
    )


MAIN = {
    "RobustSTL's trend is far nearer to the true one": ("decomposition", "error of the trend, RobustSTL"),
    "a shift of the level is found where it is, and spikes stay out of the season": ("decomposition", ""),
    "AHPA's and Crane's detectors find a period where there is one, and none in noise": ("periods", ""),
    "pods for a load by M/M/1, M/M/c and a line; Crane's error": ("from a load", ""),
    "a forecast beside the hpa leaves less unserved than the hpa alone": ("the week", "less is unserved"),
    "the same on the day with anomalies": ("the day with", "less is unserved"),
    "20 % cheaper than an hpa with a target of 60 %": ("the week", "replica-hours saved"),
}


SETUP = paragraphs(
    """
Decomposition: 480 values of period 24 with a level that shifts by 5, a spike up, one down and noise; each seed draws
other noise. The settings are those of a public implementation. Errors are mean squares.

Periods: a detector gets a series whose period is known; each seed draws other noise.

The week: one workload whose load climbs from 1.5 to 12 cores within half an hour each working day, and has a third on
weekends, with 3 % of noise. Wednesday is a holiday, of which nothing says so; Thursday has 1.8 times the load for an
hour, and a tenth of it for another. A forecast is learnt from three weeks before, of which each has a crowd somewhere,
and from what came since; it is fitted every two hours. Pods have one core and take 5 minutes to serve; the forecast is
asked 10 minutes ahead, and its upper bound counts (95 %). Policies look every minute, measurements are wrong by up to
5 %. Each seed draws another load.
"""
)
FINDINGS = paragraphs(
    """
RobustSTL's trend is far nearer to the true one than that of moving averages: with four seeds by more than ten times,
with one by eight. The level shift is found where it is. Its season is worse than the mean of each phase, as the true
one never changes here, and RobustSTL follows changes.

A detector that expects nothing is off by about ten minutes in a day, so elasticd tries only periods that are expected.
Crane's sees a day in one random walk; the forecast of it is not believed, as its last hour is off.

With a forecast, less is unserved in the week with every seed, for about a seventh more replica-hours. It has the pods
ready before a working morning. Most of what the hpa alone leaves is just after the outage, in which it has scaled in;
the forecast keeps the pods, as the load was expected. With one seed it does not, and nothing is gained on that day.

An hpa with a lower target leaves even less unserved, for a sixth more replica-hours than with the forecast. So a
forecast is cheaper than room for all that may come, but by less than 20 %, and not as safe.

On the holiday, which nothing in the past shows, 6 to 28 % more replica-hours are asked for than by the hpa alone. And a
crowd of a past week is expected again at its hour, as on Monday in the picture.

Counts are taken back within 10 minutes up to four times in a week with a forecast, and never without.
"""
)
UNKNOWN = paragraphs(
    """
The series on which RobustSTL's 0.0530 was measured, and what of it was random. So errors are compared with moving
averages on a series that is described above.

The services of which AHPA reports 20 % less cost and 10 % more use of cpu, and what they were scaled by before. Here an
hpa with a lower target stands for that, which is how room is kept without a forecast.

How AHPA shifts its forecast for pods that start slowly, and when it believes one. Here the highest load within `lead`
counts, and one is not believed that is no better than the last period again on what was held out.

RobustPeriod, which finds several periods at once: elasticd does not implement it, but tries the periods that are
expected.

Kapacity's network that forecasts traffic, and its trees on top of the line. elasticd learns the line alone.

What holidays and anomalies the papers' loads have, and whether a calendar tells of them.
"""
)
