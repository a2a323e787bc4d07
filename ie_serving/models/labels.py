"""Version labels: which may be assigned, and what one means. Pure.

Source: the label rules of ServerCore in TensorFlow Serving.
"""

from collections.abc import Collection, Mapping

from ie_serving.errors import PreconditionFailed, UnknownLabel


def version_of(labels: Mapping[str, int], label: str) -> int:
    """Resolve a label.

    Raises:
        UnknownLabel: it is not assigned.
    """
    version = labels.get(label)
    if version is None:
        known = ", ".join(sorted(labels)) or "none"
        raise UnknownLabel(
            f"Unrecognized servable version label: {label}; assigned labels of this model: {known}"
        )
    return version


def check_labels(
    model: str,
    wanted: Mapping[str, int],
    present: Mapping[str, int],
    available: Collection[int],
    *,
    unavailable_allowed: bool,
) -> None:
    """Refuse a label that names a version which does not serve.

    Args:
        model: model name, for the text.
        wanted: labels to assign.
        present: labels assigned now.
        available: versions that are AVAILABLE now.
        unavailable_allowed: lets a label that is new name any version; an assigned one is still
            moved only to a version that serves.

    Raises:
        PreconditionFailed: naming the label's version and the model.
    """
    for label, version in wanted.items():
        unchanged = present.get(label) == version
        new = label not in present
        if version in available or unchanged or (new and unavailable_allowed):
            continue
        raise PreconditionFailed(
            f"Request to assign label to version {version} of model {model}, which is not currently"
            f' available for inference: label "{label}" can be assigned once GetModelStatus shows'
            " the version as AVAILABLE"
        )
