"""`ie_serving key`: makes credentials, prints the line for the file of keys, and ends.

ie_serving key new alice --rights predict,read --models 'resnet*'
ie_serving key password bob --rights read < password.txt
"""

import argparse
import secrets
from collections.abc import Callable, Sequence

from ie_serving.config.files import access_file

COMMAND = "key"
KEY_BYTES = 32
"""Random bytes of a key: too many to try all keys, so one fast hash is enough."""


def run(argv: Sequence[str], read_password: Callable[[], str]) -> list[str]:
    """Make the credential; give the lines to print.

    Args:
        argv: arguments without the program's name.
        read_password: gives the password of a user.

    Raises:
        ConfigError: a name, right or pattern is not valid in a line.
        SystemExit: `--help`, or flags that do not belong here.
    """
    given = parser().parse_args(argv[1:])
    if given.what == "new":
        key = secrets.token_urlsafe(KEY_BYTES)
        credential = access_file.key_credential(key)
        line = access_file.line(given.name, given.rights, given.models, credential)
        return [f"# key of {given.name}, shown only now: {key}", line]
    credential = access_file.password_credential(read_password())
    return [access_file.line(given.name, given.rights, given.models, credential)]


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line after the command."""
    made = argparse.ArgumentParser(prog=f"ie_serving {COMMAND}", allow_abbrev=False)
    asked = made.add_subparsers(dest="what", required=True, metavar="{new,password}")
    for what, meaning in (
        ("new", "make a key; print it, and the line of its hash for --api_key_file"),
        # Not as an argument, which other users can see in the list of processes.
        ("password", "read a password from standard input; print the line of its hash"),
    ):
        command = asked.add_parser(what, help=meaning)
        command.add_argument("name", help="name of the caller, one word")
        known = ", ".join(access_file.RIGHTS)
        command.add_argument("--rights", default="predict", help=f"some of {known} (predict)")
        command.add_argument("--models", default="*", help="patterns with commas (*, all models)")
    return made
