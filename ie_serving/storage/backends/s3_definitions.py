"""Reads botocore's definitions of AWS services in steps, so that other threads can run in between.

A client is made from 3 MB of JSON. json's scanner is one call in C: while it reads a file, for up
to 20 ms, it holds the interpreter lock, and the event loop answers no request. Here a Python
function makes each dictionary, and the interpreter can switch threads before each call.
"""

import gzip
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import botocore.session
from botocore.loaders import JSONFileLoader


class SteppedFileLoader(JSONFileLoader):  # type: ignore[misc]  # botocore has no types
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


# The scanner would call OrderedDict itself without a look at waiting threads.
def _ordered(pairs: list[tuple[str, Any]]) -> OrderedDict[str, Any]:
    return OrderedDict(pairs)


def session() -> Any:  # noqa: ANN401  # botocore has no types
    """Give a botocore session that reads the definitions of its clients in steps."""
    made = botocore.session.get_session()
    # The loader is set before the first client is made: it caches the files that it has read.
    made.get_component("data_loader").file_loader = SteppedFileLoader()
    return made
