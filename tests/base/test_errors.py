"""Errors about what a person wrote."""

import pickle

import pytest

from elasticd.base.errors import ConfigError, SeveralError

ONE, OTHER = ConfigError("a.toml", "min", "must be >= 0, is -1"), ConfigError("", "--jobs", "must be >= 1, is 0")


@pytest.mark.parametrize(
    "error", [ONE, OTHER, SeveralError([ONE, OTHER])], ids=["of a file", "of an option", "several"]
)
def test_a_mistake_comes_back_from_another_process(error: ConfigError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.file, again.key) == (type(error), str(error), error.file, error.key)
    assert [str(each) for each in again.each] == [str(each) for each in error.each]
