"""What all tests share: properties are about what holds, not about how long it took on a busy machine."""

from hypothesis import settings

settings.register_profile("elasticd", deadline=None)
settings.load_profile("elasticd")
