"""A model that keeps its answers gives them to equal requests, over both interfaces."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.functional.conftest import Serve
from tests.functional.servers import SAMPLE, Server, config_flag
from tests.functional.test_digits import IMAGES, over_grpc, over_rest

MISSES = 'ie_serving_response_cache_misses_total{model_name="digits"}'
HITS = 'ie_serving_response_cache_hits_total{model_name="digits"}'


@pytest.fixture
def caching(tmp_path: Path, serve: Serve) -> Server:
    entry = {
        "name": "digits",
        "base_path": str(SAMPLE),
        "model_version_policy": {"all": {}},
        "response_cache_bytes": 1 << 20,
        "inference_precision": "f32",
    }
    return serve("ie_serving", "config", config_flag(tmp_path / "config.json", entry))


def test_equal_requests_share_an_answer_whichever_interface_they_come_over(
    caching: Server, digits: Server
) -> None:
    before = caching.sample(MISSES)
    asks: list[Any] = [over_grpc, over_rest]
    for image in (IMAGES[:1], IMAGES[1:2], IMAGES[:5]):
        expected = over_grpc(digits, 2, image)
        for ask in asks * 2:
            got = ask(caching, 2, image)
            np.testing.assert_allclose(got["probabilities"], expected["probabilities"], atol=1e-7)
    assert caching.sample(MISSES) - before == 3
    assert caching.sample(HITS) == 9


def test_each_version_has_its_own_answers(caching: Server, digits: Server) -> None:
    for _ in range(2):
        for version in (1, 2):
            got = over_grpc(caching, version, IMAGES[:1])["probabilities"]
            np.testing.assert_array_equal(
                got, over_grpc(digits, version, IMAGES[:1])["probabilities"]
            )


def test_equal_requests_at_a_time_are_computed_once(caching: Server) -> None:
    before = caching.sample(MISSES)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: over_grpc(caching, 2, IMAGES)["digit"].tolist(), range(32)))
    assert all(each == found[0] for each in found)
    assert caching.sample(MISSES) - before == 1


def test_an_error_is_not_kept(caching: Server) -> None:
    body = {"instances": [[0.0] * 63]}
    for _ in range(2):
        assert caching.rest.post("/v1/models/digits:predict", json=body).status_code == 400
