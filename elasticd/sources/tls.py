"""TLS for sources that speak a protocol of their own: whom to trust, and which certificate to present.

Knows files; knows nothing of the protocol.
"""

import ssl
from typing import Annotated

from msgspec import Meta, Struct

from elasticd.base.errors import NotYetError
from elasticd.base.secrets import check_secret, secret_path


class Tls(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS. The server's certificate must be valid and name its host: there is no way to switch that off."""

    ca_file: Annotated[str, Meta(description="PEM of who may sign the server's certificate; empty: the system's")] = ""
    cert_file: Annotated[str, Meta(description="PEM of the daemon's own certificate; empty: none")] = ""
    key_file: Annotated[str, Meta(description="PEM of its key, closed to others, or credential:NAME; empty: none")] = ""

    def __post_init__(self) -> None:
        if bool(self.cert_file) != bool(self.key_file):
            present, missing = ("cert_file", "key_file") if self.cert_file else ("key_file", "cert_file")
            raise ValueError(f"{missing}: must be given with {present}, is empty")


def tls_context(tls: Tls) -> ssl.SSLContext:
    """A context that checks the certificate and the name. Raises ConfigError for files that cannot be used."""
    if tls.key_file:
        check_secret(tls.key_file)
    place = str(secret_path(tls.ca_file)) if tls.ca_file else None
    try:
        context = ssl.create_default_context(cafile=place)
        if tls.cert_file:
            place = str(secret_path(tls.cert_file))
            # Without a passphrase: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(place, str(secret_path(tls.key_file)), password=lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; an empty file is a ValueError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not PEM"
        # It may be half written, or not there yet.
        raise NotYetError("", str(place), f"must be readable PEM, is not: {reason}") from None
    return context


def check_files(password_file: str, tls: Tls | None) -> None:
    """Raise ConfigError for a file that is missing, or open to others, before anything is begun."""
    if password_file:
        check_secret(password_file)
    if tls:
        tls_context(tls)
