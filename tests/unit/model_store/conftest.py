"""Generated inputs without deadlines: a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None, max_examples=50)
settings.load_profile("no-deadline")
