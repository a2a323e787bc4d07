"""Konduit Serving: its configuration files, pipelines, data and route."""

from typing import Final

from ie_serving.core.compat import Additions

FILE: Final = "konduit.json"
"""A version that is a pipeline holds it under this name."""


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        config_file=f"{__name__}.config_file:config_file",
        importing=f"{__name__}.seams:translated",
        drivers=f"{__name__}.seams:drivers",
        kernels={FILE: f"{__name__}.pipeline.driver:opened"},
        models_of=f"{__name__}.seams:models_of",
        routes=f"{__name__}.seams:with_routes",
        tensors=f"{__name__}.marked:decoded",
    )
