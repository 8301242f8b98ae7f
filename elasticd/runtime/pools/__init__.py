"""Pools at work: pods are placed, moved and preempted, and reported on, for every time it is given."""
