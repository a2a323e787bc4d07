"""Suggests a known name for one that is not known."""

import difflib
from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """Return the end of an error text for an unknown name: `; did you mean "..."?`, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
