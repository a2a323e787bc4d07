"""Models of these tests are compiled for one thread, as the server chooses for nearly all."""

import ctypes
from collections.abc import Iterator

import pytest

from ie_serving.engines.openvino.compiling import threads_choice
from ie_serving.engines.run import latency_model

# No lists of small blocks, as in a server that loads: a compile takes a tenth less. mallopt(3)
ctypes.CDLL(None).mallopt(1, 0)


@pytest.fixture(autouse=True, scope="module")
def one_thread_is_chosen() -> Iterator[None]:
    """Infer twice instead of up to a hundred times, and take one thread below 0.3 s.

    The rest of the choice is as ever. `compiling`, where the choice is tested, measures.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads_choice, "REQUEST_S", 1.0)
        patch.setattr(latency_model, "MOST_REPEATS", 1)
        patch.setattr(latency_model, "REPEATS", 1)
        patch.setattr(latency_model, "DOUBTFUL_S", 0.0)
        yield
