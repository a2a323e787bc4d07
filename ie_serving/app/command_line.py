"""The commands of this package: parse the command line, run the processes, return an exit code.

`_build` imports the heavy modules in a worker, after the fork.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import FrameType

from ie_serving.config.dialects import environment, own_flags
from ie_serving.config.dialects import ie_serving as own
from ie_serving.config.schema import contradictions
from ie_serving.config.settings import ParsedCommandLine, ServerSettings, Settings, TuneSettings
from ie_serving.core.compat import by_name, imported
from ie_serving.core.runtime import interruption
from ie_serving.core.runtime.handover import Handover, Handovers
from ie_serving.core.runtime.scratch import choose_directory
from ie_serving.core.settings.faults import Faults
from ie_serving.core.values import hints
from ie_serving.core.values.commands import is_tool
from ie_serving.core.values.errors import ConfigError, ServingError, causes
from ie_serving.models.configuration import ModelConfig
from ie_serving.server.process import gunicorn_app
from ie_serving.server.process.deadly_loads import LoadNotes
from ie_serving.server.process.lifecycle import Application
from ie_serving.storage.backends.storage_opener import check_urls, open_storage
from ie_serving.storage.directories import Directories
from ie_serving.storage.options import StorageOptions
from ie_serving.telemetry import trace
from ie_serving.telemetry.log import logs
from ie_serving.telemetry.log.logs import Event
from ie_serving.telemetry.request import access_log

log = logging.getLogger(__name__)

WRONG_USAGE = 2
"""Exit code for a wrong command line or configuration, the same as argparse's. A port in use or a
failed first start ends with 1, and the log states the cause."""

USER = "IE_SERVING_USER"
"""Variable of the image: the user that its entry point gives up root for; 0 keeps root."""

NOT_TUNED = 1
"""Exit code of `tune` if the model does not load, or answers none of the requests."""


def _stop_at_once(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _ignore_orders() -> None:
    """Ignore signals meant for a running server; by default they would end this process."""
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ie_serving`; return its exit code."""
    _ignore_orders()
    given = sys.argv[1:] if argv is None else argv
    command = given[0] if given else ""
    try:
        if is_tool(given):
            from ie_serving.app import local_commands  # here: serving needs none of them

            return local_commands.run(given, os.environ)
        parsed = _command(given)
        _prepare(parsed)
    except ServingError as error:
        for cause in causes(error):
            print(f"ie_serving: error: {cause}", file=sys.stderr)
        if command == own_flags.CHECK and f"--{own_flags.JSON}" in given:
            print(json.dumps({"ok": False, "server": [*map(str, causes(error))], "models": {}}))
        return WRONG_USAGE
    if parsed.tune is not None:
        return _tune(parsed, parsed.tune)
    return _check(parsed) if parsed.only_check else _serve(parsed).code


def tensorflow_model_server(argv: Sequence[str] | None = None) -> int:
    """Run as `tensorflow_model_server` does; return its exit code."""
    from ie_serving.config.dialects import tensorflow_model_server as tfs

    _ignore_orders()
    try:
        parsed = tfs.parse(sys.argv[1:] if argv is None else argv, os.environ)
        _prepare(parsed)
    except ServingError as error:
        tfs.fail(f"INVALID_ARGUMENT: {error}", [str(error)])
    if parsed.only_check:
        return _check(parsed)
    ended = _serve(parsed)
    if ended.code:
        tfs.fail(f"UNKNOWN: {' '.join(ended.cause.split()) or 'the log says why'}")
    return ended.code


def as_other(command: str, parser: str, argv: Sequence[str]) -> int:
    """Serve as the command line of another server asks; return the exit code.

    Args:
        command: name of the command, for errors.
        parser: module that parses the command line; see `core.compat.Additions.words`.
        argv: arguments without the program's name.
    """
    _ignore_orders()
    try:
        parsed: ParsedCommandLine = imported(parser)(argv, os.environ)
        _prepare(parsed)
    except ServingError as error:
        for cause in causes(error):
            print(f"{command}: error: {cause}", file=sys.stderr)
        return WRONG_USAGE
    return _serve(parsed).code


def _command(given: Sequence[str]) -> ParsedCommandLine:
    other = by_name("words").get(given[0]) if given else None
    parsed: ParsedCommandLine = (imported(other) if other else own.parse)(given, os.environ)
    return parsed


