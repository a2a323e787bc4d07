"""TensorFlow's part of a model's options. Settings import it, so it imports nothing heavy."""

from dataclasses import dataclass

from ie_serving.core.settings import words
from ie_serving.core.settings.declaration import BOOLEAN, BYTES, SettingKind


@dataclass(frozen=True, kw_only=True)
class TensorFlowOptions:
    """Whether TensorFlow may run signatures that no other engine can, and with which libraries."""

    # Off: it takes half a gigabyte and seconds, and a refusal by OpenVINO should be noticed.
    fallback: bool = BOOLEAN.setting(
        False,
        "let TensorFlow run the signatures of a SavedModel that nothing else here can, in a"
        " process of its own; needs the extra tensorflow",
        word="tensorflow_fallback",
        tfs="tensorflow_fallback",
        for_all=True,
    )
    """Off by default: a TensorFlow process takes half a gigabyte, and seconds to start."""

    custom_op_paths: tuple[str, ...] = SettingKind(words.files, "FILE,..").setting(
        (),
        "libraries of custom operations that TensorFlow's process loads",
        "zero_out.so",
        shown="none",
        tfs="custom_op_paths",
        for_all=True,
    )
    memory_bytes: int = BYTES.setting(
        0,
        "private memory in bytes that TensorFlow's process of one version may take; 0 sets no"
        " limit",
        "4294967296",
        word="tensorflow_memory_bytes",
        tfs="tensorflow_memory_bytes",
        for_all=True,
    )
