"""Collects the states of a server's models from its REST routes.

TensorFlow Serving reports the states of one named model. OpenVINO Model Server and this server also
report those of all models; only this server reports labels, default version and memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ie_serving.commands.remote.failures import ServerRefused, ServerSilent
from ie_serving.commands.remote.rest import RestPort
from ie_serving.core.values.versions import NOT_LOADED, without_unapplied
from ie_serving.wire.clients import model_path

AVAILABLE: Final = "AVAILABLE"
NO_SUCH: Final = (400, 404, 405, 501)
"""HTTP statuses of servers without the requested route, model, version or label."""
NONE_SEEN: Final = "no version has been seen yet"


@dataclass(frozen=True)
class ShownVersion:
    """One version.

    Attributes:
        memory: bytes; None if not known.
        precisions: float precision of each signature, where known.
    """

    number: int
    state: str
    cause: str = ""
    labels: tuple[str, ...] = ()
    is_default: bool = False
    memory: int | None = None
    precisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_on_demand(self) -> bool:
        """Whether it is known and loads at its first request."""
        return self.cause == NOT_LOADED


@dataclass(frozen=True)
class Model:
    """One model, its versions from the highest.

    Attributes:
        waiting: labels that do not serve yet.
        trouble: reason why no version can be found now, where that is known.
        not_applied: reason why newer settings cannot be used.
        configuration: reason why the server's configuration file is not applied.
    """

    name: str
    versions: tuple[ShownVersion, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""
    not_applied: str = ""
    configuration: str = ""

    @property
    def serves(self) -> bool:
        """Whether any version does, or is loaded by the first request."""
        return any(each.state == AVAILABLE or each.is_on_demand for each in self.versions)


def all_models(rest: RestPort) -> list[Model]:
    """Ask for every model. Raises: CommandFailure."""
    try:
        states = rest.json("/v1/config")
    except ServerRefused as error:
        if error.status not in NO_SUCH or error.wants_tls:
            raise
        raise ServerRefused(f"{error}; name a model to ask for that one", error.status) from None
    if not isinstance(states, dict):
        raise _odd(rest)
    details = _details(rest, "/v1/config/details")
    return [_model(rest, name, states[name], details.get(name, {})) for name in sorted(states)]


def budget(rest: RestPort) -> Mapping[str, int]:
    """Ask for the budget of models on demand; empty without one.

    Returns:
        `limit` and `held`, bytes of the worker that is asked, and how many `workers` there are.
    """
    try:
        server = rest.json("/page/state")["server"]
        return {**server["budget"], "workers": server["workers"]} if server["budget"] else {}
    except (ServerRefused, LookupError, TypeError):
        return {}  # the page is off, or not for this caller


def one_model(rest: RestPort, name: str) -> Model:
    """Ask for one model.

    Raises:
        CommandFailure: no reply, or an unknown model; the text suggests the nearest name.
    """
    path = model_path(name)
    try:
        state = rest.json(path)
    except ServerRefused as error:
        raise named(rest, name, error) from None
    return _model(rest, name, state, _details(rest, f"{path}/details"))


def named(rest: RestPort, name: str, error: ServerRefused) -> ServerRefused:
    """Add to a 404 the nearest names among the server's models."""
    if error.status != 404:
        return error
    try:
        known = list(rest.json("/v1/models")["models"])
    except (ServerRefused, ServerSilent, LookupError, TypeError):
        return error  # a server without a list, or a caller who may not see it
    from ie_serving.core.values.hints import nearest

    return ServerRefused(f"{error}{nearest(name, known)}" if name not in known else str(error), 404)


def _odd(rest: RestPort) -> ServerSilent:
    return ServerSilent(
        f"{rest.address.url} answers something else than states of versions: give the REST port of"
        " a server of TensorFlow Serving's API"
    )


def _details(rest: RestPort, path: str) -> Mapping[str, Any]:
    try:
        found = rest.json(path)
    except ServerRefused as error:
        # 403: a caller with rights for one model may lack them for the list.
        if error.status in (*NO_SUCH, 403):
            return {}
        raise
    return found if isinstance(found, dict) else {}


def _model(rest: RestPort, name: str, state: Any, details: Mapping[str, Any]) -> Model:  # noqa: ANN401
    labels: dict[int, list[str]] = {}
    for label, number in sorted(details.get("labels", {}).items()):
        labels.setdefault(int(number), []).append(label)
    memory, precisions = details.get("memory_bytes", {}), details.get("precisions", {})
    try:
        versions = tuple(
            ShownVersion(
                number=int(each["version"]),
                state=str(each["state"]),
                cause=_cause(each.get("status", {}), has_details=bool(details)),
                labels=tuple(labels.get(int(each["version"]), ())),
                is_default=int(each["version"]) == details.get("default_version"),
                memory=memory.get(str(each["version"])),
                precisions=precisions.get(str(each["version"]), {}),
            )
            for each in state["model_version_status"]
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        raise _odd(rest) from None
    return Model(
        name,
        versions,
        details.get("waiting_labels", {}),
        str(details.get("listing_failed", "")),
        str(details.get("settings_not_applied", "")),
        str(details.get("configuration_not_applied", "")),
    )


def _cause(status: Mapping[str, Any], *, has_details: bool) -> str:
    """Give the message of a status, without what the model's details tell as well.

    OpenVINO Model Server's message of a good status is "OK".
    """
    message = str(status.get("error_message", ""))
    if has_details:
        message = without_unapplied(message)
    return "" if message == "OK" else message
