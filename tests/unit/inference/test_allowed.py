"""A caller of some models finds no others, whatever is asked and whatever stands before them."""

from collections.abc import Callable
from typing import Any

import pytest

from ie_serving.core.values.access import Principal, Right
from ie_serving.core.values.errors import Forbidden, NotFound
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.served_models import AllowedModels, ServedModels
from tests.unit.inference.stand_ins import MODEL, Heart

OF_OTHERS = Principal(name="zoe", rights=Right.READ, models=("other",))
OF_IT = Principal(name="alice", rights=Right.READ, models=("oth*", MODEL))
VIEWS: dict[str, Callable[[ServedModels], ServedModels]] = {
    "alone": lambda models: models,
}
ASKED: dict[str, Callable[[ServedModels, str], Any]] = {
    "handle": lambda models, name: models.handle(ModelSpec(name)),
    "handle by label": lambda models, name: models.handle(ModelSpec(name, label="stable")),
    "statuses": lambda models, name: models.statuses(name),
    "status of a version": lambda models, name: models.statuses(name, 3),
    "entry": lambda models, name: models.entry(name),
    "label": lambda models, name: models.resolve_label(name, "stable"),
    "ready": lambda models, name: models.is_ready(ModelSpec(name)),
}


async def models_of(caller: Principal, view: str) -> ServedModels:
    return VIEWS[view](AllowedModels(Heart().models(), caller))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("asked", ASKED)
async def test_a_caller_of_other_models_is_refused(asked: str, view: str) -> None:
    models = await models_of(OF_OTHERS, view)
    for name in (MODEL, "", "nonsense"):
        with pytest.raises(Forbidden):
            ASKED[asked](models, name)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("asked", ASKED)
async def test_a_caller_of_the_model_is_answered(asked: str, view: str) -> None:
    models = await models_of(OF_IT, view)
    assert ASKED[asked](models, MODEL)


@pytest.mark.parametrize("view", VIEWS)
async def test_errors_name_no_models_of_others(view: str) -> None:
    models = await models_of(OF_OTHERS, view)
    with pytest.raises(NotFound, match="served models: none"):
        models.handle(ModelSpec("other"))
    assert models.names() == []
    assert models.all_statuses() == {}
