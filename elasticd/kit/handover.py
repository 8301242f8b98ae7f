"""What is written into the cluster while another autoscaler and elasticd change places.

Knows names of annotations alone.
"""

FENCE = "elasticd.io/fenced"
"""The annotation of a workload whose count elasticd leaves alone: who changes places, and since when. It stands only
while `elasticd takeover` is at work, or has been killed."""

STOPPED = "elasticd.io/stopped"
"""The annotation of an autoscaler that `elasticd takeover` has stopped: what it was before, as JSON."""
