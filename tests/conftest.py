"""What all tests share: properties are about what holds, not about how long it took on a busy machine.

`make test` takes the profile `few`, `make test-all` takes `quick`, and .ci/run asks for `thorough`
(make test-all HYPOTHESIS=thorough).
"""

import gc
import signal

from hypothesis import settings

settings.register_profile("few", deadline=None, max_examples=10)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=150)
settings.load_profile("quick")


# A shell that runs the tests in the background has them ignore Ctrl-C, and all that they start with them.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Thousands of tests are collected and stay: looking for cycles among them again and again finds none.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()
