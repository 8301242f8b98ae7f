"""Every noun, in the order data flows: workloads, pods, policies, placements, moves, actions and records."""
