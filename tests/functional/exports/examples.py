"""Graphs that parse Examples themselves, as Estimators and TFX export them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.unit.engines.savedmodel.exports import Signatures, first_generation, signature

Features = Mapping[str, Any]

FIXED = tf.io.FixedLenFeature
VARIABLE = tf.io.VarLenFeature


def write(root: Path) -> None:
    first_generation(root / "estimator_linear" / "1", _linear)
    first_generation(root / "estimator_columns" / "1", _columns)
    first_generation(root / "estimator_vocabulary" / "1", _vocabulary)
    _write_tfx(str(root / "tfx" / "1"))
    _write_ragged(str(root / "ragged_features" / "1"))


def _receiver(features: Features) -> tuple[tf.Tensor, dict[str, Any]]:
    """Parse as `build_parsing_serving_input_receiver_fn` does."""
    serialized = v1.placeholder(tf.string, [None], name="input_example_tensor")
    return serialized, v1.parse_example(serialized, features)


def _head(serialized: tf.Tensor, logits: tf.Tensor) -> Signatures:
    """Give the signatures of a classifier's head that need no names of classes."""
    probabilities = tf.nn.softmax(logits, name="probabilities")
    ids = tf.expand_dims(tf.argmax(logits, axis=-1), -1, name="class_ids")
    predicted = {"logits": logits, "probabilities": probabilities, "class_ids": ids}
    return {
        "serving_default": signature({"inputs": serialized}, {"scores": probabilities}, "classify"),
        "predict": signature({"examples": serialized}, predicted),
        "regression": signature({"inputs": serialized}, {"outputs": logits[:, 0]}, "regress"),
    }


def _linear() -> Signatures:
    """Compute a linear model over dense and sparse features, with a column of weights."""
    serialized, parsed = _receiver(
        {
            "age": FIXED([1], tf.float32),
            "income": FIXED([2], tf.float32, default_value=[0.5, 0.25]),
            "ids": VARIABLE(tf.int64),
            "weights": VARIABLE(tf.float32),
        }
    )
    table = v1.get_variable("table", initializer=tf.reshape(tf.range(18.0), [6, 3]) / 10)
    kernel = v1.get_variable("kernel", initializer=tf.reshape(tf.range(9.0), [3, 3]) / 10)
    dense = tf.concat([parsed["age"], parsed["income"]], axis=1)
    sparse = tf.nn.safe_embedding_lookup_sparse(
        [table], parsed["ids"], parsed["weights"], combiner="sum"
    )
    return _head(serialized, dense @ kernel + sparse)


def _columns() -> Signatures:
    """Compute an input layer of feature columns, none of which needs a table of strings."""
    column = v1.feature_column
    age = column.numeric_column("age", normalizer_fn=lambda x: (x - 30.0) / 10.0)
    place = column.categorical_column_with_identity("ids", 6, default_value=0)
    weighted = column.weighted_categorical_column(
        column.categorical_column_with_identity("ids_2", 6), "weights"
    )
    columns = [
        age,
        column.bucketized_column(column.numeric_column("age_2"), [18.0, 30.0, 65.0]),
        column.indicator_column(place),
        column.embedding_column(weighted, 3, combiner="sum"),
        column.embedding_column(place, 2, combiner="mean"),
    ]
    serialized, parsed = _receiver(column.make_parse_example_spec(columns))
    layer = column.input_layer(parsed, columns)
    kernel = v1.get_variable("kernel", initializer=tf.sin(tf.reshape(tf.range(48.0), [16, 3])))
    return _head(serialized, layer @ kernel)


def _vocabulary() -> Signatures:
    """Compute an input layer of columns of strings; the head names its classes."""
    column = v1.feature_column
    job = column.categorical_column_with_vocabulary_list("job", ["baker", "smith"], default_value=0)
    tags = column.categorical_column_with_hash_bucket("tags", 5)
    columns = [
        column.numeric_column("age"),
        column.indicator_column(job),
        column.embedding_column(tags, 3),
    ]
    serialized, parsed = _receiver(column.make_parse_example_spec(columns))
    layer = column.input_layer(parsed, columns)
    kernel = v1.get_variable("kernel", initializer=tf.sin(tf.reshape(tf.range(18.0), [6, 3])))
    logits = layer @ kernel
    names = tf.constant(["good", "fair", "poor"])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), names), "none"
    )
    best = tf.expand_dims(tf.argmax(logits, axis=-1), -1)
    rows = tf.shape(logits)[0]
    every = tf.tile(tf.expand_dims(names, 0), [rows, 1])
    scores = tf.nn.softmax(logits)
    predicted = {"classes": table.lookup(best), "all_classes": every, "probabilities": scores}
    return {
        "serving_default": signature(
            {"inputs": serialized}, {"classes": every, "scores": scores}, "classify"
        ),
        "predict": signature({"examples": serialized}, predicted),
        "classes": signature({"inputs": serialized}, {"classes": table.lookup(best)}, "classify"),
    }


