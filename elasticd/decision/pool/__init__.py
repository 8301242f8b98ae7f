"""Where pending pods go and which pods move: pure judgement about pods and nodes, as `decide` is about workloads."""
