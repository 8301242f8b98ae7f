"""What all tests share: properties are about what holds, not about how long it took on a busy machine.

`quick` is what a person waits for; .ci/run asks for `thorough`, by --hypothesis-profile.
"""

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=150)
settings.load_profile("quick")