class _Tfx(tf.Module):  # type: ignore[misc]
    """What a Trainer of TFX exports: Examples are parsed, transformed, and given to a model."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32), [2, 3]))
        self.mean = tf.constant(30.0)
        jobs = tf.lookup.KeyValueTensorInitializer(["smith"], tf.constant([1], tf.int64))
        self.jobs = tf.lookup.StaticVocabularyTable(jobs, 1)

    @tf.function
    def transform(self, raw: dict[str, Any]) -> dict[str, tf.Tensor]:
        fare = tf.sparse.to_dense(raw["fare"], default_value=-1.0)
        fare = tf.squeeze(tf.slice(fare, [0, 0], [-1, 1]), axis=1)
        return {
            "age_xf": (raw["age"] - self.mean) / 10.0,
            "fare_xf": tf.where(fare < 0, tf.zeros_like(fare), tf.math.log1p(fare))[:, tf.newaxis],
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve_tf_examples_fn(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {"age": FIXED([1], tf.float32), "fare": VARIABLE(tf.float32)}
        transformed = self.transform(tf.io.parse_example(examples, features))
        hidden = tf.concat([transformed["age_xf"], transformed["fare_xf"]], axis=1)
        return {"outputs": tf.nn.sigmoid(hidden @ self.kernel)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def transform_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {"age": FIXED([1], tf.float32), "fare": VARIABLE(tf.float32)}
        return dict(self.transform(tf.io.parse_example(examples, features)))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def vocabulary(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Look words up, as a transform by `tft.compute_and_apply_vocabulary` does."""
        features = {"job": FIXED([], tf.string, default_value=""), "age": FIXED([1], tf.float32)}
        parsed = tf.io.parse_example(examples, features)
        job = tf.one_hot(self.jobs.lookup(parsed["job"]), 2)
        return {"y": job @ self.kernel * parsed["age"], "job": parsed["job"]}


def _write_tfx(path: str) -> None:
    module = _Tfx()
    signatures = {
        "serving_default": module.serve_tf_examples_fn,
        "transform_features": module.transform_features,
        "vocabulary": module.vocabulary,
    }
    tf.saved_model.save(module, path, signatures=signatures)


class _Ragged(tf.Module):  # type: ignore[misc]
    """Ragged features: rows of unlike lengths, also in the form of `parse_single_example`."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(tf.sqrt(tf.reshape(tf.range(12, dtype=tf.float32), [6, 2])))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def rows(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {
            "ids": tf.io.RaggedFeature(tf.int64),
            "weights": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64),
        }
        parsed = tf.io.parse_example(examples, features)
        means = tf.reduce_mean(tf.gather(self.table, parsed["ids"]), axis=1)
        return {
            "means": tf.where(tf.math.is_nan(means), tf.zeros_like(means), means),
            "total": tf.reduce_sum(parsed["weights"], axis=1),
            "padded": parsed["weights"].to_tensor(),
        }

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="example")])
    def row(self, example: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {
            "ids": tf.io.RaggedFeature(tf.int64),
            "age": FIXED([1], tf.float32),
            "weights": VARIABLE(tf.float32),
        }
        parsed = tf.io.parse_single_example(example, features)
        return {
            "sum": tf.reduce_sum(tf.gather(self.table, parsed["ids"]), axis=0) + parsed["age"],
            "weights": tf.sparse.to_dense(parsed["weights"]) * 2.0,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def sequences(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Sum the steps of SequenceExamples, each as long as it is."""
        context = {"age": FIXED([], tf.float32, default_value=1.0)}
        lists = {"steps": tf.io.FixedLenSequenceFeature([2], tf.float32)}
        context, lists, lengths = tf.io.parse_sequence_example(examples, context, lists)
        mask = tf.sequence_mask(lengths["steps"], dtype=tf.float32)[:, :, tf.newaxis]
        total = tf.reduce_sum(lists["steps"] * mask, axis=1)
        return {"y": total * context["age"][:, tf.newaxis], "lengths": lengths["steps"]}


def _write_ragged(path: str) -> None:
    module = _Ragged()
    signatures = {
        "serving_default": module.rows,
        "single": module.row,
        "sequences": module.sequences,
    }
    tf.saved_model.save(module, path, signatures=signatures)
