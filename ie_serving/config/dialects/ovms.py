"""What a command line of OpenVINO Model Server says in other words than ours.

Its keys and flags without effect here are in `schema/foreign.py`.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

from ie_serving.config.files.json_file import METRICS_PATH
from ie_serving.config.settings import ServerSettings
from ie_serving.config.values import words
from ie_serving.config.values.faults import Faults

METRICS_ENABLE = "metrics_enable"

ALIASES: Mapping[str, str] = {
    METRICS_ENABLE: f"false serves no metrics, true serves them at {METRICS_PATH} (see"
    " --metrics_path)",
}
"""Its flags that say in other words what a flag of ours says."""


def with_command(argv: Sequence[str]) -> list[str]:
    """Put `config` or `model` first where it is left out: the original has no such words."""
    names = {argument.partition("=")[0] for argument in argv}
    if not argv or not argv[0].startswith("--"):
        return list(argv)
    given = [*argv, *_without_grpc(argv, names)]
    if "--config_path" in names:
        return ["config", *given]
    return ["model", *given] if names & {"--model_name", "--model_path"} else list(argv)


# The original serves gRPC only where its port is given; here it has a default, which must not stand
# in the way of a REST port of the same number.
def _without_grpc(argv: Sequence[str], names: Collection[str]) -> list[str]:
    taken = str(ServerSettings().port)
    follows = ("--rest_port", taken) in itertools.pairwise(argv)
    is_taken = follows or f"--rest_port={taken}" in argv
    return ["--port=0"] if is_taken and "--port" not in names else []


def metrics_enabled(given: Mapping[str, str], in_file: bool | None, faults: Faults) -> bool | None:
    """Tell whether metrics are asked for, by flag or else by the file; None where neither says."""
    if METRICS_ENABLE not in given:
        return in_file
    return bool(faults.take(words.boolean, given[METRICS_ENABLE], f"--{METRICS_ENABLE}"))
