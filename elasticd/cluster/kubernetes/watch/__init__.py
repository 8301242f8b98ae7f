"""Copies of what the API server has, kept current by LIST and WATCH."""