def _prepare(parsed: ParsedCommandLine) -> None:
    """Set up the log and other state of the process; check settings that need the storage.

    Raises:
        ServingError: the log file cannot be opened, there is no directory for temporary files, or a
            base path cannot be served.
    """
    hints.speak(parsed.names)
    server = parsed.settings.server
    _start_log(server)
    for warning in parsed.warnings if parsed.lenient else ():
        log.warning(Event("command line warning", warning=warning))
    if os.environ.get(USER, "0") != "0" and os.geteuid() == 0:
        log.warning(Event("server runs as root", advice="start it by the image's entry point"))
    if in_memory := choose_directory():
        log.warning(Event("temporary files are in memory", path=in_memory))
    access_log.check(server.access_log)
    trace.check(server.traces_url, server.otlp_protocol)
    faults = Faults()
    faults.take(lambda settings, _: contradictions.check(settings), parsed.settings, "")
    settings = parsed.settings
    paths = [model.base_path for model in settings.models]
    paths += [each.base_path for each in (*settings.repositories, *settings.in_file)]
    faults.take(lambda urls, _: check_urls(urls, parsed.storage), paths, "")
    faults.check()


def _start_log(server: ServerSettings) -> None:
    try:
        logs.configure(server.log_level, server.log_path, server.log_format)
    except ServingError as error:
        # Images and manifests set the variable for users who may not write there.
        if server.log_path != os.environ.get(environment.LOG_PATH):
            raise
        logs.configure(server.log_level, "", server.log_format)
        log.warning(Event("LOG_PATH has no effect", cause=str(error)))


def _serve(parsed: ParsedCommandLine) -> gunicorn_app.ServerEnd:
    # A stop by signal is success: exit code 0. The arbiter installs its own handlers later.
    for number in interruption.SIGNALS:
        signal.signal(number, _stop_at_once)
    build = partial(_build, storage=parsed.storage)
    return gunicorn_app.run(parsed.settings, build, environment=os.environ)


def _check(parsed: ParsedCommandLine) -> int:
    from ie_serving.app.engine_stack import engine_of
    from ie_serving.commands.check import check
    from ie_serving.config import credentials
    from ie_serving.config.files import access_file
    from ie_serving.server.gate.gate import Gate

    _limit_memory(parsed)
    # The report shows every cause, each under its signature.
    logging.getLogger(logs.OWN).setLevel(logging.CRITICAL)

    def read_files() -> None:
        server, left = parsed.settings.server, (Handover(), Handover())
        gate = Gate(
            server, credentials.read, access_file.read, certificates=left[0], callers=left[1]
        )
        if (expired := gate.expired()) and not parsed.lenient:
            raise ConfigError([expired])

    models, ignored, unknown = _with_directories(parsed)
    return check(
        replace(parsed.settings, models=models),
        engine_of,
        partial(open_storage, options=parsed.storage),
        at_start=read_files,
        without_effect=(*(() if parsed.lenient else (*parsed.warnings, *unknown)), *ignored),
        as_json=parsed.as_json,
    )


def _with_directories(
    parsed: ParsedCommandLine,
) -> tuple[tuple[ModelConfig, ...], list[str], list[str]]:
    """Give the models with those of directories; see `listed_once`."""
    from ie_serving.config.files.fleet_models import listed_once
    from ie_serving.models.fleet.repository import FILES
    from ie_serving.storage.backends.storage_opener import open_directories
    from ie_serving.storage.siblings import Neighbours

    def opened(url: str) -> Directories:
        return open_directories(url, FILES, parsed.storage, Neighbours())

    return listed_once(parsed.settings, opened)


def _limit_memory(parsed: ParsedCommandLine) -> None:
    """Apply the memory limit of requests to models that are loaded without a server."""
    from ie_serving.core.runtime.budget import BUDGET
    from ie_serving.core.runtime.machine_share import budget_of

    BUDGET.limit = budget_of(parsed.settings.server.memory_budget_bytes)


def _tune(parsed: ParsedCommandLine, asked: TuneSettings) -> int:
    from ie_serving.app.engine_stack import tools
    from ie_serving.commands.tune import tune

    _limit_memory(parsed)
    logging.getLogger(logs.OWN).setLevel(logging.CRITICAL)  # the table shows every cause
    (model,) = parsed.settings.models
    try:
        tune(model, asked, open_storage(model.base_path, options=parsed.storage), tools(model))
    except ServingError as error:
        print(f"ie_serving: error: {error}", file=sys.stderr)
        return NOT_TUNED
    return 0


def _build(
    settings: Settings, handovers: Handovers, notes: LoadNotes, *, storage: StorageOptions
) -> Application:
    from ie_serving.app.application import ServingApplication
    from ie_serving.app.workers import Workers

    workers = Workers()
    if settings.server.workers > 1:
        from ie_serving.app.several_workers import (
            SeveralWorkers,  # a single worker does not need it
        )

        workers = SeveralWorkers(handovers.configuration, settings.server)
    return ServingApplication(settings, storage, handovers, notes, workers)
