"""elasticd keeps a Kubernetes cluster elastic: observe, decide, act, and explain every decision."""
