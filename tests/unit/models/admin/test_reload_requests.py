"""The reload that a client asks for; `tests/functional/test_config_api.py` has it over REST."""

from typing import cast

import pytest

from ie_serving.core.values.errors import ConfigError
from ie_serving.models.admin.reload_requests import ReloadRequests
from ie_serving.models.manager import ModelManager
from ie_serving.models.stream import ModelStream


class NoModels:
    """A manager of nothing."""

    def streams(self) -> list[tuple[str, ModelStream]]:
        return []


async def no_poll(model: str) -> None:
    """There is none to list."""


async def test_a_fault_of_the_file_is_told_without_credentials() -> None:
    async def broken() -> bool:
        raise ConfigError(["base_path: 's3://key:hush@bucket' given; expected another"])

    reload = ReloadRequests(cast(ModelManager, NoModels()), no_poll, broken)
    with pytest.raises(ConfigError) as caught:
        await reload()
    assert str(caught.value) == (
        "Reloading config file failed. Check server logs for more info."
        " base_path: 's3://***@bucket' given; expected another"
    )
