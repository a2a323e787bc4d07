"""Models of Keras 3, written by `export`, by `tf.saved_model.save` and by an ExportArchive."""

from pathlib import Path

import keras
import tensorflow as tf
from keras import layers

from tests.functional.exports.cases import ROWS


def write(root: Path) -> None:
    keras.utils.set_random_seed(7)
    mlp = _mlp()
    mlp.export(_at(root, "keras_export"), verbose=False)
    tf.saved_model.save(mlp, _at(root, "keras_save"))
    _write_archive(mlp, _at(root, "keras_archive"))
    for name, model in {
        "keras_several": _several(),
        "keras_image": _image(),
        "keras_resized": _resized(),
        "keras_recurrent": _recurrent(),
        "keras_attention": _attention(),
        "keras_mixed": _mixed(),
        "keras_buckets": _buckets(),
        "keras_vocabulary": _vocabulary(),
        "keras_text": _text(),
    }.items():
        model.export(_at(root, name), verbose=False)


def _at(root: Path, name: str) -> str:
    return str(root / name / "1")


def _mlp() -> keras.Model:
    normalization = layers.Normalization()
    normalization.adapt(ROWS)
    return keras.Sequential(
        [
            keras.Input((4,), name="x"),
            normalization,
            layers.Dense(8, activation="gelu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3, activation="softmax"),
        ]
    )


def _write_archive(model: keras.Model, path: str) -> None:
    """Write three endpoints over the same variables."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = [keras.InputSpec(shape=(None, 4), dtype="float32", name="x")]
    archive.add_endpoint("serve", lambda x: model(x, training=False), input_signature=spec)
    archive.add_endpoint(
        "logits", lambda x: tf.math.log(model(x, training=False)), input_signature=spec
    )
    archive.write_out(path, verbose=False)


def _several() -> keras.Model:
    a, b = keras.Input((4,), name="a"), keras.Input((2,), name="b")
    joined = layers.Concatenate()([layers.Dense(3)(a), b])
    outputs = {"p": layers.Dense(2, activation="sigmoid")(joined), "q": layers.Add()([b, b])}
    return keras.Model({"a": a, "b": b}, outputs)


def _image() -> keras.Model:
    image = keras.Input((16, 16, 3), name="image")
    x = layers.Rescaling(2.0, offset=-1.0)(image)
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU(max_value=6.0)(x)
    x = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.SeparableConv2D(8, 3, activation="swish")(x)
    x = layers.Conv2DTranspose(4, 3, strides=2)(x)
    pooled = [layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)]
    return keras.Model(image, layers.Dense(5, activation="softmax")(layers.concatenate(pooled)))


def _resized() -> keras.Model:
    image = keras.Input((None, None, 3), name="image", dtype="uint8")
    x = layers.Resizing(12, 10)(image)
    return keras.Model(image, layers.CenterCrop(8, 8)(layers.Rescaling(1 / 255)(x)))


def _recurrent() -> keras.Model:
    ids = keras.Input((None,), name="ids", dtype="int32")
    x = layers.Embedding(10, 6, mask_zero=True)(ids)
    sequence = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
    simple = layers.SimpleRNN(3)(x)
    return keras.Model(ids, {"last": layers.LSTM(5)(sequence), "simple": simple})


def _attention() -> keras.Model:
    x = keras.Input((None, 8), name="x")
    attended = layers.MultiHeadAttention(num_heads=2, key_dim=4)(x, x, use_causal_mask=True)
    y = layers.LayerNormalization()(x + attended)
    return keras.Model(x, layers.Conv1D(4, 3, padding="causal", activation="elu")(y))


def _mixed() -> keras.Model:
    policy = keras.mixed_precision.DTypePolicy("mixed_float16")
    x = keras.Input((4,), name="x")
    y = layers.Dense(16, activation="relu", dtype=policy)(x)
    y = layers.Dense(3, dtype=policy)(y)
    return keras.Model(x, layers.Activation("softmax", dtype="float32")(y))


def _buckets() -> keras.Model:
    x = keras.Input((4,), name="x")
    buckets = layers.Discretization(bin_boundaries=[-1.0, 0.0, 0.5])(x)
    hot = layers.CategoryEncoding(num_tokens=4, output_mode="multi_hot")(buckets)
    return keras.Model(x, {"hot": hot, "buckets": buckets})


def _vocabulary() -> keras.Model:
    word = keras.Input((), name="word", dtype="string")
    number = keras.Input((), name="n", dtype="int64")
    ids = layers.StringLookup(vocabulary=["a", "b", "c"])(word)
    places = layers.IntegerLookup(vocabulary=[10, 20], num_oov_indices=2)(number)
    hashed = layers.Hashing(num_bins=5)(word)
    joined = layers.concatenate([layers.Embedding(5, 3)(ids), layers.Embedding(5, 2)(places)])
    return keras.Model({"word": word, "n": number}, {"y": layers.Dense(2)(joined), "h": hashed})


def _text() -> keras.Model:
    text = keras.Input((), name="text", dtype="string")
    vectorize = layers.TextVectorization(vocabulary=["to", "be", "not"], output_sequence_length=6)
    ids = vectorize(text)
    y = layers.GlobalAveragePooling1D()(layers.Embedding(6, 4)(ids))
    return keras.Model(text, {"ids": ids, "y": y})
