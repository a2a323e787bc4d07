"""TensorFlow's own part of a model's options. Settings hold it, so nothing heavy is imported."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TensorFlowOptions:
    """Whether TensorFlow may run what nothing else here can, and with what."""

    fallback: bool = False
    """Off unless asked for: a process of TensorFlow takes half a gigabyte and seconds to start."""

    custom_op_paths: tuple[str, ...] = ()
    """Libraries of operations that are loaded before the model."""

    memory_bytes: int = 0
    """Private memory that the process may take; 0 sets no limit."""
