"""Version labels: checks wanted labels, assigns them, and resolves one to its version. Pure.

Source: the label rules of ServerCore in TensorFlow Serving.
"""

from collections.abc import Collection, Mapping

from ie_serving.core.values.errors import PreconditionFailed, UnknownLabel, advised


def version_of(labels: Mapping[str, int], label: str) -> int:
    """Resolve a label.

    Raises:
        UnknownLabel: it is not assigned.
    """
    version = labels.get(label)
    if version is None:
        known = ", ".join(sorted(labels)) or "none"
        raise UnknownLabel(
            advised(
                f"Unrecognized servable version label: {label}",
                f"; assigned labels of this model: {known}",
            )
        )
    return version


def assigned(
    wanted: Mapping[str, int], before: Mapping[str, int], available: Collection[int], *, wait: bool
) -> dict[str, int]:
    """Give the labels that requests may use.

    Args:
        wanted: labels of the configuration.
        before: labels that were assigned until now. One that keeps its version stays, also when
            the version is gone, so that a request's error names the version, not the label.
        available: versions that are AVAILABLE now.
        wait: whether a label waits until its version is AVAILABLE. An assigned label keeps its old
            version meanwhile.
    """
    now = {
        label: version if not wait or version in available else before.get(label)
        for label, version in wanted.items()
    }
    return {label: version for label, version in now.items() if version is not None}


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
        present: labels wanted until now; those that still wait count too.
        available: versions that are AVAILABLE now.
        unavailable_allowed: lets a label that is new name any version; an assigned one is still
            moved only to a version that serves.

    Raises:
        PreconditionFailed: naming the label's version and the model.
    """
    for label, version in wanted.items():
        # A label allowed once stays allowed: a version that is gone must not block other changes.
        unchanged = present.get(label) == version
        new = label not in present
        if version in available or unchanged or (new and unavailable_allowed):
            continue
        raise PreconditionFailed(
            advised(
                f"Request to assign label to version {version} of model {model}, which is not"
                " currently available for inference",
                f': label "{label}" can be assigned once GetModelStatus shows the version as'
                " AVAILABLE",
            )
        )
