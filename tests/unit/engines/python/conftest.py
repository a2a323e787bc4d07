"""Kernels that are closed with their test."""

from collections.abc import Iterator

import pytest

from ie_serving.engines.python.kernel_model import KernelModel


@pytest.fixture
def opened() -> Iterator[list[KernelModel]]:
    models: list[KernelModel] = []
    yield models
    for model in models:
        model.close()
