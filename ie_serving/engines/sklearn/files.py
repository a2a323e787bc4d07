"""Reads estimators: skops files, whose types are checked, and pickles, if settings allow them."""

import logging
import warnings
from pathlib import Path
from typing import Any

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.hints import Hint
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.run.function import needed, one_line, reading
from ie_serving.telemetry.log.logs import Event

log = logging.getLogger(__name__)

SKOPS = ".skops"
LIBRARY, EXTRA = "scikit-learn", "sklearn"
CONSENT = Hint("; to trust whoever writes these models, set {engine.allow_pickle}")


def read(file: Path, options: EngineOptions) -> Any:  # noqa: ANN401  any estimator
    """Read the object of a file.

    Raises:
        LoadFailed: a library is missing, the file is broken, or it is a pickle and these are not
            allowed.
    """
    with warnings.catch_warnings(record=True) as caught, reading(LIBRARY, file.name):
        # By default Python would not repeat a warning that an earlier model caused.
        warnings.simplefilter("always")
        found = _skops(file, options) if file.suffix == SKOPS else _pickle(file, options)
    for cause in sorted({one_line(each.message) for each in caught if _is_of_version(each)}):
        log.warning(Event("model of another version of its library", file=file, cause=cause))
    return found


def _pickle(file: Path, options: EngineOptions) -> Any:  # noqa: ANN401
    if not options.allow_pickle:
        raise LoadFailed(
            f"{file.name} is a pickle: to read it may run any code, so it is not read; save the"
            " model by skops.io.dump as *.skops, or as ONNX",
            CONSENT,
        )
    with needed("joblib", EXTRA, file.name):
        import joblib
    return joblib.load(file)


def _skops(file: Path, options: EngineOptions) -> Any:  # noqa: ANN401
    with needed("skops", EXTRA, file.name):
        from skops import io
    unknown = io.get_untrusted_types(file=file)
    if unknown and not options.allow_pickle:
        listed = ", ".join(unknown)
        raise LoadFailed(
            f"{file.name} holds types that skops does not know to be harmless: {listed}", CONSENT
        )
    return io.load(file, trusted=unknown)


def _is_of_version(warning: warnings.WarningMessage) -> bool:
    return warning.category.__name__ == "InconsistentVersionWarning"
