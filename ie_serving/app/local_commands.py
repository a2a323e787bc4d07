"""Runs the commands that start no server.

They edit configuration files and files of keys, run one kernel, compare a version with its
framework, and bridge MQTT.
"""

import sys
from collections.abc import Mapping, Sequence
from getpass import getpass

from ie_serving.config.dialects import bridge, kernel_run, keys, manage, own_flags, verify
from ie_serving.core.values.commands import VERSION, edits
from ie_serving.core.values.errors import ServingError
from ie_serving.models.configuration import ModelConfig
from ie_serving.telemetry.log import logs


def run(given: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command of a command line; return its exit code.

    Raises:
        ServingError: a fault of the command line, or of what the command works on.
    """
    if edits(given):
        return _show(manage.run(given, environ))
    command = given[0]
    if command == keys.COMMAND:
        return _show(keys.run(given, _password))
    if command == VERSION:
        return _show([own_flags.version_text(given[1:])])
    if command == kernel_run.COMMAND:
        return _run_kernel(kernel_run.parse(given))
    if command == verify.COMMAND:
        return _verify(verify.parse(given))
    if command == bridge.COMMAND:
        return _bridge(given, environ)
    return _imported(given)


def _bridge(given: Sequence[str], environ: Mapping[str, str]) -> int:
    options = bridge.parse(given, environ)
    logs.configure("INFO")
    try:
        from ie_serving.commands.bridge import MqttBridge
    except ImportError as error:
        if error.name != "paho":
            raise
        raise ServingError("the bridge needs the extra mqtt: pip install '.[mqtt]'") from None
    MqttBridge(options).run()
    return 0


def _imported(argv: Sequence[str]) -> int:
    from ie_serving.config.dialects import importing

    return _show(importing.run(argv[2:]))


def _show(lines: Sequence[str]) -> int:
    for line in lines:
        print(line)
    return 0


def _password() -> str:
    """Read a password: without echo from a terminal, else the first line of standard input."""
    return getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def _run_kernel(asked: kernel_run.KernelRun) -> int:
    from ie_serving.commands.kernel_run import run

    logs.configure("WARNING")
    return run(asked)


def _verify(asked: verify.VerifyRun) -> int:
    from ie_serving.app.engine_stack import engine_of
    from ie_serving.commands.verify import run

    logs.configure("ERROR")
    return run(asked, engine_of(ModelConfig(name=asked.directory.parent.name, base_path="")))
