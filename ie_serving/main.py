"""The two commands: read the command line, run the processes, give an exit code.

What is heavy is imported by `_build`, in a worker, after the fork.
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType

from ie_serving import cli, tfs_cli
from ie_serving.errors import ConfigError, ServingError
from ie_serving.server import gunicorn_app
from ie_serving.server.lifecycle import Application
from ie_serving.settings import Parsed, Settings
from ie_serving.storage.by_url import check_urls
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry import logs

log = logging.getLogger(__name__)

RUN_TIME_FAILURE = 1
"""Exit code of a port that is taken, or of a first start that fails; the cause is in the log."""
WRONG_USAGE = 2
"""Exit code of a wrong command line or configuration."""


def _stop_at_once(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _listen_for_signals() -> None:
    """End cleanly when told to before the arbiter, which has handlers of its own, has begun."""
    signal.signal(signal.SIGTERM, _stop_at_once)
    signal.signal(signal.SIGINT, _stop_at_once)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ie_serving`; return its exit code."""
    _listen_for_signals()
    try:
        parsed = cli.parse(sys.argv[1:] if argv is None else argv, os.environ)
    except ConfigError as error:
        return _report(error)
    return _serve(parsed)


def tensorflow_model_server(argv: Sequence[str] | None = None) -> int:
    """Run as `tensorflow_model_server` does; return its exit code."""
    _listen_for_signals()
    parsed = tfs_cli.parse(sys.argv[1:] if argv is None else argv, os.environ)
    code = _serve(parsed)
    if code == RUN_TIME_FAILURE:
        tfs_cli.fail("UNKNOWN: the log says why")
    return tfs_cli.EXIT_CODE if code else 0


def _serve(parsed: Parsed) -> int:
    server = parsed.settings.server
    try:
        logs.configure(server.log_level, server.log_path)
    except ServingError as error:
        print(f"ie_serving: error: {error}", file=sys.stderr)
        return WRONG_USAGE
    for warning in parsed.warnings:
        log.warning(warning)
    try:
        storage = StorageOptions.from_environment(
            os.environ, cache_dir=server.cache_dir, cache_size_bytes=server.cache_size_bytes
        )
        check_urls((model.base_path for model in parsed.settings.models), storage)
    except ConfigError as error:
        return _report(error)
    return gunicorn_app.run(parsed.settings, partial(_build, storage=storage))


def _report(error: ConfigError) -> int:
    for fault in error.faults:
        print(f"ie_serving: error: {fault}", file=sys.stderr)
    return WRONG_USAGE


def _build(settings: Settings, storage: StorageOptions) -> Application:
    from ie_serving.application import ServingApplication

    return ServingApplication(settings, storage)
