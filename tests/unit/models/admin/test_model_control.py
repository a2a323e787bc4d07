"""Loads of models that clients ask for, where another call comes between."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ie_serving.core.values.errors import NotFound, PreconditionFailed
from ie_serving.models.admin.model_control import ModelControl
from ie_serving.models.configuration import ModelConfig
from ie_serving.models.manager import ModelManager


@pytest.mark.parametrize("is_listed", [False, True], ids=["before it is listed", "afterwards"])
def test_a_load_says_that_another_call_has_unloaded_the_model(is_listed: bool) -> None:
    config = ModelConfig(name="m", base_path="/models/m")
    entries: dict[str, Any] = {"m": SimpleNamespace(config=config)}
    models = SimpleNamespace(served=SimpleNamespace(entries=entries), streams=list)

    async def configured() -> Sequence[ModelConfig]:
        return [config]

    async def change(*_: object, **__: object) -> None:
        pass

    async def poll(name: str) -> None:
        del entries[name]
        if not is_listed:
            raise NotFound(f"Could not find any versions of model {name}")

    control = ModelControl(cast(ModelManager, models), change, configured, poll, is_explicit=True)
    with pytest.raises(PreconditionFailed, match="unloaded by another call"):
        asyncio.run(control.load("m"))
