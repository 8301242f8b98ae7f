"""Where pending pods go: judgement about pods and nodes, as `decide` is about workloads.

Pure. `order` says which pod is asked about first, `ask` puts the questions to plugins, `plan` answers for one pool, and
`room` finds who gives way.
"""
