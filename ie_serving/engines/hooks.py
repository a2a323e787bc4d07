"""Options of a model with hooks, or of a chain of models. Settings hold them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import FILE, Place


@dataclass(frozen=True, kw_only=True)
class ChainedModel:
    """One model of a chain: a `--model-path` of kibernetika-serving with its `--driver`.

    Attributes:
        driver: as the user wrote it, for hooks that read it.
        path: of a file, or of a directory with the files of one version.
        options: how it is compiled, its driver included; hooks do not change them.
        weights: file that a `.xml` reads its weights from; empty: the one beside it.
        signature: of the model; empty for `serving_default`.
        outputs: the model's outputs to return; empty for all.
        flexible: a request may have more rows, or fewer, than the model's fixed batch.
    """

    driver: str
    path: str
    options: EngineOptions = field(default_factory=EngineOptions)
    weights: str = ""
    signature: str = ""
    outputs: tuple[str, ...] = ()
    flexible: bool = False


@dataclass(frozen=True, kw_only=True)
class HookOptions:
    """Python code around a model."""

    place: Place | None = FILE.setting(
        None,
        "Python code around the model, preprocess, postprocess or process as of"
        " kibernetika-serving, in the version directory, else beside the configuration, or"
        " absolute; needs allow_python",
        "hooks.py",
        shown="none",
        word="hooks",
    )
    """None: there is none."""

    chain: tuple[ChainedModel, ...] = ()
    """Models that answer one after the other, in place of the version's files; empty: these."""
