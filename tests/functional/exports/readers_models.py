"""Writes the models that readers of the pages bring along. Run as a program.

A Keras model of four numbers, by the line of the README, and half_plus_two of TensorFlow Serving.
"""

from pathlib import Path

LINE = 'model.export("models/mine/1")'
"""As in the README, which a test compares."""
HALF_PLUS_TWO = Path("models/half_plus_two")


def main() -> None:
    import keras
    import tensorflow as tf

    from tests.functional import half_plus_two

    tf.random.set_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "softmax")])
    exec(LINE, {"model": model})
    half_plus_two.export(HALF_PLUS_TWO)


if __name__ == "__main__":
    main()
