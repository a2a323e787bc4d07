"""Writes a call as one command of curl for a shell."""

import shlex
from typing import Final

from ie_serving.wire.clients import languages
from ie_serving.wire.clients.call import JsonPost
from ie_serving.wire.clients.sample import FileOf, Filled

LONGEST_ARGUMENT: Final = 100_000
"""Characters of a body that stands in the command: Linux takes 128 KB in one argument."""
_CURL: Final = (
    "curl --globoff --silent --show-error --fail-with-body --max-time 60 \\\n"
    "  -H 'Content-Type: application/json' "
    # One word in sh and bash alike; nothing where the variable is not set.
    '${AUTHORIZATION:+-H"Authorization: $AUTHORIZATION"} \\\n'
    "  --data-binary "
)


def command(call: JsonPost) -> str:
    """Write it; where lists are filled, or the body is long, the program of bash."""
    url = shlex.quote(call.url)
    is_long = sum(len(piece) for piece in call.body if isinstance(piece, str)) > LONGEST_ARGUMENT
    if is_long or any(isinstance(piece, Filled) for piece in call.body):
        return languages.program("bash", call)
    if not any(isinstance(piece, FileOf) for piece in call.body):
        return f"{_CURL}{shlex.quote(''.join(map(str, call.body)))} \\\n  {url}\n"
    parts = "\n".join(
        f"  base64 < {shlex.quote(piece.path)} | tr -d '\\n'"
        if isinstance(piece, FileOf)
        else f"  printf '%s' {shlex.quote(str(piece))}"
        for piece in call.body
    )
    return f"{{\n{parts}\n}} | {_CURL}@- \\\n  {url}\n"
