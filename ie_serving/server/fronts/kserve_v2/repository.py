"""Answers the calls of the repository for REST and gRPC: index, load, unload.

Source: Triton's `extension_model_repository.md`.
"""

from collections.abc import Mapping
from typing import Final

from ie_serving.core.values.errors import Forbidden, InvalidRequest, NotSupported
from ie_serving.core.values.hints import Hint
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.served import ServedModels
from ie_serving.wire.kserve.model_metadata import READY, UNAVAILABLE, ModelIndex, model_index

DEPENDENTS: Final = "unload_dependents"
_REPLACING: Final = ("config", "file:")
"""Beginnings of the parameters by which Triton's clients replace a configuration or files."""


class Repository:
    """The models of the configuration, as clients of the protocol see and change them.

    Args of the constructor:
        served: models that the caller may see.
        control: loads and unloads them.
        changes_allowed: whether clients may change the models.
    """

    def __init__(self, served: ServedModels, control: ModelControl, changes_allowed: bool) -> None:
        self._served = served
        self._control = control
        self._changes_allowed = changes_allowed

    async def index(self, *, ready: bool) -> list[ModelIndex]:
        """List every version of every model, and models that are not loaded.

        Args:
            ready: only versions that answer.
        """
        found = [
            model_index(name, status)
            for name, statuses in self._served.all_statuses().items()
            for status in statuses
        ]
        if ready:
            return [each for each in found if each.state == READY]
        unloaded = await self._control.unloaded()
        return [*found, *(ModelIndex(name, "", UNAVAILABLE, "unloaded") for name in unloaded)]

    async def load(self, name: str, parameters: Mapping[str, object]) -> None:
        """Load a model as the configuration has it. Raises: as `ModelControl.load`, Forbidden."""
        self._check(name)
        for each in parameters:
            if each.startswith(_REPLACING):
                raise NotSupported(
                    f'parameter "{each[:200]}" of a load is not supported: the settings of a model'
                    " are in the server's configuration, its files in its repository"
                )
            raise _unknown(each, "a load", "none")
        await self._control.load(name)

    async def unload(self, name: str, parameters: Mapping[str, object]) -> None:
        """Unload a model. Raises: as `ModelControl.unload`, Forbidden."""
        self._check(name)
        for each, value in parameters.items():
            if each != DEPENDENTS or not isinstance(value, bool):
                raise _unknown(each, "an unload", f'"{DEPENDENTS}", true or false')
            if value:
                raise NotSupported(
                    f'"{DEPENDENTS}": true is not supported: unload each model by its name'
                )
        await self._control.unload(name)

    def _check(self, name: str) -> None:
        self._served.entries.get(name)  # raises Forbidden where the caller may not ask for it
        if not self._changes_allowed:
            raise Forbidden(
                "changes of the models by request are switched off",
                Hint(": clients may make them with {server.reload_by_rpc}"),
            )


def _unknown(name: str, of: str, expected: str) -> InvalidRequest:
    return InvalidRequest(f'parameter "{name[:200]}" of {of} is unknown; expected {expected}')
