"""Models of tf_keras, the Keras before 3, whose `save` writes a SavedModel of its own form."""

from pathlib import Path

import tensorflow as tf
import tf_keras
from tf_keras import layers


def write(root: Path) -> None:
    tf_keras.utils.set_random_seed(7)
    model = _model()
    model.save(str(root / "tf_keras_save" / "1"), save_format="tf")
    model.export(str(root / "tf_keras_export" / "1"))
    estimator_like = tf_keras.Sequential([layers.Dense(2, input_shape=(4,), name="logits")])
    tf.saved_model.save(estimator_like, str(root / "tf_keras_saved_model" / "1"))


def _model() -> tf_keras.Model:
    x, ids = tf_keras.Input((4,), name="x"), tf_keras.Input((None,), name="ids", dtype="int32")
    embedded = layers.GlobalAveragePooling1D()(layers.Embedding(10, 6, mask_zero=True)(ids))
    joined = layers.concatenate([layers.BatchNormalization()(x), embedded])
    outputs = {"p": layers.Dense(3, activation="softmax")(joined), "q": layers.Dropout(0.5)(x)}
    return tf_keras.Model({"x": x, "ids": ids}, outputs)
