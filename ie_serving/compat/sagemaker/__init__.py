"""Amazon SageMaker: what it asks of a container, started by `ie_serving serve`."""

from ie_serving.core.compat import Additions


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        words={"serve": f"{__name__}.dialect:parse"}, routes=f"{__name__}.seams:with_routes"
    )
