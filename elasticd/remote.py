"""Asks a running daemon, at the address in its own elasticd.toml.

Knows HTTP and what the pages answer; knows nothing of how it is shown.
"""

import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from elasticd.config import Http
from elasticd.errors import UnavailableError
from elasticd.model import Series
from elasticd.moves import Underway
from elasticd.placements import NodeReport
from elasticd.shelf import SourceReport

T = TypeVar("T")

PATIENCE = 10.0
# Without the proxies of the environment: the daemon is near.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # where a daemon listens on all


class Found(Struct, frozen=True):
    """What each policy would see; where none is about the workload, those that some are about."""

    workloads: tuple[str, ...]
    found: tuple[tuple[str, Series], ...]


def sources(http: Http) -> list[SourceReport]:
    """How the daemon's sources fare. Raises UnavailableError when no daemon answers."""
    return _get(http, "/sources", {}, list[SourceReport])


def query(http: Http, series: str, workload: str) -> Found:
    """What the daemon's policies would see of a series now. Raises UnavailableError when no daemon answers."""
    return _get(http, "/query", {"series": series, "workload": workload}, Found)


def nodes(http: Http) -> list[NodeReport]:
    """The nodes of the daemon's pools. Raises UnavailableError when no daemon answers."""
    return _get(http, "/nodes", {}, list[NodeReport])


def moves(http: Http) -> list[Underway]:
    """The daemon's moves in flight. Raises UnavailableError when no daemon answers."""
    return _get(http, "/moves", {}, list[Underway])


def _get(http: Http, path: str, params: Mapping[str, str], kind: type[T]) -> T:
    if not http.port:
        raise UnavailableError("http.port: must be given to ask a running elasticd, is 0, of which only its log knows")
    host = _ANY.get(http.host, http.host)
    address = f"http://[{host}]:{http.port}" if ":" in host else f"http://{host}:{http.port}"
    try:
        with _OPENER.open(f"{address}{path}?{urlencode(params)}", timeout=PATIENCE) as answer:
            return msgspec.json.decode(answer.read(), type=kind)
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        told = getattr(reason, "strerror", None) or reason
        raise UnavailableError(f"{address}: must be a running elasticd, is not: {told}") from None
