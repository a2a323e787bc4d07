"""Paths of TensorFlow Serving's REST API. Pure, with few imports: commands begin with it."""

from urllib.parse import quote


def model_path(name: str, version: int | None = None, label: str | None = None) -> str:
    """Give the path of a model, of a version of it, or of the version with a label."""
    path = f"/v1/models/{quote(name, safe='')}"
    if version is not None:
        return f"{path}/versions/{version}"
    return path if label is None else f"{path}/labels/{quote(label, safe='')}"
