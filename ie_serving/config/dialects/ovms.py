"""Translates flags of OpenVINO Model Server's command line to ours.

Its keys and flags without effect here are in `schema/foreign.py`.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

from ie_serving.config.files.json_file import METRICS_PATH, OVMS_FAMILIES, known_metrics
from ie_serving.config.settings import ServerSettings
from ie_serving.core.settings import numbers, words
from ie_serving.core.settings.faults import Faults

METRICS_ENABLE = "metrics_enable"
METRICS_LIST = "metrics_list"
OLD_WORKERS = ("grpc_workers", "rest_workers", "max_workers")
"""Threads of the servers of 2020 and 2018, servers within one process of OpenVINO Model Server."""
_AS_WORKERS = "as --workers, but for one process for each processor at most"

ALIASES: Mapping[str, str] = {
    **dict.fromkeys(OLD_WORKERS, _AS_WORKERS),
    METRICS_ENABLE: f"false serves no metrics, true serves them at {METRICS_PATH} (see"
    " --metrics_path), those of OpenVINO Model Server alone",
    METRICS_LIST: "names of metrics, by commas: only these are served",
}
"""Its flags with the meaning of one of our flags."""


def is_meant(argv: Sequence[str]) -> bool:
    """Tell whether a command line is OpenVINO Model Server's, which begins with a flag."""
    return bool(argv) and argv[0].startswith("--")


def with_command(argv: Sequence[str]) -> list[str]:
    """Put `config` or `model` first, which OpenVINO Model Server's command lines lack."""
    names = {argument.partition("=")[0] for argument in argv}
    if not is_meant(argv):
        return list(argv)
    given = [*argv, *_without_grpc(argv, names)]
    if names & {"--config_path", "--model_repository"}:
        return ["config", *given]
    return ["model", *given] if names & {"--model_name", "--model_path"} else list(argv)


# OpenVINO Model Server serves gRPC only if its port is given; here the port has a default, which
# must not conflict with a REST port of the same number.
def _without_grpc(argv: Sequence[str], names: Collection[str]) -> list[str]:
    taken = str(ServerSettings().port)
    follows = ("--rest_port", taken) in itertools.pairwise(argv)
    is_taken = follows or f"--rest_port={taken}" in argv
    return ["--port=0"] if is_taken and "--port" not in names else []


def workers(given: Mapping[str, str], processors: int, faults: Faults) -> tuple[int, list[str]]:
    """Give the number of workers that old flags set, 1 without any, and the warnings.

    More processes than processors gain nothing, and each has every model in memory.
    """
    asked = [name for name in OLD_WORKERS if name in given]
    read = numbers.integer(0, 10_000)
    found = [faults.take(read, given[name], f"--{name}") or 1 for name in asked]
    taken = max(1, min(max(found, default=1), processors))
    flags = " and ".join(f"--{name}" for name in asked)
    said = f"{flags}: taken for --workers {taken}; there is one process for each processor at most"
    return taken, [said] if asked else []


def not_taken(given: Mapping[str, str], why: str) -> str:
    """Give the warning that one worker serves despite old flags for several."""
    flags = " and ".join(f"--{name}" for name in OLD_WORKERS if name in given)
    return f"{flags}: one process serves, since {why}"


def metrics_enabled(given: Mapping[str, str], in_file: bool | None, faults: Faults) -> bool | None:
    """Tell whether a flag, or else the file, enables metrics; None if neither says so."""
    if METRICS_ENABLE not in given:
        return in_file
    return bool(faults.take(words.boolean, given[METRICS_ENABLE], f"--{METRICS_ENABLE}"))


def families(given: Mapping[str, str], in_file: tuple[str, ...], faults: Faults) -> tuple[str, ...]:
    """Give the metrics that a flag, or else the file, chooses; all of that server's by default."""
    named = in_file
    if METRICS_LIST in given:
        parts = tuple(part.strip() for part in given[METRICS_LIST].split(",") if part.strip())
        named = faults.take(known_metrics, parts, f"--{METRICS_LIST}") or ()
    return named or (OVMS_FAMILIES,)
