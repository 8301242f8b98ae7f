"""Why there is no sample to show."""

from typing import Any

import pytest

from elasticd.ui.names import no_samples
from tests.ui.test_sources import report

DOWN: dict[str, Any] = {"name": "prometheus", "health": "no answer", "series": ()}


@pytest.mark.parametrize(
    ("series", "more", "line"),
    [
        pytest.param("cpu", [], "resource-metrics has it, and no sample of this workload", id="of others alone"),
        pytest.param("memorry", [], 'no source has samples of memorry, did you mean "memory"?', id="misspelt"),
        pytest.param("queue", [], "no source has samples of queue; there are cpu, memory", id="nothing like it"),
        pytest.param(
            "queue",
            [report(**DOWN)],
            "no source has samples of queue; there are cpu, memory; prometheus does not answer",
            id="one that may have it is down",
        ),
        pytest.param(
            "queue",
            [report(**DOWN, quiet="unread")],
            "no source has samples of queue; there are cpu, memory",
            id="one that nobody reads is not",
        ),
    ],
)
def test_why_a_series_has_no_sample_is_reported(series: str, more: list[Any], line: str) -> None:
    assert no_samples(series, [report(), *more]) == line
