"""The stream of docs/guide/streams.md, as it is printed there, in a thread and in a process."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.requests import Caller
from tests.unit.engines.python.kernels import served

PAGE = (Path(__file__).parents[4] / "docs" / "guide" / "streams.md").read_text()
(PEAKS,) = re.findall(r"```python\n(class Peaks:.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_the_peaks_of_the_docs(tmp_path: Path, isolation: str) -> None:
    model = served(tmp_path, PEAKS, isolation=isolation)

    async def items() -> AsyncIterator[Any]:
        for values in ([1.0], [], [3.0, 0.0], [2.0]):
            yield {"x": np.array(values, np.float32)}

    try:
        assert model.stream is not None
        (signature,) = model.signatures.values()
        replies = model.stream(signature, items(), lambda found: found["peak"].tolist(), Caller())
        assert [each async for each in replies] == [[3.0], [2.0]]
    finally:
        model.close()
