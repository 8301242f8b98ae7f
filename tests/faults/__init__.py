"""The fault campaign: daemons on a genuine control plane, faults drawn from a seed, and an oracle."""
