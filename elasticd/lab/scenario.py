"""What `elasticd simulate` plays: a simulated cluster, its sources, and the policies that are tried on it.

Knows elasticd.toml and the folders beside it; knows nothing of what happens in a run.
"""

import asyncio
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import product
from math import inf
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from elasticd.base.decode import convert
from elasticd.base.errors import ConfigError, Mistakes, UnavailableError
from elasticd.cluster.simulated import Part, Simulated
from elasticd.config import ScenarioSettings, Settings, load_settings, read_policies
from elasticd.lab.fleet import Pending, Submit, fleet, note
from elasticd.lab.kept import KeptRuns, run_key
from elasticd.lab.runs import Run, joined
from elasticd.lab.simulate import run
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.ports.source import Source
from elasticd.registry import Registry
from elasticd.sources.mqtt import Mqtt
from elasticd.sources.prometheus import Prometheus

LOOK = 0.25
"""Seconds between looks at how far runs in other processes are."""

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable with which Python leaves the current folder out of where it imports from."""

NOTED = 1.0
"""Seconds between two notes of a worker of a fleet on how far it is."""

SERVED = (Mqtt, Prometheus)
"""Sources whose samples come from a server, in real time."""


class Candidate(NamedTuple):
    """Policies that are tried together, and what they are called in the output."""

    name: str
    policies: tuple[Policy | PoolPolicy, ...]


class Scenario(Struct, frozen=True):
    """A cluster, how long it is played, and the candidates that are tried on it, each by itself. `notes` says what of
    the file has no part in it."""

    cluster: Simulated
    table: ScenarioSettings
    sources: tuple[Source, ...]
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()


def load_scenario(path: Path, registry: Registry, places: Sequence[Path] = ()) -> Scenario:
    """The scenario of an elasticd.toml with a simulated cluster. `places`: folders and files of policies to try instead
    of those that it names. Raises ConfigError for all that is wrong, a line each."""
    settings = load_settings(path, registry)
    if not isinstance(settings.cluster, Simulated):
        raise ConfigError(str(path), "cluster.type", 'must be "simulated" for a scenario, is "kubernetes"')
    named = [path.absolute().parent / name for name in settings.scenario.policies]
    sources = tuple(source for source in settings.sources if not isinstance(source, SERVED))
    tried = tuple(candidates(list(places) or named or [settings.policies], registry, settings))
    notes = tuple(
        f"source {source.label} is left out: its samples are of real time"
        for source in settings.sources
        if isinstance(source, SERVED)
    )
    return Scenario(settings.cluster, settings.scenario, sources, tried, notes)


def decides_counts(scenario: Scenario) -> bool:
    """Whether some policy is about a workload, and not only about Jobs and pools."""
    policies = [policy for candidate in scenario.candidates for policy in candidate.policies]
    return any(isinstance(policy, Policy) and policy.job is None for policy in policies)


def moves_pods(scenario: Scenario) -> bool:
    """Whether some policy is about a pool."""
    policies = [policy for candidate in scenario.candidates for policy in candidate.policies]
    return any(isinstance(policy, PoolPolicy) for policy in policies)


def candidates(places: Sequence[Path], registry: Registry, settings: Settings) -> Iterator[Candidate]:
    """The policies of each folder or file. Raises ConfigError at the end for all that is wrong with them."""
    names = Counter(_name(place) for place in places)
    mistakes = Mistakes()
    for place in places:
        folder, files = (place, None) if place.is_dir() else (place.parent, [place])
        policies, errors = read_policies(folder, registry, settings, files)
        mistakes.add(errors)
        if not policies and not errors:
            mistakes.add([ConfigError(str(place), "", "must have a policy, has none")])
        yield Candidate(_name(place) if names[_name(place)] == 1 else str(place), tuple(policies))
    mistakes.raised()


def _name(place: Path) -> str:
    return place.name if place.is_dir() else place.stem


def changed(scenario: Scenario, options: Mapping[str, Any]) -> Scenario:
    """The scenario with other options of the table [scenario], from the command line. Raises ConfigError."""
    table = {**msgspec.to_builtins(scenario.table, builtin_types=(datetime,)), **options}
    try:
        return replace(scenario, table=convert(table, ScenarioSettings, ""))
    except ConfigError as error:
        mistake = error.each[0]
        raise ConfigError("", f"--{mistake.key}", mistake.problem) from None


class _Task(NamedTuple):
    """What is played by itself: a candidate with a seed, on a part of the cluster. `key`: under which it is kept."""

    candidate: Candidate
    seed: int
    part: Part
    key: str = ""

    @property
    def place(self) -> "_Place":
        return self.candidate.name, self.seed, self.part


_Place = tuple[str, int, Part]


def play_all(
    scenario: Scenario,
    progress: Callable[[str, float], None],
    jobs: int | None = 1,
    dask: str = "",
    study: Path | None = None,
) -> dict[str, list[Run]]:
    """Each candidate with each seed, so many at a time, each in a process of its own; or as many as the workers of the
    Dask scheduler at this address can take. `jobs`: None: as many as are done soonest. `progress` hears how many more
    seconds of which candidate have passed. `study`: a folder for finished runs; what is there already is not played
    again. Raises ConfigError for more parts than nodes."""
    nodes = sum(table.count for table in scenario.cluster.nodes)
    if scenario.table.parts > nodes:
        raise ConfigError("", "parts", f"must be <= the {nodes} nodes, is {scenario.table.parts}")
    seeds = range(scenario.cluster.seed, scenario.cluster.seed + scenario.table.seeds)
    parts = [Part(number, scenario.table.parts) for number in range(scenario.table.parts)]
    tasks = [_Task(*task) for task in product(scenario.candidates, seeds, parts)]
    kept = KeptRuns(study)
    if study:
        tasks = [task._replace(key=_key(scenario, task)) for task in tasks]
    runs = {task.place: run for task in tasks if (run := kept.load(task.key)) is not None}
    for name, *_ in runs:
        progress(name, _seconds(scenario))
    runs |= _play_missing(scenario, [task for task in tasks if task.place not in runs], progress, jobs, dask, kept)
    by_name: dict[str, list[Run]] = {}
    for candidate, seed in product(scenario.candidates, seeds):
        whole = joined([runs[candidate.name, seed, part] for part in parts])
        by_name.setdefault(candidate.name, []).append(whole)
    return by_name


def _key(scenario: Scenario, task: _Task) -> str:
    table = replace(scenario.table, policies=(), seeds=1)
    cluster = replace(scenario.cluster, seed=task.seed)
    about = {"cluster": cluster, "table": table, "sources": scenario.sources, "part": task.part}
    policies = task.candidate.policies
    plugins = [plugin for policy in policies for plugin in (*policy.strategies, *getattr(policy, "limits", ()))]
    return run_key({**about, "policies": policies}, plugins)


def _seconds(scenario: Scenario) -> float:
    """Of progress that a task is worth: parts of one run share its time."""
    return scenario.table.hours * 3600 / scenario.table.parts


def soonest_done(runs: int, cores: int) -> int:
    """How many of so many equal runs to play at a time on so many cores, the fewest by which all are done soonest: one
    for each core; or up to half as many again, which share the cores, so that none is idle at the end."""

    def lasts(at_a_time: int) -> float:
        rounds, left = divmod(runs, at_a_time)
        return rounds * at_a_time / cores + (max(1.0, left / cores) if left else 0.0)

    return min(range(cores, cores * 3 // 2 + 1), key=lasts)


def _play_missing(
    scenario: Scenario,
    tasks: Sequence[_Task],
    progress: Callable[[str, float], None],
    jobs: int | None,
    dask: str,
    kept: KeptRuns,
) -> dict[_Place, Run]:
    """Play what is not there yet, and keep it."""
    at_a_time = min(len(tasks), soonest_done(len(tasks), os.cpu_count() or 1) if jobs is None else jobs)
    if at_a_time > 1 or (dask and tasks):
        if dask:
            with fleet(dask, len(tasks)) as (submit, topic, noted):
                return _play_at_once(scenario, tasks, progress, partial(submit, _play_far, topic), kept, noted)
        with _processes(at_a_time, len(tasks)) as (begin, noted):
            return _play_at_once(scenario, tasks, progress, partial(begin, _play_noting), kept, noted)
    runs, parts = {}, scenario.table.parts

    def passed(name: str, seconds: float) -> None:
        progress(name, seconds / parts)

    for task in tasks:
        runs[task.place] = _play(scenario, task, partial(passed, task.candidate.name))
        kept.save(task.key, runs[task.place])
    return runs


def _play(scenario: Scenario, task: _Task, progress: Callable[[float], None] = lambda _: None) -> Run:
    cluster, policies, played = replace(scenario.cluster, seed=task.seed), task.candidate.policies, list[Run]()

    async def play() -> None:
        # Returned, asyncio.run would write it out as a text, twice, for the message of an error that it catches.
        table, sources = scenario.table, scenario.sources
        played.append(await run(cluster, policies, table, sources=sources, progress=progress, part=task.part))

    with _calm_collector():
        asyncio.run(play())
    return played[0]


@contextmanager
def _calm_collector() -> Iterator[None]:
    """Collect cyclic garbage a hundred times less often than Python does, as the daemon does, and look at nothing that
    was there before."""
    thresholds = gc.get_threshold()
    gc.set_threshold(70_000, 10, 100)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def _play_at_once(
    scenario: Scenario,
    tasks: Sequence[_Task],
    progress: Callable[[str, float], None],
    submit: Submit,
    kept: KeptRuns,
    passed: Sequence[float],
) -> dict[_Place, Run]:
    """`passed`: how many seconds of each task have passed, as whoever plays it notes."""
    shared = replace(scenario, candidates=())
    with _undisturbed():
        futures = [submit(shared, task, index) for index, task in enumerate(tasks)]
    for task, future in zip(tasks, futures, strict=True):
        future.add_done_callback(partial(_keep, kept, task.key))
    told = [0.0] * len(tasks)

    def tell(index: int, seconds: float) -> None:
        if seconds > told[index]:
            progress(tasks[index].candidate.name, seconds - told[index])
            told[index] = seconds

    runs = {}
    for index, (task, future) in enumerate(zip(tasks, futures, strict=True)):
        while not _is_done(future):
            for each, seconds in enumerate(passed):
                tell(each, seconds / scenario.table.parts)
        runs[task.place] = future.result()
        tell(index, _seconds(scenario))
    return runs


@contextmanager
def _undisturbed() -> Iterator[None]:
    """While processes start, SIGINT is ignored, which they inherit, and SIGTERM counts afterwards: otherwise one that
    has not been told yet what to play would say so at length."""
    pending: list[int] = []
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminated = signal.signal(signal.SIGTERM, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGTERM, terminated)
    for number in pending:
        signal.raise_signal(number)


def _is_done(future: Pending) -> bool:
    """Wait a little for a task to end; whether it has."""
    try:
        future.result(timeout=LOOK)
    except TimeoutError:
        return future.done()
    except Exception:
        return True  # who takes the result hears of it
    return True


def _keep(kept: KeptRuns, key: str, future: Pending) -> None:
    """Keep a run as soon as it is there, which others before it may not be yet. One that failed is reported by whoever
    waits for it; one that could not be written is played again."""
    with suppress(Exception):
        kept.save(key, future.result())


_shared: list[Any] = []
"""In a process that plays: the array in which it notes how many seconds of each task have passed."""


def _begin_to_play(passed: Any) -> None:
    """Prepare a process of a pool, which then ends with the one that it plays for even where that is killed: nobody
    tells it then, and it would play on, or wait for tasks for ever."""
    _shared[:] = [passed]
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)  # of a thread: SystemExit would end that alone


def _play_noting(scenario: Scenario, task: _Task, index: int) -> Run:
    """Play a task in a process of a pool, and note how far it is."""
    seconds = 0.0

    def passed(more: float) -> None:
        nonlocal seconds
        seconds += more
        _shared[0][index] = seconds

    return _play(scenario, task, passed)


def _play_far(topic: str, scenario: Scenario, task: _Task, index: int) -> Run:
    """Play a task on a worker of a fleet, and note how far it is, about each second."""
    seconds, noted = 0.0, -inf

    def passed(more: float) -> None:
        nonlocal seconds, noted
        seconds += more
        if (now := monotonic()) >= noted + NOTED:
            noted = now
            note(topic, index, seconds)

    return _play(scenario, task, passed)


@contextmanager
def _processes(count: int, tasks: int) -> Iterator[tuple[Submit, Sequence[float]]]:
    """Where so many processes do the tasks, and how many seconds of each have passed. They end with this one, however
    it is told to."""
    terminated = signal.signal(signal.SIGTERM, _exit)
    try:
        with _safe_path():
            yield from _pool(count, tasks)
    finally:
        signal.signal(signal.SIGTERM, terminated)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes import nothing from the current folder, where files of others may lie beside a recording of theirs."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH)
        if before is not None:
            os.environ[SAFE_PATH] = before


def _exit(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _pool(count: int, tasks: int) -> Iterator[tuple[Submit, Sequence[float]]]:
    context = get_context("forkserver")
    # A server imports once what is imported here, and each process is a fork of it: imports take half a second of CPU.
    imported = [name for name in sys.modules if name.startswith(("elasticd.", "elasticd_plugins."))]
    context.set_forkserver_preload(imported)
    passed: Any = context.Array("d", tasks, lock=False)  # each is written by one process
    with ProcessPoolExecutor(count, context, _begin_to_play, (passed,)) as pool:
        try:
            yield pool.submit, passed
        except BrokenProcessPool:
            problem = "a process that played ended, perhaps for lack of memory: try fewer --jobs"
            raise UnavailableError(problem) from None
        except (KeyboardInterrupt, SystemExit):
            for process in active_children():
                process.terminate()
            raise
