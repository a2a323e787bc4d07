"""kibernetika-serving: its command, chains of models with hooks, and `POST /predict`."""

from ie_serving.app.main import as_other
from ie_serving.core.compat import Additions


def register() -> Additions:
    """See `core.compat`."""
    return Additions(
        around=f"{__name__}.seams:around",
        routes=f"{__name__}.seams:with_routes",
        one_model=f"{__name__}.any_model:answering_for",
    )


def main() -> int:
    """Run as `kibernetika-serving` and `kserving` do; return the exit code."""
    return as_other("kibernetika-serving", f"{__name__}.dialect:parse")
