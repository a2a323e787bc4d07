"""IBM EDI (Deep Learning Impact): packages with `model.json`, and the route of its clients."""

from ie_serving.core.compat import Additions


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        drivers=f"{__name__}.seams:drivers",
        kernels={"model.json": f"{__name__}.package.kernel:opened"},
        raw_kernels=f"{__name__}.seams:takes_whole_body",
        routes=f"{__name__}.seams:with_routes",
    )
