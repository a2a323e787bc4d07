"""Runs signatures that no other engine accepts in a process of TensorFlow, where settings allow it.

The server imports the code for that process only when a signature needs it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import util
from pathlib import Path

from ie_serving.core.values.hints import Hint
from ie_serving.core.values.tensors import Signature
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.unsupported_settings import unsupported
from ie_serving.engines.process.child_process import Starts
from ie_serving.engines.run.program import RunnableSignature
from ie_serving.engines.tensorflow.options import TensorFlowOptions

LIBRARY = "tensorflow"
INSTALL = "pip install '.[tensorflow]'"
WITHOUT = "; TensorFlow could run it, but not with {settings}: leave that unset for this model"
LOST = re.compile(r'\b(BoostedTrees\w+) \("')
"""Finds, in a cause, operations whose kernel later releases of TensorFlow lack."""
NEITHER = "; TensorFlow has no kernel of {kind} any more"
ADVICE = Hint("; TensorFlow can run it in a process of its own: set {tensorflow.fallback}")


class TensorFlowFallback:
    """Takes signatures of a SavedModel that are left out. See `engines.run.program.Fallback`."""

    def __init__(self) -> None:
        self._starts = Starts()

    def take(
        self, directory: Path, left_out: Sequence[Signature], options: EngineOptions
    ) -> tuple[list[RunnableSignature], list[Signature]]:
        """Start a process for the signatures that TensorFlow can run as they were exported."""
        able, others = _sorted(left_out, options)
        if not able:
            return [], others
        is_installed = util.find_spec(LIBRARY) is not None
        if not options.of(TensorFlowOptions).fallback:
            advice = str(ADVICE)
            if advice and not is_installed:
                advice += f", and install it: {INSTALL}"
            return [], [*others, *(_with(each, _lost(each) or advice) for each in able)]
        if not is_installed:
            lacking = f"; TensorFlow would run it, and is not installed: {INSTALL}"
            return [], [*others, *(_with(each, lacking) for each in able)]
        from ie_serving.engines.tensorflow import tensorflow_program as program

        taken, refused = program.serve(directory, able, options, self._starts)
        return taken, [*others, *refused]

    def stop(self) -> None:
        """End processes that are still starting, since the server ends. Does not wait."""
        self._starts.end()


def _sorted(
    left_out: Sequence[Signature], options: EngineOptions
) -> tuple[list[Signature], list[Signature]]:
    """Give the signatures that TensorFlow can run, and the others, some with the reason."""
    able: list[Signature] = []
    others: list[Signature] = []
    for each in left_out:
        if not _able(each):
            others.append(each)
        elif asked := unsupported(options, each):  # enabling the fallback would not help
            others.append(_with(each, WITHOUT.format(settings=asked)))
        else:
            able.append(each)
    return able, others


def _lost(signature: Signature) -> str:
    """Say that TensorFlow lacks the operation too; empty where it may have it."""
    found = LOST.search(signature.left_out)
    return NEITHER.format(kind=found[1]) if found else ""


def _able(signature: Signature) -> bool:
    """Tell whether every tensor has a name to feed or fetch, and is fed once.

    Sparse tensors have none.
    """
    fed = [spec.tensor for spec in signature.inputs.values()]
    return all([*fed, *(spec.tensor for spec in signature.outputs.values())]) and (
        len(set(fed)) == len(fed)
    )


def _with(signature: Signature, more: str) -> Signature:
    return replace(signature, left_out=f"{signature.left_out}{more}")
