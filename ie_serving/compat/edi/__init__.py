"""IBM EDI (Deep Learning Impact): packages with `model.json`, and the route of its clients."""

from ie_serving.core.compat import Additions


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        drivers=f"{__name__}.seams:drivers",
        kernels={"model.json": f"{__name__}.package.kernel:opened"},
        foreign_kernels=f"{__name__}.seams:is_package",
        token_headers=("x-auth-token", "x-user-token"),
        routes=f"{__name__}.seams:with_routes",
    )
