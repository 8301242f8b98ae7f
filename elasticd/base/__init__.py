"""What every other folder may use: time, units, text, errors, decoding, secrets. Knows nothing of Kubernetes."""
