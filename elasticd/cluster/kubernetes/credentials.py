"""Where the API server is and how to prove who is asking.

The only module that knows kubernetes_asyncio: it reads kubeconfigs (tokens, certificates, exec plugins, OIDC) and
the service account of a pod. Its models are never built. Knows nothing of requests.
"""

import asyncio
import logging
import os
import ssl
import sys
import warnings
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, kube_config, list_kube_config_contexts, load_kube_config
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from elasticd.base.blocking import BlockingCall, DaemonThreads
from elasticd.base.errors import UNREADABLE, ConfigError, UnavailableError, nearest
from elasticd.base.files import content_of
from elasticd.base.news import LastReported
from elasticd.cluster.kubernetes.exec_plugin import printed

logger = logging.getLogger(__name__)

PATIENCE = 75.0
"""Seconds that reading the credentials may take: a plugin alone has 60."""

LARGEST_TOKEN = 1 << 20
"""Bytes of a file that are looked at, for whether it is empty, or another."""


_OTHER_PROOFS = ("client-certificate", "client-certificate-data", "username")
"""What may speak for a user of a kubeconfig whose token is empty."""


_CERTIFICATE = ("clientCertificateData", "clientKeyData")
_PROOFS = ("token", *_CERTIFICATE)
"""What of a plugin's status says who is asking: without any, elasticd would be anonymous."""


class _ExecCredential(msgspec.Struct, rename="camel"):
    """What a credential plugin prints."""

    api_version: str
    kind: str
    status: dict[str, Any]


class _BoundedExec(ExecProvider):
    """As the library's own, which waits for a plugin without end and reads without end what it prints."""

    async def run(self, previous_response: str | None = None) -> dict[str, Any]:
        spec = {"interactive": sys.stdout.isatty()}
        asked = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**self.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}
        try:
            output = printed(self.args, environment)  # on a loop of its own, in a thread
        except OSError as error:
            raise UnavailableError(f"exec: {self.args[0]} must start, does not: {error.strerror or error}") from None
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except UNREADABLE as error:
            raise UnavailableError(f"exec: must print an ExecCredential, does not: {error}") from None
        if credential.api_version != self.api_version:
            found = credential.api_version
            raise ValueError(f"exec: must print an ExecCredential of {self.api_version}, prints one of {found}")
        # Not when it ends, which the library would read, and nobody asks for.
        proofs = {key: value for key in _PROOFS if str(value := credential.status.get(key) or "").strip()}
        if "token" not in proofs and len(proofs) < len(_CERTIFICATE):
            raise UnavailableError("exec: must print a token, or a certificate with its key, prints neither")
        return proofs


class _RegularFile(kube_config.FileOrData):
    """As the library's own, which waits without end for a FIFO or a device, and takes an empty token or file for none:
    whoever writes a token in place empties its file first, and without one elasticd would be anonymous. A file that is
    not there may come, as an agent that writes it may be started later."""

    def __init__(self, obj: Any, file_key_name: str, data_key_name: str | None = None, **more: Any) -> None:
        super().__init__(obj, file_key_name, data_key_name, **more)
        is_empty_token = data_key_name == "token" in obj and not str(obj["token"] or "").strip()
        if is_empty_token and not any(key in obj for key in (*_OTHER_PROOFS, file_key_name)):
            raise UnavailableError("token: must hold something, is empty")

    def as_file(self) -> str | None:
        try:
            return super().as_file()
        except ConfigException:
            raise UnavailableError(f"{self._file}: must be a file, is none") from None

    def as_data(self) -> str | None:
        try:
            if self._file and not self._data and not content_of(Path(self._file), LARGEST_TOKEN).strip():
                raise UnavailableError(f"{self._file}: must hold something, is empty")
            return super().as_data()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or _line(error)
            raise UnavailableError(f"{self._file}: must be readable, is not: {why}") from None


class _Loader(kube_config.KubeConfigLoader):
    """As the library's own, for which all that goes wrong is the same: who gives a token may not be reached yet."""

    async def _refresh_oidc(self, provider: Any) -> None:
        try:
            await super()._refresh_oidc(provider)
        except Exception as error:
            raise UnavailableError(f"oidc: {_line(error)}") from error


