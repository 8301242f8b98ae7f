"""How decisions are compared with what was recorded."""

import pytest

from tests.decisions.__main__ import differences, main
from tests.decisions.scenes import rounded


def test_what_the_demo_decides_is_what_was_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    assert capsys.readouterr().out.endswith("records, none different\n")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(['{"at":1}'], ['{"at":1}'], [], id="the same"),
        pytest.param(
            ['{"at":1,"policy":"web","a":{"b":[1,2]}}'],
            ['{"at":1,"policy":"web","a":{"b":[1,3]}}'],
            ["record 1, at 1, web: a.b[1] was 2, is 3"],
            id="a number deep in a record",
        ),
        pytest.param(
            [],
            ['{"at":1}'],
            ['record 1, at 1, None: record was null, is {"at": 1}'],
            id="a record more",
        ),
        pytest.param(
            ['{"at":1,"a":2}'],
            ['{"a":2,"at":1}'],
            ["record 1, at 1, None: in the order of its fields"],
            id="the order of fields",
        ),
    ],
)
def test_a_difference_names_the_record_and_the_field(before: list[str], after: list[str], told: list[str]) -> None:
    assert list(differences(before, after)) == told


def test_an_unknown_scene_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demmo"]) == 2
    assert capsys.readouterr().out == "must be of examples, papers, surges, broken, demo, is demmo\n"


def test_numbers_compare_by_six_digits_and_times_by_the_millisecond() -> None:
    assert rounded({"a": (0.1 + 0.2, 1_699_941_600.2504, float("nan"))}) == {"a": [0.3, "1699941600.25", "nan"]}
