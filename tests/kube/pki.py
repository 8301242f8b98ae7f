"""Certificates for loopback servers, made by the openssl command.

Knows X.509 extensions that strict clients want.  It must not know which servers use the certificates.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_EXTENSIONS = """
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1, DNS:localhost, DNS:kubernetes.default.svc
"""


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, both PEM files."""

    certificate: Path
    key: Path


def make_authority(folder: Path) -> Certificate:
    """A certificate authority of two days."""
    return _make(folder, "ca", [])


def make_server_certificate(folder: Path, name: str, authority: Certificate) -> Certificate:
    """A certificate for a server on 127.0.0.1, signed by the authority."""
    return _make(folder, name, ["-CA", str(authority.certificate), "-CAkey", str(authority.key)])


def make_flawed_certificate(
    folder: Path, name: str, authority: Certificate, *, names: str = "IP:127.0.0.1", ended: bool = False
) -> Certificate:
    """A certificate for a server or client of these names, perhaps of a time that is over."""
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    request, settings = folder / f"{name}.csr", folder / f"{name}.cnf"
    settings.write_text(f"subjectAltName = {names}\nextendedKeyUsage = serverAuth, clientAuth\n")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=test"),
        *("-keyout", str(made.key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority.certificate), "-CAkey", str(authority.key)),
        *("-CAcreateserial", "-days", "-1" if ended else "2", "-extfile", str(settings)),
        *("-out", str(made.certificate)),
    )
    made.key.chmod(0o600)
    return made


def make_key(path: Path) -> Path:
    """A private key alone, as service account tokens are signed with."""
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))
    return path


def _make(folder: Path, name: str, signer: list[str]) -> Certificate:
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    # The machine's own openssl.cnf adds extensions, and some twice: hence a configuration of our own.
    settings = folder / "openssl.cnf"
    settings.write_text(_EXTENSIONS)
    _openssl(
        *("req", "-x509", "-config", str(settings), "-extensions", "server" if signer else "ca"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN=elasticd-tests-{name}", *signer),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def _openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {' '.join(words)}: {done.stderr}")