# Where the library looks them up, as it takes no others by its arguments.
kube_config.ExecProvider = _BoundedExec  # type: ignore[attr-defined]  # not exported by name
kube_config.FileOrData = _RegularFile  # type: ignore[misc, assignment]  # the same
kube_config.KubeConfigLoader = _Loader  # type: ignore[misc]  # the same
# It logs what it raises, which is told by whoever asked.
logging.getLogger(kube_config.__name__).disabled = True


def find_kubeconfig(named: str) -> str:
    """The kubeconfig to use: the one named, $KUBECONFIG, or ~/.kube/config; empty inside a pod that names none."""
    if path := named or os.environ.get("KUBECONFIG", ""):
        return path
    if "KUBERNETES_SERVICE_HOST" in os.environ and Path(SERVICE_TOKEN_FILENAME).is_file():
        return ""
    return str(Path.home() / ".kube" / "config")


class Identity(NamedTuple):
    """The header that was sent last, and a digest of the client's certificate, as far as there are any."""

    header: str
    certificate: str


class _Loaded(NamedTuple):
    """What was read, and where: a kubeconfig, or nothing for a pod's service account."""

    path: str
    configuration: Configuration
    header: str
    certificate: str
    tls: ssl.SSLContext | bool | UnavailableError
    """Also why a certificate cannot be used."""


