"""Which policy governs which workload, and how each policy's plugins fare.

Knows policies and the workloads of a snapshot; knows nothing of time's passing or of what is decided.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from elasticd.journal import Key
from elasticd.model.disruption import PolicyCaps
from elasticd.model.policy import Policy
from elasticd.model.records import Decision
from elasticd.model.workload import Pod, Ref
from elasticd.ports.cluster import Kind, Snapshot
from elasticd.ports.source import Subject
from elasticd.registry import FailureCounter, Hooks


class PolicyIndex:
    """The policies in force. `members` maps each governed workload, under its policy's name, to the policy."""

    def __init__(
        self, policies: Sequence[Policy], governed: frozenset[Ref] | None = None, caps: PolicyCaps | None = None
    ) -> None:
        """`governed` are the workloads that the policies before these governed; None: there were none before. `caps`:
        how much a policy changes by itself; None: as much as it says."""
        self.policies = tuple(policies)
        self.members: dict[Key, Policy] = {}
        about = [policy.workload or policy.select for policy in policies]
        self.kinds: frozenset[Kind] = frozenset((each.api_version, each.kind) for each in about if each is not None)
        self._enrolled_at: int | None = None
        self._hooks: dict[tuple[object, ...], Hooks] = {}
        self._by_policy: dict[str, Hooks] = {}
        self._rivals: dict[Ref, tuple[str, ...]] = {}
        self._by_name: dict[str, Ref] = {}
        self._by_ref: dict[Ref, tuple[Key, ...]] = {}
        self._claims = _Claims()
        self._failures: dict[str, FailureCounter] = {}
        self._blocked: dict[str, str] = {}
        self.caps, self._governed = caps, governed
        self._unconfirmed: dict[str, tuple[str, frozenset[Ref]]] = {}

    def refresh(self, snapshot: Snapshot) -> bool:
        """Find the governed workloads again if any came, went or changed its labels; whether that was so."""
        if snapshot.version == self._enrolled_at:
            return False
        self._enrolled_at = snapshot.version
        self.members = {(p.name, p.workload.ref): p for p in self.policies if p.workload is not None}
        selecting = [policy for policy in self.policies if policy.select is not None]
        for workload in snapshot.workloads() if selecting else ():
            self.members.update({(p.name, workload.ref): p for p in selecting if p.governs(workload)})
        self._rivals = _rivals(self.members)
        self._by_name = {str(ref): ref for _, ref in self.members}
        self._by_ref = {}
        for key in self.members:
            self._by_ref[key[1]] = (*self._by_ref.get(key[1], ()), key)
        self._claim(snapshot)
        for policy in selecting:
            self._check_growth(policy)
        return True

    def _check_growth(self, policy: Policy) -> None:
        """Hold what a selector newly matches after a reload, if that is more than may come at once."""
        select = policy.select
        if self._governed is None or self.caps is None or select is None:
            return
        if policy.mode != "act" or policy.name in self._unconfirmed:
            return
        matched = frozenset(ref for name, ref in self.members if name == policy.name)
        if not matched:  # the kind may not have been listed yet
            return
        new, most = matched - self._governed, self.caps.newly_governed
        if len(new) <= max(most, select.confirmed):
            new = frozenset()
        message = (
            f"select matches {len(new)} workloads that no policy governed before, and {most} may come at one reload "
            f"(newly_governed of [disruption]): confirm it by confirmed = {len(new)} under [select]"
        )
        self._unconfirmed[policy.name] = message, new

    def unconfirmed(self, key: Key) -> str:
        """Why a workload that has newly come under its policy waits for a person, or an empty string."""
        message, refs = self._unconfirmed.get(key[0], ("", frozenset()))
        return message if key[1] in refs else ""

    def confirmed_refs(self) -> frozenset[Ref]:
        """The workloads that are governed, without those that wait for a person."""
        return frozenset(key[1] for key in self.members if not self.unconfirmed(key))

    def _claim(self, snapshot: Snapshot) -> None:
        """Note the pods of new workloads before any is judged, and drop the claims of those that have gone."""
        workloads = {ref: snapshot.workload(ref) for _, ref in self.members}
        self._claims.keep({ref for ref, workload in workloads.items() if workload is not None})
        for ref, workload in workloads.items():
            if workload is not None and (workload.owner or ref not in self._claims):
                # Its owner's pods are the owner's to scale.
                self._claims.take(ref, () if workload.owner else snapshot.pods(workload))

    def about(self, subject: Subject, key: str) -> tuple[Key, ...]:
        """The governed workloads that news about a subject concerns; `key` is the workload's or pod's name."""
        if subject == "node":
            return ()
        ref = self._by_name.get(key) if subject == "workload" else self._claims.owner(key)
        return self.keys(ref) if ref is not None else ()

    def keys(self, ref: Ref) -> tuple[Key, ...]:
        """A workload under each policy that governs it."""
        return self._by_ref.get(ref, ())

    def not_acted_on(self, names: Collection[str]) -> list[str]:
        """Those of these workloads, NAMESPACE/KIND/NAME, that no policy acts on; none while that is not known yet."""
        if not names or self._enrolled_at is None:
            return []
        return sorted({*names} - {str(ref) for (_, ref), policy in self.members.items() if policy.mode == "act"})

    def rivals(self, key: Key) -> tuple[str, ...]:
        """The policies in mode act that all govern this workload; empty when there is at most one, as there must be."""
        name, ref = key
        policies = self._rivals.get(ref.unversioned, ()) if self._rivals else ()
        return policies if name in policies else ()

    def hooks(self, policy: Policy) -> Hooks:
        """The policy's plugins, built on first use; policies with equal tables share them."""
        hooks = self._by_policy.get(policy.name)
        if hooks is None:
            records = (*policy.strategies, *policy.limits)
            # Equal for equal options; a plugin's repr is no proof of that.
            key = tuple((type(record), msgspec.json.encode(record)) for record in records)
            hooks = self._by_policy[policy.name] = self._hooks.get(key) or self._hooks.setdefault(key, Hooks(records))
        return hooks

    def ambiguity(self, ref: Ref, pods: tuple[Pod, ...]) -> str:
        """Why its pods cannot be told from another governed workload's, or an empty string. HPA: AmbiguousSelector.
        Both workloads are told, for as long as it lasts."""
        self._claims.take(ref, pods)
        rival = self._claims.rival(ref)
        return "" if rival is None else f"its selector matches pods that {rival} selects too"

    def off(self, policy: str) -> frozenset[str]:
        """The policy's plugins that have failed too often: they are not asked until reload."""
        counter = self._failures.get(policy)
        return frozenset() if counter is None else counter.off

    def count_failure(self, decision: Decision) -> None:
        """Count each plugin's failures, for each workload apart: a policy may govern a thousand."""
        failed = {failure.plugin for failure in decision.failures}
        if failed or decision.policy in self._failures:
            self._failures.setdefault(decision.policy, FailureCounter()).count(decision.workload, failed)

    def stuck(self, policy: str) -> str:
        """Where a plugin of this policy blocked, or an empty string."""
        return self._blocked.get(policy, "")

    def block(self, policy: str, where: str) -> None:
        """Call none of this policy's plugins again until reload."""
        self._blocked[policy] = f"{where}; it is not called again until reload"


