"""Text from strangers, and counts, as a person reads them."""

import pytest

from elasticd.base.text import counted, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("as it is", "as it is", id="plain"),
        pytest.param("hi\x1b[31mgh", "hi\\x1b[31mgh", id="an escape"),
        pytest.param("one\ntwo\x07", "one\ntwo\\x07", id="lines stay"),
        pytest.param("w\udcff", "w\\udcff", id="no UTF-8"),
        pytest.param("日本 é", "日本 é", id="any letters"),
    ],
)
def test_what_cannot_be_printed_is_escaped_and_lines_stay(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(("count", "told"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_one_is_counted_in_the_singular(count: int, told: str) -> None:
    assert counted(count, "pod") == told
