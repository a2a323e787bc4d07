"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# The machines are shared: how long one example takes says nothing about the code.
settings.register_profile(
    "shared machines", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared machines")