class Credentials:
    """The credentials as last read. Call `load` again when the server no longer accepts them."""

    def __init__(self, kubeconfig: str = "", context: str = "", patience: float = PATIENCE) -> None:
        self._kubeconfig, self._context = kubeconfig, context
        self._configuration = Configuration()
        self._tls: ssl.SSLContext | bool | UnavailableError = True
        self._first_host = self._header = self._certificate = ""
        self._reported = LastReported()
        # With an event loop of its own, as the library reads files on the loop that it is called on.
        self._reading = BlockingCall(lambda: asyncio.run(self._read()), patience, "credentials")

    async def load(self) -> None:
        """Read them. Raises ConfigError for what only a person can mend in a kubeconfig, and where they are by now
        those of another server, UnavailableError where who gives them, or writes a file of theirs, may do so later, or
        a mount with one of the files does not answer."""
        try:
            loaded = await self._reading.result()
        except TimeoutError as error:
            where = self._kubeconfig or "cluster"
            raise UnavailableError(f"{where}: it and its files must be readable, are not: {error}") from None
        path, header = loaded.path, loaded.header
        self._check_host(path, _address(loaded.configuration))
        if not _is_sendable(header):
            must = "must be what an HTTP header can hold, is not: it has other characters"
            raise UnavailableError(": ".join(filter(None, (path, "token", must))))
        if self._header and not header and not loaded.configuration.cert_file:
            raise UnavailableError(f"{path}: token: must be given, as before, is empty")
        self._configuration, self._header = loaded.configuration, header
        self._certificate, self._tls = loaded.certificate, loaded.tls
        await self._warn_of_exposure(path)

    async def _read(self) -> _Loaded:
        asyncio.get_running_loop().set_default_executor(DaemonThreads())  # one that blocks must not outlive the process
        path = find_kubeconfig(self._kubeconfig)
        configuration = Configuration()
        if not path:
            self._load_service_account(configuration)
        else:
            await self._load_kubeconfig(path, configuration)
        header = await _header_of(configuration)
        return _Loaded(path, configuration, header, _fingerprint(configuration.cert_file), _tls_of(configuration))

    def _check_host(self, path: str, host: str) -> None:
        """A context that was switched, or a file that was replaced, is of another cluster: what is known here of this
        one must not be done there."""
        self._first_host = self._first_host or host
        if host != self._first_host:
            held = "until elasticd is started again"
            raise ConfigError(path, "server", f"must be {self._first_host} {held}, is {host}")

    async def _warn_of_exposure(self, path: str) -> None:
        """Warn, once, where whoever answers is believed, or anybody on the way can read the token."""
        exposure = ""
        if not self.host.startswith("https"):
            exposure = "the token is sent unencrypted, by http" if await self.header() else ""
        elif not self._configuration.verify_ssl:
            exposure = "the server's certificate is not verified (insecure-skip-tls-verify)"
        if exposure and self._reported.changed(exposure):
            logger.warning("%s: %s: %s", path, self.host, exposure)

    def _load_service_account(self, configuration: Configuration) -> None:
        loader = InClusterConfigLoader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME)
        try:
            loader.load_and_set(configuration)
        except Exception as error:
            raise UnavailableError(f"cluster: the pod's service account is unusable: {_line(error)}") from error

    async def _load_kubeconfig(self, path: str, configuration: Configuration) -> None:
        if not _is_there(path):
            raise ConfigError("", "cluster.kubeconfig", f'must be a file, "{path}" is not there')
        self._check_context(path)
        try:
            # What a plugin of this library does badly (a deprecated call, say) is no concern of the daemon's.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                await load_kube_config(path, self._context or None, configuration, persist_config=False)
        except UnavailableError as error:
            raise UnavailableError(f"{path}: {error}") from None
        except Exception as error:
            raise ConfigError(path, "", f"must be a readable kubeconfig: {_line(error)}") from error

    def _check_context(self, path: str) -> None:
        if not self._context:
            return
        try:
            contexts, _ = list_kube_config_contexts(path)
        except Exception:
            return  # load has the better error message
        names = [str(context["name"]) for context in contexts]
        if self._context not in names:
            guess = nearest(self._context, names)
            problem = f'must be a context of {path}, is "{self._context}"{guess}'
            raise ConfigError("", "cluster.context", problem)

    async def header(self) -> str:
        """The Authorization header, empty when a certificate speaks for us. In a pod the token's file is reread; while
        that cannot be read, or has something that cannot be sent, the last token is."""
        with suppress(ConfigException, OSError):
            header = await _header_of(self._configuration)
            self._header = header if header and _is_sendable(header) else self._header
        return self._header

    @property
    def identity(self) -> Identity:
        """Who is asking."""
        return Identity(self._header, self._certificate)

    @property
    def host(self) -> str:
        """The API server's address, without a slash at its end."""
        return _address(self._configuration)

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must bear, when it is not the address."""
        return self._configuration.tls_server_name or None

    @property
    def proxy(self) -> str | None:
        return self._configuration.proxy or None

    def tls(self) -> ssl.SSLContext | bool:
        """What the server must prove, and what we show it. Raises UnavailableError."""
        if isinstance(self._tls, UnavailableError):
            raise self._tls
        return self._tls


def _tls_of(configuration: Configuration) -> ssl.SSLContext | bool | UnavailableError:
    if not _address(configuration).startswith("https"):
        return True
    try:
        return _context_of(configuration)
    except (OSError, ssl.SSLError) as error:  # it may be half written
        return UnavailableError(f"cluster: a certificate is unusable: {_line(error)}")


def _context_of(configuration: Configuration) -> ssl.SSLContext:
    ssl_context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Go, and so every kubectl, accepts certificates without the extensions that Python 3.13 began to want.
    ssl_context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        ssl_context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        ssl_context.check_hostname = False
        ssl_context.verify_mode = ssl.CERT_NONE
    return ssl_context


async def _header_of(configuration: Configuration) -> str:
    # A file that holds a token may end with a newline, as `echo` writes one.
    header = str(await configuration.get_api_key_with_prefix("BearerToken") or "").strip()
    return "" if header == "Bearer" else header


def _fingerprint(certificate: str | None) -> str:
    """What tells the content of a certificate's file from another; empty where there is none. Raises
    UnavailableError."""
    if not certificate:
        return ""
    try:
        return sha256(content_of(Path(certificate), LARGEST_TOKEN)).hexdigest()
    except OSError as error:
        raise UnavailableError(f"cluster: a certificate is unusable: {_line(error)}") from error


def _is_sendable(header: str) -> bool:
    return header.isascii() and header.isprintable()


def _address(configuration: Configuration) -> str:
    return str(configuration.host).rstrip("/")


def _is_there(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _line(error: BaseException) -> str:
    """The error in one line, without what the library quotes of the file, since that may hold a token."""
    line = str(error).split("\n")[0].split("{")[0].rstrip()
    return line or type(error).__name__
