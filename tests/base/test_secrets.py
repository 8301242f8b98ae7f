"""Secrets come from closed files or systemd's credentials, and no message tells them."""

from pathlib import Path

import pytest

from elasticd.base.errors import ConfigError
from elasticd.base.secrets import check_secret, read_secret

CANARY = "canary-4711"


def written(folder: Path, mode: int = 0o600, text: str | bytes = CANARY + "\n") -> Path:
    path = folder / "token"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640], ids=oct)
def test_secret_file_closed_to_others_is_read_without_line_end(tmp_path: Path, mode: int) -> None:
    assert read_secret(str(written(tmp_path, mode))) == CANARY


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o666], ids=oct)
def test_a_file_that_everyone_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, mode)
    with pytest.raises(ConfigError, match="must not be readable by everyone") as caught:
        read_secret(str(path))
    assert str(path) in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda folder: folder / "none", "No such file", id="missing"),
        pytest.param(lambda folder: folder, "must be readable, is not: it is a folder", id="a-folder"),
        pytest.param(lambda folder: written(folder, text=b"\xff" + CANARY.encode()), "must be UTF-8", id="no-text"),
        pytest.param(lambda folder: written(folder, text="x" * ((1 << 20) + 1)), "at most 1 MB", id="huge"),
    ],
)
def test_bad_secret_file_is_reported_in_one_line_without_content(tmp_path: Path, make: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        read_secret(str(make(tmp_path)))  # type: ignore[operator]
    assert CANARY not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_systemds_credentials_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 0o400)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert read_secret("credential:token") == CANARY
    assert check_secret("credential:token") == tmp_path / "token"


def test_a_credential_without_systemd_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ConfigError, match="credential:token: must be passed by systemd"):
        read_secret("credential:token")
