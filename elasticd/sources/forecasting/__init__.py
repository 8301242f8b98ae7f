"""Forecasts of a load: a history in, a Forecast out. Arithmetic alone, by numpy and scipy: elasticd[forecast].

Nothing here has a clock, reads a file or draws by chance but from a generator with a fixed seed. The daemon runs it in
a process of its own (`python -m elasticd.sources.forecasting`), and imports of it only `request`, which needs no numpy.
"""
