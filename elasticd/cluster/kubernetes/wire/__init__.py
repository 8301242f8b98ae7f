"""The Kubernetes wire format, as far as it is used, and its conversion to and from the model."""
