"""Trying decisions before they are trusted: policies are played on simulated clusters, and compared."""
