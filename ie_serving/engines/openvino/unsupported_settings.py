"""Names the settings that change a model's computation and that only OpenVINO supports.

OpenVINO reshapes models, chooses their precision and adds steps before them. Every other engine
calls this module and refuses a model with such settings: ignoring a setting would silently give
other numbers, or accept other shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reshape import ANY
from ie_serving.engines.preprocessing import Preprocessing

if TYPE_CHECKING:
    from ie_serving.core.settings.numbers import Dimension
    from ie_serving.core.values.tensors import Signature
    from ie_serving.engines.base import EngineOptions

EVERYWHERE = ("", "f32")
"""Precisions that every engine supports: its own choice, and f32, the default of
`tensorflow_model_server`."""


def unsupported(options: EngineOptions, signature: Signature) -> str:
    """Name the settings that need OpenVINO; empty where there are none.

    Args:
        options: options of the model.
        signature: signature of the model. A batch equal to the model's own needs nothing.
    """
    own, steps = options.of(OpenVinoOptions), options.of(Preprocessing)
    asked = {
        "shape": own.shape is not None,
        "batch_size": own.batch_size is not None and not _has_batch(signature, own.batch_size),
        "inference_precision": own.inference_precision not in EVERYWHERE,
        steps.asked: bool(steps.asked),
    }
    return ", ".join(name for name, is_asked in asked.items() if is_asked)


def refuse_unsupported(options: EngineOptions, signature: Signature, library: str) -> None:
    """Refuse a model of `library` for which anything is set that only OpenVINO carries out.

    Raises:
        LoadFailed: naming the settings.
    """
    asked = unsupported(options, signature)
    if asked:
        raise LoadFailed(
            f"{asked}: {library}, which runs this model, takes it as it was exported and computes"
            " in its own precision; export the model so, and remove the setting"
        )


# Most exports leave the batch open, and `auto`, which many configurations say, is true of them. An
# input of unknown rank takes any batch, too.
def _has_batch(signature: Signature, size: Dimension) -> bool:
    shapes = [spec.shape for spec in signature.inputs.values()]
    batches = {shape[0] if shape else ANY for shape in shapes if shape != ()}
    return batches <= {size}
