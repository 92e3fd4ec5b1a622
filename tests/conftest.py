"""Settings that all tests share: how many random examples a property gets, and how they are chosen.

Choose a profile with the environment variable HYPOTHESIS_PROFILE:

- `fast`: the default; a few dozen new random examples at every run, so that everyday work explores.
- `ci`: the default where CI is set; the same examples at every run, so that a red build is due to the change.
- `thousand`: 1,000 new random examples per property (`make properties`).

A failure prints a line to paste above the test (`@reproduce_failure(...)`) that replays it.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast",
    max_examples=60,
    print_blob=True,
    # The speed of a loaded machine is not a property of the code: pytest-timeout ends what hangs.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True, database=None)
settings.register_profile("thousand", settings.get_profile("fast"), max_examples=1_000)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "fast"))
