"""Write, of ONNX's own tests, the first model of each operator that OpenVINO reads."""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from onnx.backend.test.case.node import collect_testcases
from onnx.reference.ops import op_pool_common

CORE = ov.Core()


def unpooled(*given: Any, **_: object) -> Any:
    """Give zeros in the shape of `pool(padded, shape, kernel, strides, size of the output)`."""
    return np.zeros((*given[1][:2], *given[4]))


def main(directory: Path) -> None:
    # Nothing compares the answers of these models; those of pools take most of the time.
    op_pool_common.pool = unpooled
    with warnings.catch_warnings(action="ignore"):  # of numpy, of values at the ends
        cases = collect_testcases(None)
    for case in cases:
        (node, *more) = case.model.graph.node
        file = directory / node.op_type
        if not more and not node.domain and not file.exists():
            file.write_bytes(case.model.SerializeToString())
            try:
                CORE.read_model(f"{file}")
            except RuntimeError:
                file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
