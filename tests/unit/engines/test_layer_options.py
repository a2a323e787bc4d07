"""Sizes of batches: text and JSON mean the same, and they increase."""

import pytest

from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.layer_options import batch_sizes


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ([1, 8, 32], (1, 8, 32)),
        ("[1, 8, 32]", (1, 8, 32)),
        (" 1,8,32 ", (1, 8, 32)),
        ([" 4"], (4,)),
        ("16", (16,)),
        ([], ()),
        ("", ()),
        ("[]", ()),
    ],
)
def test_sizes(value: object, meant: tuple[int, ...]) -> None:
    assert batch_sizes(value, "p") == meant


@pytest.mark.parametrize("value", [8, None, {"a": 1}, [8, 4], [4, 4], [0, 1], "4;8", [1.5], [True]])
def test_a_value_that_is_no_sizes_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="p: "):
        batch_sizes(value, "p")
