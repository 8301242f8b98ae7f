"""What is written into the cluster while another autoscaler and elasticd change places.

Knows names of annotations and of limits alone.
"""

FENCE = "elasticd.io/fenced"
"""The annotation of a workload whose count elasticd leaves alone: who changes places, and since when. It stands only
while `elasticd takeover` is at work, or has been killed."""

STOPPED = "elasticd.io/stopped"
"""The annotation of an autoscaler that `elasticd takeover` has stopped: what it was before, as JSON."""

TAKEN_BACK = "elasticd.io/taken-back"
"""The annotation of an autoscaler that was as it should be when an interrupted takeover was taken back: since when."""

UNREAD = "perhaps a HorizontalPodAutoscaler (they have not been read of late, or since this daemon began to lead)"
"""In place of the autoscaler of a workload: it may have one."""

HALF_STOPPED = " (half stopped)"
"""At the end of the autoscaler of a workload: both its directions are Disabled, but not its bounds wide open."""

FENCED = "fence"
"""The name of the limit by which a workload that changes hands stands still."""

AUTOSCALER = "autoscaler"
"""The name of the limit by which the count is left to an HPA that scales the workload, or may."""
