"""Pools at run time: pods are placed, moved and preempted, and reported on."""
