"""Writes `linear.pdmodel` and `linear.pdiparams`, y = x w + b, beside this file.

    pip install paddlepaddle
    python tests/functional/formats/make_paddle.py

They are committed, since the library takes a gigabyte. Made with paddlepaddle 3, whose own format
since then is another one, which OpenVINO does not read.
"""

from pathlib import Path

import numpy as np
import paddle
from paddle.base.proto import framework_pb2

WEIGHTS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
BIAS = np.array([0.5, -0.5], np.float32)


def parameter(name: str, value: np.ndarray) -> object:
    assign = paddle.nn.initializer.Assign(value)
    shape = list(value.shape)
    return paddle.static.create_parameter(shape, "float32", name, default_initializer=assign)


def without_stacks(file: Path) -> None:
    """Forget where each operation was written: paths of this machine."""
    program = framework_pb2.ProgramDesc.FromString(file.read_bytes())
    for op in (op for block in program.blocks for op in block.ops):
        kept = [attr for attr in op.attrs if attr.name != "op_callstack"]
        del op.attrs[:]
        op.attrs.extend(kept)
    file.write_bytes(program.SerializeToString())


paddle.enable_static()
with paddle.pir_utils.OldIrGuard():
    main, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, start):
        x = paddle.static.data("x", [-1, 3], "float32")
        block = main.global_block()
        product, y = (block.create_var(name=name, dtype="float32") for name in ("product", "y"))
        w, b = parameter("w", WEIGHTS), parameter("b", BIAS)
        block.append_op(type="matmul_v2", inputs={"X": x, "Y": w}, outputs={"Out": product})
        block.append_op(type="elementwise_add", inputs={"X": product, "Y": b}, outputs={"Out": y})
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(start)
    prefix = str(Path(__file__).parent / "linear")
    paddle.static.save_inference_model(prefix, [x], [y], executor, program=main)
    without_stacks(Path(f"{prefix}.pdmodel"))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    print(executor.run(main, feed={"x": given}, fetch_list=[y]))
