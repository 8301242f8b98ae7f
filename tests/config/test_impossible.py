"""What a policy says that can never work, or means something else, is refused in one line."""

from pathlib import Path

import pytest

from elasticd.base.errors import ConfigError
from elasticd.config import load_policy
from elasticd.registry import discover

REGISTRY = discover()
WEB = '[workload]\nnamespace = "shop"\nname = "web"\n'
FIVE = "[replicas]\nmin = 2\nmax = 5\n"
HPA = '[[strategy]]\ntype = "hpa"\n'
KINDS = "Deployment, ReplicaSet, StatefulSet"
JOB = '[job]\nnamespace = "media"\nname = "film"\n[job.template]\napiVersion = "batch/v1"\nkind = "Job"\n'
JOB += '[job.template.spec.template.spec]\nrestartPolicy = "Never"\n'
JOB += 'containers = [{ name = "a", image = "b" }]\n'
QUEUE = '[[strategy]]\ntype = "jobs"\nqueue = [{ series = "films" }]\n'


def told(tmp_path: Path, text: str) -> list[str]:
    """The lines by which a policy is refused."""
    path = tmp_path / "p.toml"
    path.write_text(text)
    try:
        load_policy(path, REGISTRY)
    except ConfigError as error:
        return [str(one).removeprefix(f"{path}: ") for one in error.each]
    return []


def windows(*entries: str) -> str:
    """A schedule of these windows."""
    return '[[strategy]]\ntype = "schedule"\n' + "".join(f"[[strategy.windows]]\n{entry}\n" for entry in entries)


NIGHT = 'start = "0 22 * * *"\nend = "0 6 * * *"\n'
DAY = 'start = "0 6 * * *"\nend = "0 22 * * *"\n'


