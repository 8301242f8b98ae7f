"""A closed queue: so many clients, each with one request at a time, before servers that share one queue.

Knows only the queue in balance, solved exactly.
"""

from math import inf
from typing import NamedTuple

import numpy as np


class Balance(NamedTuple):
    """Requests `served` and `refused` a second, and those `inside`, in service or waiting, all on average."""

    served: float
    refused: float
    inside: float


def closed_queue(
    clients: int, think: float, servers: int, rate: float, *, send: float = inf, room: float = inf
) -> Balance:
    """M/M/c//N, the machine repairman, by its birth-death chain. An answer is followed by `think` seconds on average
    until the same client's next request; a server answers `rate` requests a second; all clients together send at most
    `send` a second. With `room` requests inside, more are refused at once, and a refused client thinks again.

    Source: Kleinrock, Queueing Systems I, 1975, section 3.8."""
    most = int(min(clients, room))
    inside = np.arange(most + 1)
    births = np.minimum((clients - inside) / think, send)
    deaths = np.minimum(inside, servers) * rate
    logs = np.concatenate(([0.0], np.cumsum(np.log(births[:-1]) - np.log(deaths[1:]))))
    weights = np.exp(logs - logs.max())
    shares = weights / weights.sum()
    refused = float(shares[-1] * births[-1])
    return Balance(float(shares @ deaths), refused, float(shares @ inside))
