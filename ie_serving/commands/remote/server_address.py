"""The address of a server and the caller's credentials, from flags and the environment."""

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ie_serving.commands.remote.failures import CommandMisused

URL: Final = "IE_SERVING_URL"
KEY: Final = "IE_SERVING_API_KEY"
PASSWORD: Final = "IE_SERVING_PASSWORD"
CA, CERTIFICATE, PRIVATE_KEY = "IE_SERVING_CA", "IE_SERVING_CERTIFICATE", "IE_SERVING_KEY"
"""Variables of the environment for secrets: other users can see a process's arguments."""
DEFAULT_URL: Final = "http://localhost:8000"
"""The REST port of this machine that the documentation and the chart use."""
GRPC_PORT: Final = 9000

_URL = re.compile(
    r"(?P<scheme>https?|grpcs?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
    r"(?::(?P<port>\d{1,5}))?/?"
)
_SOCKET = re.compile(r"unix:(?://)?(?P<path>/.+)")
_PORTS = {"http": 80, "https": 443, "grpc": GRPC_PORT, "grpcs": GRPC_PORT}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """The address of a server, and the caller's credentials.

    Attributes:
        scheme: http, https, grpc, grpcs; or unix for HTTP over a socket of the file system.
        host, port: address; for unix the host is the path of the socket.
        headers: credentials, sent with each request. Never shown.
        ca: file of certificates to trust; empty trusts the system's.
        certificate, private_key: files of the client's certificate; empty for none.
        timeout_s: longest time in seconds without any byte of a reply.
    """

    scheme: str
    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: str = ""
    certificate: str = ""
    private_key: str = ""
    timeout_s: float = 60.0

    @property
    def secure(self) -> bool:
        """Whether the connection uses TLS."""
        return self.scheme in ("https", "grpcs")

    @property
    def is_grpc(self) -> bool:
        """Whether requests go over gRPC."""
        return self.scheme.startswith("grpc")

    @property
    def url(self) -> str:
        """The address, for messages."""
        if self.scheme == "unix":
            return f"unix://{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether others can read requests on the network."""
        return self.scheme in ("http", "grpc") and self.host not in _LOOPBACK


def add_model(parser: argparse.ArgumentParser, help: str = "the model") -> None:
    """Add MODEL and the flag `--model_name`, either of which names a model: see `model_of`."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help=help)
    parser.add_argument("--model_name", metavar="MODEL", help="the same as a flag")


def add_version(parser: "argparse._ActionsContainer", help: str = "(the default version)") -> None:
    """Add the flag of a version, by both of its names, as `version`."""
    flags = ("--version", "--model_version")
    parser.add_argument(*flags, dest="version", type=int, metavar="N", help=help)


def model_of(given: argparse.Namespace) -> str:
    """Return the model that `add_model` has read. Raises: CommandMisused, for none, or two."""
    named = {each for each in (given.model, given.model_name) if each}
    if len(named) != 1:
        found = f"{given.model} and --model_name {given.model_name}" if named else "none"
        raise CommandMisused(
            f"models given: {found}; expected one, as MODEL or as --model_name MODEL"
        )
    return str(named.pop())


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that all commands have."""
    add = parser.add_argument_group("server").add_argument
    add(
        "--url",
        metavar="ADDRESS",
        help=f"HOST:PORT or http(s)://HOST:PORT of the REST port, grpc(s)://HOST:PORT of the gRPC"
        f" port where a command can ask it, or unix:///PATH of a REST socket ({URL}, else the"
        f" server that this user runs on this machine, else {DEFAULT_URL})",
    )
    add("--ca", metavar="FILE", help=f"authority of the server's certificate ({CA}, the system's)")
    add("--cert", metavar="FILE", help=f"certificate of this client ({CERTIFICATE})")
    add("--key", metavar="FILE", help=f"its private key ({PRIVATE_KEY})")
    who = parser.add_argument_group("who asks").add_argument
    who("--api_key_file", metavar="FILE", help=f"file with the API key ({KEY} has the key itself)")
    who("--api_key", metavar="KEY", help="the key itself; visible to all users of this machine")
    who("--user", metavar="NAME", help=f"basic authentication; the password is in {PASSWORD}")
    add("--timeout_seconds", type=float, default=60.0, help="patience without an answer (60)")


