"""What goes wrong in an episode, and when: drawn from a seed, and made shorter where it shows a violation.

Knows the kinds of faults; knows nothing of how they are brought about.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple, TypeVar, get_args

T = TypeVar("T")

Server = Literal["API server", "Prometheus", "MQTT"]
Request = Literal["late", "refused", "lost", "status", "expired", "truncated", "drip", "silent", "old answer"]
Watch = Literal["late", "cut", "gone", "silent", "drip", "twice", "reordered"]
Packet = Literal["late", "refused", "truncated", "drip", "silent", "twice"]

SECONDS = 30.0
"""How long faults are injected in an episode."""
DAEMONS = 2
"""How many daemons there are, of which one leads."""
MOST = 6
"""Most faults in an episode."""

WAYS = 4
"""Ways in which a load is not known: of the metrics API an error, no answer, an empty list, numbers that are none; of
Prometheus and the broker that they stand still, crash, are told nothing, or what is no number."""

FEATURES = ("preemption", "Jobs", "resizing", "Prometheus", "MQTT")
Unknown = Literal["no metrics", "no prometheus", "no broker"]
SOURCES: Mapping[Server, Unknown] = {"Prometheus": "no prometheus", "MQTT": "no broker"}
"""The blow that is about each of these alone."""

WRITES = ("POST", "PATCH", "PUT", "DELETE")
RESOURCES = ("pods", "eviction", "binding", "configmaps", "leases", "scale", "deployments", "*")
WATCHED = ("pods", "nodes", "deployments", "*")
CODES = (401, 403, 409, 429, 500, 503, 504)
QUERY_CODES = (422, 429, 503)
"""What a Prometheus answers where it will not or cannot."""
PACKETS: Mapping[Packet, Sequence[str]] = {
    "late": ("PUBLISH", "SUBACK"),
    "refused": ("CONNECT", "SUBSCRIBE", "PUBLISH"),
    "truncated": ("CONNACK", "SUBSCRIBE", "PUBLISH"),
    "drip": ("PUBLISH", "*"),
    "silent": ("CONNECT", "SUBACK", "PUBLISH", "*"),
    "twice": ("PUBLISH",),
}
"""The packets of MQTT to which each of these may happen."""


class Fault(NamedTuple):
    """A kind of fault for a share of the requests of one verb (or "watch", or "*") for one resource (or "*"), from
    `begins` on for `lasts` seconds, between one daemon and a server. For a broker the verb is a packet's name. Of all
    that it meets, so many are `skipped` first, and at `most` so many are spoilt; 0: all. `value` is the seconds of a
    delay or of Retry-After; `code` is the status of an answer."""

    daemon: int
    kind: str
    verb: str
    resource: str
    begins: float
    lasts: float
    share: float = 1.0
    value: float = 0.0
    code: int = 0
    server: Server = "API server"
    skipped: int = 0
    most: int = 0

    def __str__(self) -> str:
        what = {"status": f"status {self.code}, Retry-After {self.value:g}", "late": f"late by {self.value:.1f} s"}
        times = f"at {self.begins:.1f} s for {self.lasts:.1f} s, {self.share:.0%}"
        if self.most:
            times += f", {self.most} after {self.skipped}"
        about = f"{self.server}, {self.verb} {self.resource}".rstrip()
        return f"daemon {self.daemon}: {about}: {what.get(self.kind, self.kind)} {times}"

    @property
    def retry_after(self) -> dict[str, str]:
        """The header of an answer that asks for a pause."""
        return {"Retry-After": f"{self.value:.0f}"} if self.value and self.code in (429, 503) else {}

    def meets(self, verb: str, resource: str, at: float) -> bool:
        """Whether it is about such a request at this time."""
        there = self.begins <= at < self.begins + self.lasts
        return there and self.verb in ("*", verb) and self.resource in ("*", resource)


class Blow(NamedTuple):
    """Something that happens to a daemon, a node or the API server at a time, and is over after `lasts` seconds."""

    kind: Literal[
        "kill", "suspend", "unready", "restart", "sweep", "no start", "no metrics", "no prometheus", "no broker"
    ]
    begins: float
    lasts: float
    target: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.target} at {self.begins:.1f} s for {self.lasts:.1f} s"


Trouble = Fault | Blow


def features(seed: int) -> list[str]:
    """What daemons do in an episode beside what they always do; half of it, on average."""
    random = Random(f"features {seed}")
    return [name for name in FEATURES if random.random() < 0.5]


def drawn(seed: int, daemons: int = DAEMONS, nodes: int = 3, among: Sequence[str] | None = None) -> list[Trouble]:
    """The faults of an episode, by when they begin; `among`: the features that there are, if not those of the seed."""
    random = Random(seed)
    there = features(seed) if among is None else among
    sources: list[Unknown] = ["no metrics", *(name for feature, name in SOURCES.items() if feature in there)]
    troubles = [_trouble(random, daemons, nodes, sources) for _ in range(random.randint(2, MOST))]
    for server in (name for name in SOURCES if name in there):
        troubles += [_of_server(random, daemons, server) for _ in range(random.randint(0, 3))]
    return sorted(troubles, key=lambda one: one.begins)


def _trouble(random: Random, daemons: int, nodes: int, sources: Sequence[Unknown]) -> Trouble:
    begins, lasts = random.uniform(0, SECONDS * 0.7), random.uniform(1, SECONDS * 0.3)
    draw = random.random()
    if draw < 0.4:
        if random.random() < 0.15 * len(sources):
            source = random.choice(sources)
            return Blow(source, random.uniform(0, 5), random.uniform(20, 25), random.randrange(WAYS))
        kinds: Sequence[tuple[Literal["kill", "suspend", "unready", "restart", "sweep", "no start"], int]] = (
            ("kill", daemons),
            ("kill", daemons),
            ("suspend", daemons),
            ("unready", nodes),
            ("restart", 1),
            ("sweep", 1),
            ("no start", 1),
        )
        kind, targets = random.choice(kinds)
        return Blow(kind, begins, lasts, random.randrange(targets))
    daemon = random.randrange(daemons)
    if draw < 0.5:
        return Fault(daemon, "refused", "*", "*", begins, lasts)
    if draw < 0.65:
        watch = random.choice(get_args(Watch))
        value = random.uniform(0.1, 2)
        return Fault(daemon, watch, "watch", random.choice(WATCHED), begins, lasts, value=value)
    request = random.choice(get_args(Request))
    verb = "GET" if request in ("old answer", "expired") else random.choice((*WRITES, "GET", "*"))
    code = random.choice(CODES)
    value = random.choice((0.0, 1.0, 5.0)) if request == "status" else random.uniform(0.1, 3)
    share = random.choice((0.2, 0.5, 1.0))
    return Fault(daemon, request, verb, random.choice(RESOURCES), begins, lasts, share, value, code)


def _of_server(random: Random, daemons: int, server: Server) -> Fault:
    """A fault between a daemon and a Prometheus or a broker."""
    daemon, begins, lasts = (
        random.randrange(daemons),
        random.uniform(0, SECONDS * 0.7),
        random.uniform(1, SECONDS * 0.3),
    )
    skipped, most = random.randrange(4), random.choice((0, 1, 3))
    if server == "Prometheus":
        kind, code = random.choice(get_args(Request)), random.choice(QUERY_CODES)
        value = random.choice((0.0, 1.0, 5.0)) if kind == "status" else random.uniform(0.1, 3)
        return Fault(daemon, kind, "*", "*", begins, lasts, 1.0, value, code, server, skipped, most)
    packet = random.choice(get_args(Packet))
    # A message that is late delays those behind it: of more than three, nobody could know how old the last one is.
    most = most or 3 if packet == "late" else most
    verb = random.choice(PACKETS[packet])
    return Fault(daemon, packet, verb, "*", begins, lasts, 1.0, random.uniform(0.1, 2), 0, server, skipped, most)


async def shortest(troubles: Sequence[T], shows: Callable[[Sequence[T]], Awaitable[bool]]) -> list[T]:
    """Leave out, one after the other, what is not needed to show the same violation."""
    left = list(troubles)
    for trouble in troubles:
        without = [one for one in left if one is not trouble]
        if await shows(without):
            left = without
    return left
