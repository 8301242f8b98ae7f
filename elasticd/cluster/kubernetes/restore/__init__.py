"""Pods without a controller: recorded before they are evicted, and recreated after."""
