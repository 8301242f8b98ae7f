"""Sources of metrics: a module or folder for each, and when each is read."""
