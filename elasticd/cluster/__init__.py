"""Clusters: Kubernetes, simulated, and the dry run over either. They implement ports/cluster.py."""
