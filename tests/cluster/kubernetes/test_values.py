"""Values as Kubernetes writes them."""

import pytest

from elasticd.cluster.kubernetes.wire.values import go_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m0s", 60),
        ("1h2m3s", 3723),
        ("10.5s", 10.5),
        ("500ms", 0.5),
        ("1.5µs", 1.5e-6),
        ("0s", 0),
        ("", 0),
        ("soon", 0),
        ("5", 0),
    ],
)
def test_durations_are_those_of_go(text: str, seconds: float) -> None:
    assert go_seconds(text) == pytest.approx(seconds)
