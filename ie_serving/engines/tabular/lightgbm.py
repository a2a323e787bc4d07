"""Serves LightGBM's own files: text, as `Booster.save_model` writes it.

The head of a file gives the bytes of each tree (`tree_sizes`); the trees follow, then the line
`end of trees`. Of a truncated file LightGBM may end the process: `check_whole` refuses it first.
"""

import logging
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array, Arrays, DataType
from ie_serving.engines import driver_params
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, reading
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.engines.run.threads import threads
from ie_serving.engines.tabular import rows
from ie_serving.engines.tabular.rows import TensorForm, X, Y, compiled, labelled

LIBRARY = "lightgbm"
CLASSIFIES = ("binary", "multiclass", "multiclassova")
"""Objectives whose values are probabilities."""

_SIZES = re.compile(rb"^tree_sizes=([0-9 ]+)\r?$", re.MULTILINE)
_END = b"end of trees"


def load(file: Path, options: EngineOptions) -> CompiledPrograms:
    """Make the model of a file. See `engines.drivers.LoadDirectory`."""
    driver_params.check_known(options, (), LIBRARY)
    with needed(LIBRARY, LIBRARY, file.name):
        import lightgbm
    lightgbm.register_logger(logging.getLogger(LIBRARY))  # else it writes to standard output
    with reading(LIBRARY, file.name):
        check_whole(file.read_bytes(), file.name)
        booster = lightgbm.Booster(model_file=str(file))
        form = _form(booster)
    predict = partial(_predict, booster, bool(form.classes))
    refusals = (lightgbm.basic.LightGBMError,)
    return compiled(form, predict, options, library=LIBRARY, refusals=refusals)


def check_whole(content: bytes, file: str) -> None:
    """Refuse a file that ends before its trees do. Raises: LoadFailed."""
    head, found, _ = content.partition(b"\nTree=0")
    if _END not in content:
        raise LoadFailed(
            f'{file} was cut, since the line "{_END.decode()}" is missing: upload it again'
        )
    sizes = _SIZES.search(head)
    if not found or sizes is None:  # no trees, or an old format, which is read line by line
        return
    at = len(head) + 1
    for number, size in enumerate(map(int, sizes[1].split())):
        if not content.startswith(b"Tree=%d" % number, at):
            raise LoadFailed(
                f"{file} is damaged, since tree {number} is not where its head says:"
                " upload it again"
            )
        at += size
    if not content.startswith(_END, at):
        raise LoadFailed(
            f"{file} is damaged, since its trees do not end where its head says: upload it again"
        )


def _form(booster: Any) -> TensorForm:  # noqa: ANN401  the library's
    inputs = rows.matrix(booster.num_feature(), DataType.FP64)
    # One tree is dumped: a dump of all takes much more memory than the model itself.
    objective = booster.dump_model(num_iteration=1).get("objective", "").partition(" ")[0]
    if objective in CLASSIFIES:
        classes = max(booster.num_model_per_iteration(), 2)
        outputs = rows.classified(DataType.INT64, DataType.FP64, classes)
        return TensorForm(inputs, outputs, rows.names_of(range(classes)))
    sample = _run(booster, np.zeros((1, booster.num_feature())))
    return TensorForm(inputs, rows.values(DataType.FP64, *sample.shape[1:]))


def _predict(booster: Any, classifies: bool, inputs: Arrays) -> Arrays:  # noqa: ANN401
    found = _run(booster, inputs[X])
    return labelled(found) if classifies else {Y: found}


def _run(booster: Any, x: Array) -> Array:  # noqa: ANN401
    return np.asarray(booster.predict(x, num_threads=threads()))
