"""Which workload or pod a person means: kubectl's short kinds, any case, a namespace apart; and why there is none.

Knows names, and policies as they are decoded; knows nothing of what is printed.
"""

from collections.abc import Callable, Collection, Sequence

from elasticd.base.errors import ConfigError, near
from elasticd.base.text import one_line
from elasticd.config import Settings
from elasticd.config.reading import read_policies
from elasticd.model.kinds import kind_of
from elasticd.model.policy import Policy
from elasticd.registry import discover
from elasticd.sources.poller import SourceReport

_PODS = ("pod", "pods", "po")
FORMS = "NAMESPACE/KIND/NAME, or KIND/NAME with -n NAMESPACE"


def workload_of(words: Sequence[str], namespace: str, workloads: Callable[[], Collection[str]]) -> str:
    """The workload, NAMESPACE/KIND/NAME, that these words name: shop/Deployment/web, deploy/web or `deploy web`. It is
    looked up in `workloads` if no namespace is given or the kind is not one of Kubernetes' own. Raises ConfigError
    where the words name none, or several."""
    parts = words[0].split("/") if len(words) == 1 else [*words] if len(words) == 2 else []
    if len(parts) not in (2, 3) or not all(map(_is_name, parts)):
        raise ConfigError("", "WORKLOAD", f'must be {FORMS}, is "{one_line(" ".join(words))}"')
    space, word, name = parts if len(parts) == 3 else [namespace, *parts]
    if namespace not in ("", space):
        problem = f'must be "{one_line(space)}" as in {one_line(words[0])}, is "{one_line(namespace)}"'
        raise ConfigError("", "-n", problem)
    kind = kind_of(word)
    if space and kind[:1].isupper():  # written like a kind, so no lookup is needed
        return f"{space}/{kind}/{name}"
    return _among(workloads(), space, kind, name)


def _among(workloads: Collection[str], space: str, kind: str, name: str) -> str:
    """The one workload of this kind, in any spelling, and name. Raises ConfigError for none or several."""
    matches = [workload for workload in sorted(workloads) if _is_it(workload.split("/"), space, kind, name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ConfigError("", "-n", f"must be given, for there are {', '.join(matches)}")
    if space:
        return f"{space}/{kind}/{name}"
    # Where the kind was left out.
    alike = [workload for workload in sorted(workloads) if _is_it(workload.split("/"), kind, "", name)]
    by_kind_and_name = {workload.partition("/")[2]: workload for workload in workloads}
    meant = f', did you mean "{alike[0]}"?' if alike else near(f"{kind}/{name}", by_kind_and_name)
    raise ConfigError("", "WORKLOAD", f'must be {FORMS}, is "{one_line(f"{kind}/{name}")}"{meant}')


def _is_it(parts: Sequence[str], space: str, kind: str, name: str) -> bool:
    if len(parts) != 3 or parts[2] != name or space not in ("", parts[0]):
        return False
    written = kind.lower().partition(".")[0]
    return written in ("", parts[1].lower(), f"{parts[1].lower()}s")


def pod_of(words: Sequence[str], namespace: str = "") -> str | None:
    """The pod, NAMESPACE/NAME, that these words are about: `pod shop/web`, or shop/Pod/web, as the daemon prints it, or
    pod/web of a `namespace`; None: they are about a workload. Raises ConfigError where they name none."""
    parts = words[-1].split("/")
    if namespace and len(words) == 1 and len(parts) == 2 and parts[0].lower() in _PODS:
        words, parts = ["pod", parts[1]], [parts[1]]
    if namespace and len(words) == 2 and len(parts) == 1 and words[0].lower() in _PODS:
        parts = [namespace, *parts]
    if len(parts) == 3 and parts[1].lower() in _PODS:
        parts = [parts[0], parts[2]]
    elif words[0].lower() not in _PODS:
        return None
    text = " ".join(words[1:] if words[0].lower() in _PODS else words)
    right = len(words) <= 2 and len(parts) == 2 and all(map(_is_name, parts))
    if not right:
        raise ConfigError("", "POD", f'must be NAMESPACE/NAME, is "{one_line(text)}"')
    return "/".join(parts)


def _is_name(part: str) -> bool:
    """Whether this can be a name: it is not empty, and is valid Unicode."""
    try:
        return bool(part.encode())
    except UnicodeEncodeError:
        return False


def why_nothing(workload: str, settings: Settings) -> str:
    """Why there is no decision about a workload, as far as the policies tell."""
    policies, errors = read_policies(settings.policies, discover(), settings)
    about = [policy for policy in policies if isinstance(policy, Policy)]
    naming = [policy.name for policy in about if policy.workload is not None and str(policy.workload.ref) == workload]
    if naming:
        return f"policy {naming[0]} is about it, and no daemon has decided yet: `elasticd status` says whether one runs"
    space, kind, _ = workload.split("/")
    selecting = [
        policy.name
        for policy in about
        if policy.select is not None and policy.select.kind == kind and {space, "*"} & {*policy.select.namespaces}
    ]
    if selecting:
        doubt = "may lack its labels, may not be there, or was not looked at yet"
        return f"policy {selecting[0]} selects such workloads by their labels, and it {doubt}"
    return "no policy is about it" + (", of those files that have no mistakes" if errors else "")


def no_samples(series: str, reports: Sequence[SourceReport]) -> str:
    """Say which sources have a series but no samples of the workload, or, if none has it, which series exist."""
    having = [report for report in reports if series in report.series]
    if having:
        return f"{', '.join(report.name for report in having)} has it, and no sample of this workload"
    series_names = {name for report in reports for name in report.series}
    listed = f"; there are {', '.join(sorted(series_names)[:12])}" if series_names else ""
    meant = near(series, series_names) or listed
    silent = (report.name for report in reports if report.health != "ok" and not report.quiet)
    failing = "".join(f"; {name} does not answer" for name in silent)
    return f"no source has samples of {one_line(series)}{meant}{failing}"
