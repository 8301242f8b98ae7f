"""Judgement: what is known in, a decision out. Pure: no clock, no I/O, no randomness, no log."""
