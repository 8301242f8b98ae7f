"""What daemons of one Lease compare, to notice that they have other policies.

Pure. Knows records of policies; knows nothing of files and of the Lease.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from elasticd.model.policy import Policy, PoolPolicy

DIGITS = 16
"""Of the digest, in hexadecimal: policies differ by mistake, not by intent."""


def summarized(policies: Sequence[Policy | PoolPolicy]) -> str:
    """A digest of all that these policies say, how many of them act, and how many there are, separated by spaces. It is
    the same in each process with the same version, in whatever order the policies are. Empty, as if it were not known,
    where a plugin's options have keys that JSON has not."""
    try:
        plain = [msgspec.to_builtins(policy, str_keys=True, order="sorted", enc_hook=_by_type) for policy in policies]
    except (TypeError, ValueError):
        return ""
    body = b"\n".join(sorted(map(msgspec.json.encode, plain)))
    acting = sum(policy.mode == "act" for policy in policies)
    return f"{hashlib.sha256(body).hexdigest()[:DIGITS]} {acting} {len(policies)}"


def _by_type(value: object) -> str:
    """Stand in for a plugin's value that JSON cannot express, whose text may contain an address."""
    return type(value).__qualname__
