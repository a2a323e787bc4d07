"""Settings that change what a model computes, and that only OpenVINO carries out.

It reshapes models, chooses their precision and puts steps before them. Whatever else runs a model
asks here what it would have to do, and refuses: to ignore it would answer other numbers, or take
other shapes, without a sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.openvino.reshape import ANY
from ie_serving.engines.preprocessing import Preprocessing

if TYPE_CHECKING:
    from ie_serving.core.values.tensors import Signature
    from ie_serving.engines.base import Dimension, EngineOptions

EVERYWHERE = ("", "f32")
"""Precisions that ask nothing: the engine's own choice, and what every engine computes in.
`tensorflow_model_server` asks for the latter wherever nothing else is said."""


def unsupported(options: EngineOptions, signature: Signature) -> str:
    """Name the settings that would have to be carried out; empty where there are none.

    Args:
        options: of the model.
        signature: as the model has it. A batch that is so already asks nothing.
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
