"""Which workload a person means: kubectl's short kinds, any case, a namespace apart; and why there is nothing of it.

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
from elasticd.ui.telling import is_name

FORMS = "NAMESPACE/KIND/NAME, or KIND/NAME with -n NAMESPACE"


def workload_of(words: Sequence[str], namespace: str, known: Callable[[], Collection[str]]) -> str:
    """The workload, NAMESPACE/KIND/NAME, that these words name: shop/Deployment/web, deploy/web or `deploy web`. Of
    those that are `known`, where no namespace is given, and for a kind that is not Kubernetes' own. Raises ConfigError
    where they name none, or several."""
    parts = words[0].split("/") if len(words) == 1 else [*words] if len(words) == 2 else []
    if len(parts) not in (2, 3) or not all(map(is_name, parts)):
        raise ConfigError("", "WORKLOAD", f'must be {FORMS}, is "{one_line(" ".join(words))}"')
    space, word, name = parts if len(parts) == 3 else [namespace, *parts]
    if namespace not in ("", space):
        raise ConfigError(
            "", "-n", f'must be "{one_line(space)}" as in {one_line(words[0])}, is "{one_line(namespace)}"'
        )
    kind = kind_of(word)
    if space and kind[:1].isupper():  # as kinds are written, so that nobody need be asked
        return f"{space}/{kind}/{name}"
    return _among(known(), space, kind, name)


def _among(known: Collection[str], space: str, kind: str, name: str) -> str:
    """The one of these workloads that is of this kind, however it is written, and this name."""
    found = [one for one in sorted(known) if _is_it(one.split("/"), space, kind, name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError("", "-n", f"must be given, for there are {', '.join(found)}")
    if space:
        return f"{space}/{kind}/{name}"
    alike = [one for one in sorted(known) if _is_it(one.split("/"), kind, "", name)]  # the kind was left out
    named = {one.partition("/")[2]: one for one in known}
    meant = f', did you mean "{alike[0]}"?' if alike else near(f"{kind}/{name}", named)
    raise ConfigError("", "WORKLOAD", f'must be {FORMS}, is "{one_line(f"{kind}/{name}")}"{meant}')


def _is_it(parts: Sequence[str], space: str, kind: str, name: str) -> bool:
    if len(parts) != 3 or parts[2] != name or space not in ("", parts[0]):
        return False
    written = kind.lower().partition(".")[0]
    return written in ("", parts[1].lower(), f"{parts[1].lower()}s")


def why_nothing(workload: str, settings: Settings) -> str:
    """Why there is no decision about a workload, as far as the policies tell."""
    policies, errors = read_policies(settings.policies, discover(), settings)
    about = [one for one in policies if isinstance(one, Policy)]
    naming = [one.name for one in about if one.workload is not None and str(one.workload.ref) == workload]
    if naming:
        return f"policy {naming[0]} is about it, and no daemon has decided yet: `elasticd status` says whether one runs"
    space, kind, _ = workload.split("/")
    selecting = [
        one.name
        for one in about
        if one.select is not None and one.select.kind == kind and {space, "*"} & {*one.select.namespaces}
    ]
    if selecting:
        told = "may lack its labels, may not be there, or was not looked at yet"
        return f"policy {selecting[0]} selects such workloads by their labels, and it {told}"
    return "no policy is about it" + (", of those files that have no mistakes" if errors else "")


def no_samples(series: str, reports: Sequence[SourceReport]) -> str:
    """Which series there are where nobody has this one, or who has it and no sample of the workload."""
    having = [one for one in reports if series in one.series]
    if having:
        return f"{', '.join(one.name for one in having)} has it, and no sample of this workload"
    known = {name for one in reports for name in one.series}
    meant = near(series, known) or (f"; there are {', '.join(sorted(known)[:12])}" if known else "")
    failing = "".join(f"; {one.name} does not answer" for one in reports if one.health != "ok")
    return f"no source has samples of {one_line(series)}{meant}{failing}"
