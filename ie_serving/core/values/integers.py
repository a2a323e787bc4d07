"""The largest numbers of TensorFlow Serving's protocol and flags."""

from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
"""Version numbers are int64 on the wire, and so are the integers of an Example: a larger one is
refused, since no reply could contain it."""
