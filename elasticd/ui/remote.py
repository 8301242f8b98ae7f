"""Asks a running daemon, at the address in its own elasticd.toml. Raises UnavailableError where none answers.

Knows HTTP and what the pages answer; knows nothing of how it is shown.
"""

import urllib.request
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from typing import TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from elasticd.base.errors import ConfigError, UnavailableError
from elasticd.base.shapes import RECORDS
from elasticd.base.text import one_line
from elasticd.config import HttpSettings
from elasticd.model.moves import Underway
from elasticd.model.reports import NodeView, PodStatus, PoolReport, StatusReport
from elasticd.model.workload import Series
from elasticd.sources.poller import SourceReport
from elasticd.sources.settled import StuckError, guarded

T = TypeVar("T")

PATIENCE, SOON = 10.0, 1.0
"""Seconds to wait for an answer that is asked for, and for one that is only good to have."""

UNREADY = 503
_MOST = 2000
# Without the proxies of the environment: the daemon is near.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # where a daemon listens on all


class PolicySeries(Struct, frozen=True):
    """A series as a policy's strategies would see it."""

    policy: str
    series: Series


class QueryReply(Struct, frozen=True):
    """What each policy sees of a series; if none governs the workload, which workloads are governed (`workloads`)."""

    workloads: tuple[str, ...]
    found: tuple[PolicySeries, ...]


class InFlight(Struct, frozen=True):
    """The moves in flight, which records of evicted pods do not count, why others may be missing here, and which kinds
    of objects are not current."""

    in_flight: list[Underway]
    left_alone: str = ""
    unread: str = ""
    stale: tuple[str, ...] = ()


def unready(http: HttpSettings) -> str:
    """Why the daemon cannot do its work just now; empty where it can, or where none answers soon."""
    if not http.port:
        return ""
    try:
        with _OPENER.open(f"{_address(http)}/readyz", timeout=SOON):
            return ""
    except HTTPError as error:
        return one_line(error.read(_MOST).decode(errors="replace")) if error.code == UNREADY else ""
    except (OSError, ValueError, HTTPException):
        return ""


def _address(http: HttpSettings) -> str:
    host = _ANY.get(http.host, http.host)
    return f"http://[{host}]:{http.port}" if ":" in host else f"http://{host}:{http.port}"


def _authorization(http: HttpSettings) -> dict[str, str]:
    """What tells the daemon that it is asked by somebody who can read its token. Raises UnavailableError where that
    cannot be read."""
    if not http.token_file:
        return {}
    try:
        return {"Authorization": f"Bearer {guarded(http.token, '', '')}"}
    except StuckError:
        raise UnavailableError("http.token_file: must be readable, is not: its mount does not answer") from None
    except ConfigError as error:
        raise UnavailableError(f"http.token_file: {error}") from None


def _get(path: str, kind: type[T], http: HttpSettings, **params: str) -> T:
    if not http.port:
        raise UnavailableError("http.port: must be given to ask a running elasticd, is 0, of which only its log knows")
    address = _address(http)
    try:
        headers = {"Accept": RECORDS, **_authorization(http)}
        request = urllib.request.Request(f"{address}{path}?{urlencode(params)}", headers=headers)  # noqa: S310
        with _OPENER.open(request, timeout=PATIENCE) as answer:
            return msgspec.json.decode(answer.read(), type=kind)
    except HTTPError as error:
        refused = error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        why = one_line(error.read(_MOST).decode(errors="replace")) if refused else error.reason
        must = "must let this command read it, does not" if refused else "must be a running elasticd, is not"
        raise UnavailableError(f"{address}: {must}: {why}") from None
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        cause = getattr(reason, "strerror", None) or reason
        raise UnavailableError(f"{address}: must be a running elasticd, is not: {cause}") from None


status = partial(_get, "/status", StatusReport)
sources = partial(_get, "/sources", list[SourceReport])
query = partial(_get, "/query", QueryReply)
"""What policies would see of a `series` now, for a `workload`."""
pools = partial(_get, "/nodes", list[PoolReport])
node = partial(_get, "/nodes", list[NodeView])
"""A `node`, in each of the daemon's pools that has it."""
moves = partial(_get, "/moves", InFlight)
pod = partial(_get, "/pod", PodStatus)
"""What is known of a `pod`, NAMESPACE/NAME; empty: only which pools there are."""