def address_of(
    given: argparse.Namespace, environ: Mapping[str, str], warn: Callable[[str], None]
) -> ServerAddress:
    """Build the address from flags and the environment.

    Args:
        given: values read by the flags of `add_flags`.
        environ: environment variables of the process.
        warn: called with each warning about security.

    Raises:
        CommandMisused: an address or file cannot be used.
    """
    scheme, host, port = _address(given.url or environ.get(URL) or local_address(environ))
    address = ServerAddress(
        scheme=scheme,
        host=host,
        port=port,
        headers=_credentials(given, environ, warn),
        ca=given.ca or environ.get(CA, ""),
        certificate=given.cert or environ.get(CERTIFICATE, ""),
        private_key=given.key or environ.get(PRIVATE_KEY, ""),
        timeout_s=_positive(given.timeout_seconds),
    )
    if bool(address.certificate) != bool(address.private_key):
        raise CommandMisused("--cert and --key belong together: give both files, or neither")
    if (address.ca or address.certificate) and not address.secure:
        raise CommandMisused(
            f"certificates are for TLS; expected https:// or grpcs://, got {address.url}"
        )
    if address.headers and address.is_open:
        warn(f"credentials go unencrypted to {address.url}: use https:// or grpcs://")
    return address


def local_address(environ: Mapping[str, str]) -> str:
    """Give the address of the one server that this user runs here; `DEFAULT_URL` without one.

    Raises:
        CommandMisused: there are several.
    """
    from ie_serving.core.runtime.run_files import running

    found = {each.rest or each.grpc: each.pid for each in running(environ)}
    if len(found) > 1:
        listed = ", ".join(f"{url} (process {pid})" for url, pid in found.items())
        raise CommandMisused(f"{len(found)} servers run here, {listed}: name one by --url or {URL}")
    return next(iter(found), DEFAULT_URL)


def _address(text: str) -> tuple[str, str, int]:
    socket = _SOCKET.fullmatch(text)
    if socket:
        return "unix", socket["path"], 0
    found = _URL.fullmatch(text if "://" in text else f"http://{text}")
    if not found or not 0 < int(found["port"] or 1) <= 65535:
        raise CommandMisused(
            f"{text[:80]!r} is no address of a server; expected one such as {DEFAULT_URL},"
            " localhost:8000, grpc://localhost:9000 or unix:///run/rest.sock"
        )
    scheme = found["scheme"]
    return scheme, found["host"].strip("[]"), int(found["port"] or _PORTS[scheme])


def _positive(seconds: float) -> float:
    if not 0 < seconds < 1e6:
        raise CommandMisused(f"--timeout_seconds is {seconds:g}; expected more than 0 seconds")
    return seconds


def _credentials(
    given: argparse.Namespace, environ: Mapping[str, str], warn: Callable[[str], None]
) -> Mapping[str, str]:
    if given.user:
        return {"Authorization": f"Basic {_basic(given.user, environ)}"}
    if given.api_key:
        warn(f"--api_key shows the key to all users of this machine: use --api_key_file or {KEY}")
    key = given.api_key or _key_in(given.api_key_file) or environ.get(KEY, "")
    if key:
        # Only visible characters: others would break the request's headers.
        if not key.isascii() or not key.isprintable() or " " in key:
            raise CommandMisused(
                "the API key has characters that no key has: look at the file, or at its end"
            )
        return {"x-api-key": key}
    # AUTHORIZATION is for `ie_serving gen`: a JSON Web Token, or a proxy's credentials.
    other = environ.get("AUTHORIZATION", "")
    return {"Authorization": other} if other else {}


def _key_in(file: str | None) -> str:
    """Read a key; lines that begin with # are comments, as `ie_serving key new` prints one."""
    if not file:
        return ""
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CommandMisused(f"--api_key_file {file} cannot be read: {error}") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(found) != 1:
        raise CommandMisused(f"--api_key_file {file} has {len(found)} lines; expected one, the key")
    return found[0]


def _basic(user: str, environ: Mapping[str, str]) -> str:
    import base64
    import sys
    from getpass import getpass

    password = environ.get(PASSWORD)
    if password is None:
        if not sys.stdin.isatty():
            raise CommandMisused(f"--user {user} has no password: set the variable {PASSWORD}")
        password = getpass()
    if ":" in user:
        raise CommandMisused(
            "--user has a colon, which basic authentication cannot send; use a name without"
        )
    return base64.b64encode(f"{user}:{password}".encode()).decode()