def named(namespace: str, name: str, more: str = "") -> str:
    """A workload by name."""
    return f'[workload]\nnamespace = "{namespace}"\nname = "{name}"\n{more}' + FIVE + HPA


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(named("shop", "web"), [], id="a Deployment"),
        pytest.param(named("shop", "web.v2"), [], id="a name with a dot"),
        pytest.param(named("shop", "web", 'kind = "StatefulSet"\n'), [], id="a StatefulSet"),
        pytest.param(
            named("shop", "web", 'kind = "ReplicationController"\napi_version = "v1"\n'), [], id="of the core group"
        ),
        pytest.param(
            named("shop", "web", 'kind = "Rollout"\napi_version = "argoproj.io/v1alpha1"\n'), [], id="a custom resource"
        ),
        pytest.param(
            named("shop", "web", 'kind = "deployment"\n'),
            [f'workload.kind: must be one that can be scaled ({KINDS}), is "deployment", did you mean "Deployment"?'],
            id="a kind in lower case",
        ),
        pytest.param(
            named("shop", "web", 'kind = "STS"\n'),
            [f'workload.kind: must be one that can be scaled ({KINDS}), is "STS", did you mean "StatefulSet"?'],
            id="kubectl's short name",
        ),
        pytest.param(
            named("shop", "web", 'kind = "Deplyoment"\n'),
            [f'workload.kind: must be one that can be scaled ({KINDS}), is "Deplyoment", did you mean "Deployment"?'],
            id="a misspelt kind",
        ),
        pytest.param(
            named("shop", "web", 'kind = "DaemonSet"\n'),
            [
                (
                    f'workload.kind: must be one that can be scaled ({KINDS}), is "DaemonSet", '
                    "of which there is one pod on each node"
                )
            ],
            id="a DaemonSet",
        ),
        pytest.param(
            named("shop", "web", 'kind = ""\n'),
            [f'workload.kind: must be one that can be scaled ({KINDS}), is ""'],
            id="no kind",
        ),
        pytest.param(
            named("shop", "web", 'api_version = "app/v1"\n'),
            [
                (
                    'workload.api_version: must be apps/v1, v1, or DOMAIN/VERSION of a custom resource, is "app/v1", '
                    'did you mean "apps/v1"?'
                )
            ],
            id="a misspelt group",
        ),
        pytest.param(
            named("shop", "web", 'api_version = "apps/V1"\n'),
            [
                (
                    'workload.api_version: must be apps/v1, v1, or DOMAIN/VERSION of a custom resource, is "apps/V1", '
                    'did you mean "apps/v1"?'
                )
            ],
            id="a version in upper case",
        ),
        pytest.param(
            named("shop", "web", 'api_version = "v1"\n'),
            ['workload.api_version: must be apps/v1 for Deployment, is "v1"'],
            id="the version of another kind",
        ),
        pytest.param(
            named("shop", "web", 'kind = " "\napi_version = "argoproj.io/v1"\n'),
            ['workload.kind: must be the name of a kind, is " "'],
            id="a custom resource of no kind",
        ),
        pytest.param(
            named("", ""),
            [
                'workload.namespace: must be the name of a namespace, is ""',
                'workload.name: must be the name of an object, is ""',
            ],
            id="empty names",
        ),
        pytest.param(
            named("Shop", "we\\nb"),
            [
                'workload.namespace: must be the name of a namespace, is "Shop"',
                'workload.name: must be the name of an object, is "we\\nb"',
            ],
            id="names in upper case and of two lines",
        ),
        pytest.param(
            named("shop", "we\\u0007b"), ["workload.name: must have no control characters, has \\x07"], id="a bell"
        ),
        pytest.param(
            '[select]\nnamespaces = ["*", "a.b"]\nkind = "deploy"\n[select.labels]\ntier = "x/y"\n"" = "z"\n'
            + FIVE
            + HPA,
            [
                'select.namespaces[1]: must be the name of a namespace, is "a.b"',
                'select.labels.tier: must be what a label can be, is "x/y"',
                'select.labels: must have names that labels can have, has ""',
                f'select.kind: must be one that can be scaled ({KINDS}), is "deploy", did you mean "Deployment"?',
            ],
            id="a selection",
        ),
        pytest.param(
            '[pool]\nnamespaces = ["a-b", "A_B!", ""]\nlabels = { app = "x y" }\nnodes = { "a b!" = "x" }\n'
            '[[strategy]]\ntype = "filters"\n',
            [
                'pool.namespaces[1]: must be the name of a namespace, is "A_B!"',
                'pool.namespaces[2]: must be the name of a namespace, is ""',
                'pool.labels.app: must be what a label can be, is "x y"',
                'pool.nodes: must have names that labels can have, has "a b!"',
            ],
            id="a pool",
        ),
    ],
)
def test_nobody_can_be_called_so(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(WEB + FIVE + HPA + '[[strategy]]\ntype = "cadence"\n', [], id="cadence beside hpa"),
        pytest.param(
            WEB + FIVE + '[[strategy]]\ntype = "cadence"\n',
            ["strategy: must have one that says how many replicas are wanted, such as hpa, has only cadence"],
            id="cadence alone",
        ),
        pytest.param(
            WEB + FIVE + '[[strategy]]\ntype = "cadence"\n[[strategy]]\ntype = "victims"\n',
            ["strategy: must have one that says how many replicas are wanted, such as hpa, has only cadence, victims"],
            id="a pace, and who goes first",
        ),
        pytest.param(WEB + FIVE + '[[strategy]]\ntype = "vertical"\n', [], id="requests alone"),
        pytest.param(
            WEB + FIVE + QUEUE,
            ["strategy[0].type: must be for a policy with [job], is for one with [workload]"],
            id="jobs for a workload",
        ),
        pytest.param(
            '[select]\nnamespaces = ["*"]\n' + FIVE + QUEUE,
            ["strategy[0].type: must be for a policy with [job], is for one with [select]"],
            id="jobs for many workloads",
        ),
        pytest.param(JOB + "[replicas]\nmax = 5\n" + QUEUE, [], id="jobs for a job set"),
    ],
)
def test_nobody_says_how_many(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(WEB + FIVE + '[trust]\nunknown = "floor"\nreplicas = 5\n' + HPA, [], id="a fallback at the max"),
        pytest.param(
            WEB + FIVE + '[trust]\nunknown = "floor"\nreplicas = 9\n' + HPA,
            ['trust.replicas: must be from replicas.min = 2 to max = 5 for unknown = "floor", is 9'],
            id="a fallback above",
        ),
        pytest.param(
            WEB + FIVE + '[trust]\nunknown = "fallback"\nreplicas = 1\n' + HPA,
            ['trust.replicas: must be from replicas.min = 2 to max = 5 for unknown = "fallback", is 1'],
            id="a fallback below",
        ),
        pytest.param(WEB + FIVE + windows(f"{DAY}replicas = 5", f"{NIGHT}replicas = 1"), [], id="a low floor is idle"),
        pytest.param(
            WEB + FIVE + windows(f"{DAY}replicas = 9", f'{NIGHT}replicas = 1\nas = "ceiling"'),
            [
                "strategy[0].windows[0].replicas: must be <= replicas.max = 5, is 9",
                "strategy[0].windows[1].replicas: must be >= replicas.min = 2, is 1",
            ],
            id="a floor above all, and a ceiling below",
        ),
        pytest.param(
            WEB + FIVE + '[[strategy]]\ntype = "schedule"\ndefault = 1\n'
            '[[strategy.instants]]\nat = "0 0 1 10 *"\nas = "exact"\nreplicas = 0\n',
            [
                "strategy[0].instants[0].replicas: must be >= replicas.min = 2, is 0",
                "strategy[0].default: must be from replicas.min = 2 to max = 5, is 1",
            ],
            id="an instant and a default",
        ),
        pytest.param(
            WEB + FIVE + windows(f"{DAY}replicas = 4", f'{DAY}replicas = 3\nas = "ceiling"'),
            ["strategy[0].windows[0].replicas: must be <= 3, the ceiling of windows[1] for the same hours, is 4"],
            id="a floor above the ceiling of its hours",
        ),
        pytest.param(
            WEB + FIVE + windows(f"{DAY}replicas = 4", f'{NIGHT}replicas = 3\nas = "ceiling"'), [], id="other hours"
        ),
        pytest.param(
            WEB
            + FIVE
            + HPA
            + '[[limit]]\ntype = "scheduled-bounds"\nwindows = [{ start = "0 1 * * *", duration = 60, min = 9 },'
            ' { start = "0 2 * * *", duration = 60, max = 1 }]\n',
            [
                "limit[0].windows[0].min: must be <= replicas.max = 5, is 9",
                "limit[0].windows[1].max: must be >= replicas.min = 2, is 1",
            ],
            id="bounds for a time outside the bounds",
        ),
        pytest.param(
            WEB
            + FIVE
            + HPA
            + '[[limit]]\ntype = "scheduled-bounds"\nwindows = [{ start = "0 1 * * *", duration = 60, min = 4 },'
            ' { start = "0 1 * * *", duration = 60, max = 3 }]\n',
            ["limit[0].windows[0].min: must be <= 3, the max of windows[1] for the same hours, is 4"],
            id="bounds for a time that cross",
        ),
        pytest.param(
            WEB + FIVE + '[[strategy]]\ntype = "event"\nleast = 9\ntriggers = [{ series = "q", value = 1 }]\n',
            ["strategy[0].least: must be <= replicas.max = 5, is 9"],
            id="more for an event than the max",
        ),
        pytest.param(
            WEB + FIVE + '[[strategy]]\ntype = "burst"\nactivation_scale = 9\n',
            ["strategy[0].activation_scale: must be <= replicas.max = 5, is 9"],
            id="more at the first request than the max",
        ),
    ],
)
def test_counts_that_no_bound_allows(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines


def test_what_can_never_work_is_reported_beside_all_other_mistakes(tmp_path: Path) -> None:
    text = 'mode = "atc"\n' + named("Shop", "", 'kind = "deployment"\n').replace(
        HPA, '[[strategy]]\ntype = "cadence"\n'
    )
    keys = [line.partition(":")[0] for line in told(tmp_path, text + '[trust]\nunknown = "floor"\nreplicas = 9\n')]
    assert keys == ["mode", "workload.namespace", "workload.name", "workload.kind", "strategy", "trust.replicas"]


def test_what_cannot_be_decoded_is_not_judged_too(tmp_path: Path) -> None:
    text = named("Shop", "web").replace("max = 5", "max = 0") + '[trust]\nunknown = "floor"\nreplicas = 9\n'
    keys = [line.partition(":")[0] for line in told(tmp_path, text)]
    assert keys == ["replicas.max", "workload.namespace"]
