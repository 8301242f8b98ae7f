"""Pools at work: pods are placed, moved and made to give way, and told of, for every time it is given."""
