"""The two commands: read the command line, run the processes, give an exit code.

What is heavy is imported by `_build`, in a worker, after the fork.
"""

import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

from ie_serving import cli, tfs_cli
from ie_serving.errors import ConfigError, ServingError
from ie_serving.server import gunicorn_app
from ie_serving.server.lifecycle import Application
from ie_serving.settings import Parsed, Settings
from ie_serving.storage.by_url import check_urls
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry import logs

log = logging.getLogger(__name__)

WRONG_USAGE = 2
"""Exit code of a wrong command line or configuration."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ie_serving`; return its exit code."""
    try:
        parsed = cli.parse(sys.argv[1:] if argv is None else argv, os.environ)
    except ConfigError as error:
        return _report(error)
    return _serve(parsed)


def tensorflow_model_server(argv: Sequence[str] | None = None) -> int:
    """Run as `tensorflow_model_server` does; return its exit code."""
    parsed = tfs_cli.parse(sys.argv[1:] if argv is None else argv, os.environ)
    return tfs_cli.EXIT_CODE if _serve(parsed) else 0


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
