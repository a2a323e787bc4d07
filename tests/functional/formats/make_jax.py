"""Writes functions of JAX as SavedModels, by jax2tf, with what JAX answers. Run as a program.

Below the directory given, each becomes `NAME/1`; `NAME.npz` has a request `x` and the answer `y`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from jax import lax
from jax.experimental import jax2tf

RANDOM = np.random.default_rng(41)
PLAIN = {"native_serialization": False, "enable_xla": False}
"""How jax up to 0.6 writes operations of TensorFlow alone."""


class Export(NamedTuple):
    """A function, a request, and how it is exported."""

    call: Callable[[Any], Any]
    x: Any
    how: Mapping[str, bool]


def floats(*sizes: int) -> Any:
    return RANDOM.standard_normal(sizes).astype(np.float32)


def mlp(x: Any, first: Any, second: Any) -> Any:
    return jax.nn.softmax(jax.nn.relu(x @ first) @ second)


def convolved(x: Any, kernel: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.nn.relu(
        lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=numbers)
    )


def recurrent(x: Any, weights: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = jnp.tanh(row @ weights + state)
        return state, state

    return lax.scan(step, jnp.zeros((x.shape[0], 6)), x.transpose(1, 0, 2))[0]


def exports() -> Mapping[str, Export]:
    layers = partial(mlp, first=floats(4, 8), second=floats(8, 3))
    rows, images, kernel = floats(5, 4), floats(2, 8, 8, 3), floats(3, 3, 3, 5)
    transposed = partial(lax.conv_transpose, rhs=kernel, strides=(2, 2), padding="SAME")
    return {
        "mlp": Export(layers, rows, PLAIN),
        "convolution": Export(partial(convolved, kernel=kernel), images, PLAIN),
        "transposed": Export(transposed, images, PLAIN),
        "recurrent": Export(partial(recurrent, weights=floats(6, 6)), floats(2, 5, 6), PLAIN),
        "with_xla": Export(transposed, images, {"native_serialization": False}),
        "native": Export(layers, rows, {}),
    }


def main(root: Path) -> None:
    """Write the models, of any number of rows."""
    for name, (call, x, how) in exports().items():
        sizes = ",".join(map(str, x.shape[1:]))
        converted = jax2tf.convert(call, polymorphic_shapes=[f"(rows,{sizes})"], **how)
        spec = tf.TensorSpec([None, *x.shape[1:]], tf.float32, name="x")
        module = tf.Module()
        module.f = tf.function(converted, input_signature=[spec], autograph=False)
        signature = tf.function(lambda x, f=module.f: {"y": f(x)}, input_signature=[spec])
        tf.saved_model.save(module, str(root / name / "1"), signatures=signature)
        np.savez(root / f"{name}.npz", x=x, y=np.asarray(call(x)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
