"""Growth is seen where it lasts, and only there."""

import pytest

from tests.kit.growth import Held, grown


def _held(*resident: int) -> list[Held]:
    return [Held(resident=each, descriptors=10, threads=3, journal=100, series=200) for each in resident]


ROWS = [
    pytest.param(_held(100, 150, 200, 200, 204, 209), [], id="less than a twentieth"),
    pytest.param(_held(100, 150, 200, 200, 204, 211), ["resident: at most 200, then 211"], id="more"),
    pytest.param(_held(100, 200, 900, 200, 200, 200), [], id="a peak before"),
    pytest.param(_held(1, 1, 2, 2, 2, 4), [], id="a few"),
    pytest.param(_held(100, 200), [], id="too short to say"),
]


@pytest.mark.parametrize(("measured", "expected"), ROWS)
def test_what_grows_in_the_last_third_is_told(measured: list[Held], expected: list[str]) -> None:
    assert grown(measured) == expected


LIMITED = [pytest.param(299, [], id="within"), pytest.param(301, ["journal: at most 200, then 301"], id="beyond")]


@pytest.mark.parametrize(("last", "expected"), LIMITED)
def test_what_has_a_limit_may_fill_it(last: int, expected: list[str]) -> None:
    measured = [
        Held(resident=100, descriptors=10, threads=3, journal=each, series=200)
        for each in (100, 100, 200, 200, last, last)
    ]
    assert grown(measured, {"journal": 300}) == expected
