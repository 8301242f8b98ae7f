"""Coming over from other autoscalers: their objects become policies, which run beside them, and take over.

The modules of one kind each (hpa, keda, cronhpa, vpa) are pure: a manifest becomes an Imported. Knows the objects of
other projects; knows nothing of how a policy decides.
"""