class _Claims:
    """Which pods each workload's selector matches, and which pods more than one does."""

    def __init__(self) -> None:
        self._pods: dict[Ref, tuple[Pod, ...]] = {}
        self._claimants: dict[str, tuple[Ref, ...]] = {}
        self._shared: set[str] = set()
        self._owners: dict[str, Ref] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._pods

    def take(self, ref: Ref, pods: tuple[Pod, ...]) -> None:
        """Note that a workload's selector matches these pods, and no others."""
        before = self._pods.get(ref, ())
        self._pods[ref] = pods
        if before is pods:
            return
        for pod in before:
            self._owners.pop(f"{pod.namespace}/{pod.name}", None)
        for pod in pods:
            self._owners[f"{pod.namespace}/{pod.name}"] = ref
        old, new = {pod.uid for pod in before}, {pod.uid for pod in pods}
        for uid in old - new:
            self._set_claimants(uid, tuple(claimant for claimant in self._claimants[uid] if claimant != ref))
        for uid in new - old:
            self._set_claimants(uid, (*self._claimants.get(uid, ()), ref))

    def _set_claimants(self, uid: str, claimants: tuple[Ref, ...]) -> None:
        if claimants:
            self._claimants[uid] = claimants
        else:
            del self._claimants[uid]
        if len(claimants) > 1:
            self._shared.add(uid)
        else:
            self._shared.discard(uid)

    def owner(self, pod: str) -> Ref | None:
        """The workload that last claimed the pod ("namespace/name")."""
        return self._owners.get(pod)

    def keep(self, refs: set[Ref]) -> None:
        """Drop the claims of all other workloads."""
        for ref in self._pods.keys() - refs:
            self.take(ref, ())
            del self._pods[ref]

    def rival(self, ref: Ref) -> Ref | None:
        """Another workload that claims one of its pods."""
        if not self._shared:
            return None
        shared = [pod.uid for pod in self._pods[ref] if pod.uid in self._shared]
        return min((claimant for uid in shared for claimant in self._claimants[uid] if claimant != ref), default=None)


def _rivals(members: Mapping[Key, Policy]) -> dict[Ref, tuple[str, ...]]:
    acting: dict[Ref, list[str]] = {}
    for (name, ref), policy in members.items():
        if policy.mode == "act":
            acting.setdefault(ref.unversioned, []).append(name)
    return {ref: tuple(sorted(names)) for ref, names in acting.items() if len(names) > 1}
