"""The models of `make bench-hosted`: what people export with strings, Examples and images."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from PIL import Image

Inputs = Mapping[str, np.ndarray]
WORDS = 20_000
SEED = 11
VOCABULARY = [f"{'abcdefghijklmnopqrstuvwxyz'[i % 26]}word{i}" for i in range(WORDS)]
FLOATS, INTEGERS, STRINGS = 10, 6, 4
"""Features of each kind in an Example of `examples_dense`."""
IMAGES = 16
"""Different pictures of a request; larger requests repeat them."""


class Subject(NamedTuple):
    """One model.

    Attributes:
        write: into a version's folder.
        inputs: of a request with that many rows.
    """

    write: Callable[[Path], None]
    inputs: Callable[[int], Inputs]


def _texts(values: list[object]) -> np.ndarray:
    made = np.empty(len(values), np.object_)
    made[:] = values
    return made


def _sentences(count: int) -> Inputs:
    """Thirty words each, with capitals and marks, one in ten of them unknown."""
    draw = np.random.default_rng(count)
    rows = []
    for _ in range(count):
        places = draw.zipf(1.2, 30) % (WORDS + WORDS // 10)
        words = [VOCABULARY[at] if at < WORDS else f"unknown{at}" for at in places]
        rows.append((" ".join(words).capitalize() + ", indeed!").encode())
    return {"text": _texts(rows)}


def _export(path: Path, outputs: keras.KerasTensor, *inputs: keras.KerasTensor) -> None:
    model = keras.Model(list(inputs) if len(inputs) > 1 else inputs[0], outputs)
    model.export(path, verbose=False)


def _text_ids(path: Path) -> None:
    words = keras.layers.TextVectorization(
        output_sequence_length=64, vocabulary=VOCABULARY, name="words"
    )
    text = keras.Input((), dtype="string", name="text")
    hidden = keras.layers.Embedding(WORDS + 2, 32)(words(text))
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    _export(path, keras.layers.Dense(4, activation="softmax")(hidden), text)


def _text_multi_hot(path: Path) -> None:
    words = keras.layers.TextVectorization(output_mode="multi_hot", vocabulary=VOCABULARY[:2000])
    text = keras.Input((), dtype="string", name="text")
    hidden = keras.layers.Dense(16, activation="relu")(words(text))
    _export(path, keras.layers.Dense(4, activation="softmax")(hidden), text)


def _lookup(path: Path) -> None:
    inputs, parts = [], []
    for number in range(4):
        inputs.append(keras.Input((1,), dtype="string", name=f"key_{number}"))
        ids = keras.layers.StringLookup(vocabulary=VOCABULARY[:1000])(inputs[-1])
        parts.append(keras.layers.Flatten()(keras.layers.Embedding(1001, 8)(ids)))
    hidden = keras.layers.Dense(16, activation="relu")(keras.layers.Concatenate()(parts))
    _export(path, keras.layers.Dense(4, activation="softmax")(hidden), *inputs)


def _keys(count: int) -> Inputs:
    draw = np.random.default_rng(count)
    return {
        f"key_{number}": _texts(
            [VOCABULARY[at].encode() for at in draw.integers(0, 1100, count)]
        ).reshape(-1, 1)
        for number in range(4)
    }


def _example(features: Mapping[str, list[object]]) -> bytes:
    made = tf.train.Example()
    for key, values in features.items():
        feature = made.features.feature[key]
        kinds = {float: feature.float_list, bytes: feature.bytes_list, int: feature.int64_list}
        kinds[type(values[0])].value.extend(values)
    return made.SerializeToString()


def _dense_examples(count: int) -> Inputs:
    draw = np.random.default_rng(count)
    rows = []
    for _ in range(count):
        row: dict[str, list[object]] = {"float_long": draw.random(8).tolist()}
        row |= {f"float_{i}": [float(draw.random())] for i in range(1, FLOATS)}
        row |= {f"integer_{i}": [int(draw.integers(0, 1000))] for i in range(INTEGERS)}
        row |= {f"text_{i}": [VOCABULARY[draw.integers(0, 1100)].encode()] for i in range(STRINGS)}
        rows.append(_example(row))
    return {"examples": _texts(rows)}


def _examples_dense(path: Path) -> None:
    """Parse twenty dense features, look four of them up."""
    fixed = tf.io.FixedLenFeature
    specs = {"float_long": fixed([8], tf.float32)}
    specs |= {f"float_{i}": fixed([1], tf.float32) for i in range(1, FLOATS)}
    specs |= {f"integer_{i}": fixed([1], tf.int64) for i in range(INTEGERS)}
    specs |= {f"text_{i}": fixed([1], tf.string) for i in range(STRINGS)}
    module = tf.Module()
    values = tf.range(1000, dtype=tf.int64)
    keys = tf.constant(VOCABULARY[:1000])
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), 1000
    )
    module.embedding = tf.Variable(tf.random.stateless_normal([1001, 8], [1, 2]))
    width = 8 + FLOATS - 1 + INTEGERS + 8 * STRINGS
    module.kernel = tf.Variable(tf.random.stateless_normal([width, 4], [3, 4]) / 10)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, specs)
        parts = [parsed["float_long"], *(parsed[f"float_{i}"] for i in range(1, FLOATS))]
        parts += [tf.cast(parsed[f"integer_{i}"], tf.float32) / 1000 for i in range(INTEGERS)]
        for i in range(STRINGS):
            ids = module.table.lookup(parsed[f"text_{i}"][:, 0])
            parts.append(tf.gather(module.embedding, ids))
        return {"scores": tf.nn.softmax(tf.concat(parts, 1) @ module.kernel)}

    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})


def _sparse_examples(count: int) -> Inputs:
    draw = np.random.default_rng(count)
    rows = []
    for _ in range(count):
        row: dict[str, list[object]] = {
            "age": [float(draw.random() * 80)],
            "job": [VOCABULARY[draw.integers(0, 110)].encode()],
        }
        if many := int(draw.integers(0, 6)):
            row["tags"] = [VOCABULARY[at].encode() for at in draw.integers(0, 1000, many)]
        if many := int(draw.integers(0, 6)):
            row["ids"] = [int(at) for at in draw.integers(0, 1000, many)]
        rows.append(_example(row))
    return {"examples": _texts(rows)}


def _feature_columns(path: Path) -> None:
    """Compute an input layer of feature columns, as Estimators export it."""
    column = v1.feature_column
    job = column.categorical_column_with_vocabulary_list("job", VOCABULARY[:100])
    tags = column.categorical_column_with_hash_bucket("tags", 500)
    ids = column.categorical_column_with_identity("ids", 1000, default_value=0)
    age = column.numeric_column("age")
    columns = [
        age,
        column.bucketized_column(age, [18.0, 30.0, 65.0]),
        column.indicator_column(job),
        column.embedding_column(tags, 8),
        column.embedding_column(ids, 8, combiner="sum"),
    ]
    with tf.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None], name="examples")
        parsed = v1.parse_example(examples, column.make_parse_example_spec(columns))
        layer = column.input_layer(parsed, columns)
        weights = v1.get_variable("kernel", [layer.shape[1], 4])
        scores = tf.nn.softmax(layer @ weights)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"examples": examples}, {"scores": scores})
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            main_op=v1.tables_initializer(),
        )
        builder.save()


def _pictures(count: int) -> Inputs:
    draw = np.random.default_rng(SEED)
    rows = []
    for _ in range(IMAGES):
        coarse = Image.fromarray(draw.integers(0, 256, (12, 16, 3), np.uint8))
        held = io.BytesIO()
        coarse.resize((160, 120), Image.Resampling.BICUBIC).save(held, "JPEG", quality=90)
        rows.append(held.getvalue())
    return {"image_bytes": _texts([rows[at % IMAGES] for at in range(count)])}


def _jpeg(path: Path) -> None:
    """Decode and resize each picture to 96 x 96; the arithmetic behind is small."""
    module = tf.Module()
    module.kernel = tf.Variable(tf.random.stateless_normal([3, 4], [1, 2]))

    def decoded(data: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_jpeg(data, channels=3)
        return tf.image.resize(tf.cast(pixels, tf.float32) / 255, [96, 96])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
    def serve(image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        pixels = tf.map_fn(decoded, image_bytes, fn_output_signature=tf.float32)
        return {"scores": tf.nn.softmax(tf.reduce_mean(pixels, [1, 2]) @ module.kernel)}

    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})


def _nothing(path: Path) -> None:
    """Give back a number: what a request costs without a model."""
    module = tf.Module()
    serve = tf.function(
        lambda x: {"y": x + 1.0}, input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")]
    )
    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})


MODELS: Mapping[str, Subject] = {
    "nothing": Subject(_nothing, lambda count: {"x": np.zeros((count, 1), np.float32)}),
    "text_ids": Subject(_text_ids, _sentences),
    "text_multi_hot": Subject(_text_multi_hot, _sentences),
    "lookup": Subject(_lookup, _keys),
    "examples_dense": Subject(_examples_dense, _dense_examples),
    "feature_columns": Subject(_feature_columns, _sparse_examples),
    "jpeg": Subject(_jpeg, _pictures),
}
