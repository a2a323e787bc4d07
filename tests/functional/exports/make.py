"""Writes every export below the directory given, with what TensorFlow answers. Run as a program.

Each model becomes `NAME/1`, and each signature of it that `cases.py` names
`NAME/expected/SIGNATURE.pickle`, a pair of inputs and outputs by alias. A line for each step shows
that it goes on.
"""

import importlib.util
import pickle
import sys
from pathlib import Path

import tensorflow as tf

from tests.functional.exports import examples, first_generation, first_loops, keras3, modules
from tests.functional.exports.cases import ALL, PILLOW, TF_KERAS, Inputs


def expect(model: Path, asked: Inputs) -> None:
    """Ask TensorFlow what the signatures of an export answer."""
    (model / "expected").mkdir()
    loaded = tf.saved_model.load(str(model / "1"))
    for name, inputs in asked.items():
        answer = loaded.signatures[name](
            **{alias: tf.constant(value) for alias, value in inputs.items()}
        )
        outputs = {alias: tensor.numpy() for alias, tensor in answer.items()}
        pair = pickle.dumps((dict(inputs), outputs))
        (model / "expected" / f"{name}.pickle").write_bytes(pair)
    print(model.name, flush=True)


def main(root: Path) -> None:
    for made_by in (keras3, modules, examples, first_generation, first_loops):
        made_by.write(root)
        print(made_by.__name__, flush=True)
    asked = {**ALL, **PILLOW}
    if importlib.util.find_spec("tf_keras") is not None:
        from tests.functional.exports import keras2

        keras2.write(root)
        asked |= TF_KERAS
    for name, signatures in asked.items():
        expect(root / name, signatures)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
