"""The command `check`: finds mistakes in settings and policies, a line each, and options without effect.

Knows where settings and policies are looked for; knows nothing of what is running.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from elasticd.base.errors import ConfigError
from elasticd.base.secrets import CredentialError
from elasticd.cluster.kubernetes import Kubernetes
from elasticd.config.advice import advise, advise_alone, advise_pools, examine
from elasticd.config.reading import read_policies
from elasticd.config.settings import Settings, load_settings
from elasticd.model.policy import Policy, PoolPolicy
from elasticd.registry import discover

SETTINGS = "elasticd.toml"


class Checked(Struct, frozen=True):
    """The mistakes and the advice about settings and policies, and what was decoded of them."""

    wrong: list[ConfigError]
    advice: list[str]
    policies: list[Policy | PoolPolicy]
    settings: Settings | None

    @property
    def fine(self) -> str:
        """One line that says how many policies are fine."""
        count = len(self.policies)
        return "1 policy is fine" if count == 1 else f"{count} policies are fine"

    def record(self) -> dict[str, object]:
        """The result as JSON holds it."""
        errors = [{"file": error.file, "key": error.key, "problem": error.problem} for error in self.wrong]
        return {"policies": len(self.policies), "errors": errors, "advice": self.advice}


def checked(at: Path | None, config: Path | None, default: Path) -> Checked:
    """Check the same files, and return the result as a record."""
    registry, (file, where) = discover(), _places(at, config, default)
    errors, unfit, settings = list[ConfigError](), list[ConfigError](), None
    if file is not None:
        try:
            settings = load_settings(file, registry)
            unfit = examine(settings, str(file))
        except ConfigError as error:
            errors += error.each
    errors += [error for error in unfit if not isinstance(error, CredentialError)]
    if where is None:
        where = settings.policies if settings else (file or default).parent / "policies"
    if where.is_file() or (where.suffix == ".toml" and not where.is_dir()):
        policies, mistakes = read_policies(where.parent, registry, settings, [where])
    else:
        policies, mistakes = read_policies(where, registry, settings)
    wrong = [*[ConfigError("", "", problem) for problem in registry.problems], *errors, *mistakes]
    if not policies and not errors and not mistakes:
        wrong.append(ConfigError(str(where), "", "must hold policies (NAME.toml), has none"))
    advice = [] if wrong else [*map(str, unfit), *_advice(policies, settings)]
    return Checked(wrong, advice, policies, settings)


def _places(at: Path | None, config: Path | None, default: Path) -> tuple[Path | None, Path | None]:
    """The file of settings, if there is any, and where policies are: a folder or a file; None: where settings say."""
    if at is None or (at.name == SETTINGS and config is None):
        return at or config or default, None
    if config is None and os.access(at / SETTINGS, os.F_OK):
        return at / SETTINGS, None
    return config, at


def _advice(policies: Sequence[Policy | PoolPolicy], settings: Settings | None) -> Iterator[str]:
    pools = [policy for policy in policies if isinstance(policy, PoolPolicy)]
    yield from advise_alone(pools)
    if settings is None:
        return
    yield from settings.renamed
    simulated = not isinstance(settings.cluster, Kubernetes)
    yield from advise_pools(pools, settings.sources, simulated=simulated)
    if not simulated:
        yield from advise([policy for policy in policies if isinstance(policy, Policy)], settings.sources)
