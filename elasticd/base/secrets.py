"""Secrets: read when needed, from files that others cannot read, or from systemd credentials.

Knows files and their permissions; knows nothing of what a secret is for. No message contains a secret.
"""

import os
import stat
from pathlib import Path

from elasticd.base.errors import ConfigError, NotYetError
from elasticd.base.files import linked

CREDENTIAL = "credential:"


class CredentialError(ConfigError):
    """A credential that systemd would pass cannot be looked at: systemd has not started this process."""


_LARGEST = 1 << 20


def secret_path(place: str) -> Path:
    """The file of a secret: a path, or `credential:NAME` for one that systemd passes (LoadCredential=NAME:...)."""
    if not place.startswith(CREDENTIAL):
        return Path(place)
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    if not folder:
        problem = "must be passed by systemd (LoadCredential=), CREDENTIALS_DIRECTORY is not set"
        raise CredentialError("", place, problem)
    return Path(folder) / place.removeprefix(CREDENTIAL)


def unreadable(path: Path, error: OSError) -> ConfigError:
    """What to tell of a file that cannot be opened."""
    kind = NotYetError if isinstance(error, FileNotFoundError) else ConfigError
    return kind("", str(path), f"must be readable, is not: {error.strerror}")


def check_secret(place: str) -> Path:
    """The file of a secret, if it is readable, and not by everyone. Raises ConfigError that names place and rule."""
    path = secret_path(place)
    try:
        with open(path, "rb", opener=linked) as file:
            status = os.fstat(file.fileno())
    except OSError as error:
        raise unreadable(path, error) from None
    if status.st_size > _LARGEST:
        raise ConfigError("", str(path), f"must be a file of at most {_LARGEST >> 20} MB")
    # A file in a mounted Kubernetes Secret may be 0644: give it defaultMode 0400.
    if status.st_mode & stat.S_IROTH:
        rights = stat.filemode(status.st_mode)
        raise ConfigError("", str(path), f"must not be readable by everyone (chmod o-r), is {rights}")
    return path


def read_secret(place: str) -> str:
    """The content of the file, without the line end. Read each time it is needed, so that it may be rotated."""
    path = check_secret(place)
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise ConfigError("", str(path), "must be UTF-8 text, is not") from None
