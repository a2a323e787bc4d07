"""The largest numbers of TensorFlow Serving's protocol and flags, and of graphs within graphs."""

from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
"""Version numbers are int64 on the wire, and so are the integers of an Example: a larger one is
refused, since no reply could contain it."""

MOST_NESTED = 16
"""Most nested graphs, the outermost included: each level takes some ten of Python's 1,000 stack
frames."""
