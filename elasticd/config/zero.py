"""Which policies may put a workload to 0: those that look at something which can bring it back.

Knows what strategies say of themselves; knows nothing of files but their names.
"""

from elasticd.base.errors import ConfigError
from elasticd.base.text import raised
from elasticd.model.policy import Policy, Strategy
from elasticd.registry import implemented


def check_wakes(policy: Policy, file: str) -> None:
    """Refuse a least count of 0 from which nothing could wake the workload, as the API server refuses it of an HPA
    without an Object or External metric."""
    if policy.replicas.min > 0 or policy.job:
        return
    wishing = [one for one in policy.strategies if "recommend_replicas" in implemented(type(one))]
    found = [(one.__struct_config__.tag, _sleeps(one, file)) for one in wishing]
    if found and all(why for _, why in found):
        told = "; ".join(dict.fromkeys(f"{name} {why}" for name, why in found))
        raise ConfigError(file, "replicas.min", f"must be >= 1, as nothing could wake it from 0: {told}; is 0")


def _sleeps(one: Strategy, file: str) -> str:
    try:
        return one.sleeps()
    except Exception as error:
        name = one.__struct_config__.tag
        problem = f"must have strategies that can say whether they sleep; {name} raised {raised(error)}"
        raise ConfigError(file, "replicas.min", problem) from None
