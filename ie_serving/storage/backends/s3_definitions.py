"""botocore's definitions of AWS's services, read so that other threads have their turns meanwhile.

A client is made of 3 MB of JSON. json's scanner is one call in C: while it makes the dictionaries
of a file, for up to 20 ms, no other thread has the interpreter, and the event loop answers no
request. Here each dictionary is made by a function in Python, before which others may go on.
"""

import gzip
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import botocore.session
from botocore.loaders import JSONFileLoader


class FileInSteps(JSONFileLoader):  # type: ignore[misc]  # botocore has no types
    """Reads a definition as botocore's own reader does, in steps."""

    def load_file(self, file_path: str) -> Any:  # noqa: ANN401  # JSON
        """Give the content of `file_path`, which has no ending; None where there is no file."""
        plain, packed = Path(f"{file_path}.json"), Path(f"{file_path}.json.gz")
        if plain.is_file():
            content = plain.read_bytes()
        elif packed.is_file():
            content = gzip.decompress(packed.read_bytes())
        else:
            return None
        return json.loads(content, object_pairs_hook=_ordered)


# Not OrderedDict itself, which the scanner would call without a look at waiting threads.
def _ordered(pairs: list[tuple[str, Any]]) -> OrderedDict[str, Any]:
    return OrderedDict(pairs)


def session() -> Any:  # noqa: ANN401  # botocore has no types
    """Give a session of botocore whose clients are made of definitions that are read in steps."""
    made = botocore.session.get_session()
    # Before the first client is made: the loader keeps what it has read.
    made.get_component("data_loader").file_loader = FileInSteps()
    return made
