"""Connections to an MQTT broker, for the source that listens and the outlet that tells.

Knows the protocol's options, how to stay connected and how to read fast; knows no sample and no decision.
"""
