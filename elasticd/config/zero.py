"""Checks that a policy which may scale to 0 has a strategy that can scale up again.

Knows what strategies say of themselves; knows nothing of files but their names.
"""

from elasticd.base.errors import ConfigError
from elasticd.base.text import raised
from elasticd.model.policy import Policy, Strategy
from elasticd.registry import implemented


def check_wakes(policy: Policy, file: str) -> None:
    """Refuse a minimum of 0 if no strategy could wake the workload, as the API server refuses it for an HPA without an
    Object or External metric."""
    if policy.replicas.min > 0 or policy.job:
        return
    recommending = [strategy for strategy in policy.strategies if "recommend_replicas" in implemented(type(strategy))]
    reasons = [(strategy.__struct_config__.tag, _sleeps(strategy, file)) for strategy in recommending]
    if reasons and all(why for _, why in reasons):
        text = "; ".join(dict.fromkeys(f"{name} {why}" for name, why in reasons))
        raise ConfigError(file, "replicas.min", f"must be >= 1, as nothing could wake it from 0: {text}; is 0")


def _sleeps(strategy: Strategy, file: str) -> str:
    try:
        return strategy.sleeps()
    except Exception as error:
        name = strategy.__struct_config__.tag
        problem = f"must have strategies that can say whether they sleep; {name} raised {raised(error)}"
        raise ConfigError(file, "replicas.min", problem) from None
