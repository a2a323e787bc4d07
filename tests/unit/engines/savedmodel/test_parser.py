"""What a parsing node says of its features is read, or refused with the node's name."""

import numpy as np
import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.example_features import (
    ExampleFeatures,
    ExampleParser,
    SequenceFeatures,
)
from ie_serving.wire.protobuf import graph

RESOURCE = 20
"""`DT_RESOURCE`, which no request can carry."""


@pytest.mark.parametrize(
    ("kind", "operation", "attribute"),
    [
        pytest.param(ExampleFeatures, "ParseExampleV2", "Tdense", id="Example"),
        pytest.param(
            SequenceFeatures, "ParseSequenceExample", "Tcontext_dense", id="SequenceExample"
        ),
    ],
)
def test_a_feature_of_an_unknown_dtype_is_refused(
    kind: type[ExampleParser], operation: str, attribute: str
) -> None:
    node = graph.NodeDef(name="parse", op=operation)
    node.attr[attribute].list.type.append(RESOURCE)
    with pytest.raises(LoadFailed, match=f"{operation} 'parse' has a feature of dtype number 20"):
        kind(node, lambda number: np.array([], np.object_))
