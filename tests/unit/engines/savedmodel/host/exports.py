"""Writes SavedModels with strings and tables, each with what TensorFlow answers.

Run as a program: below the directory given, every model becomes `NAME/1`, and every call of it
`NAME/expected/SIGNATURE-NUMBER.pickle`, a pair of inputs and outputs by alias.
"""

import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

Calls = Mapping[str, Sequence[Mapping[str, Any]]]


def texts(*values: Any) -> Any:
    return np.array(values, np.object_)


def text(value: bytes) -> Any:
    return np.array(value, np.object_)


X = np.array([[1, 2, -1], [3, -4, 0.5], [0.5, 0.25, 2]], np.float32)
WORDS = texts(b"Banana", b"cherry", b"unknown", b"apple")


def example(**features: Any) -> bytes:
    """Serialize an Example; the first value of a feature tells its kind."""
    made = tf.train.Example()
    for key, values in features.items():
        feature = made.features.feature[key]
        kinds = {float: feature.float_list, bytes: feature.bytes_list, int: feature.int64_list}
        kinds[type(values[0])].value.extend(values)
    return bytes(made.SerializeToString())


EXAMPLES = texts(
    example(fruit=[b"banana"], size=[1.0], tags=[b"x", b"y"]),
    example(fruit=[b"durian"], size=[-2.0]),
    example(size=[0.5], tags=[b"y"]),
)


def table(keys: Any, values: Any, default: Any) -> Any:
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


def from_file(path: Path, lines: str, key: Any, value: Any, types: Any, default: Any) -> Any:
    path.write_text(lines)
    made = tf.lookup.TextFileInitializer(str(path), types[0], key, types[1], value)
    return tf.lookup.StaticHashTable(made, default)


WHOLE, NUMBER = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER


class Module(tf.Module):  # type: ignore[misc]
    """Strings and tables before the arithmetic, behind it, on both sides, and alone."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.vocabulary = from_file(
            directory / "vocabulary.txt",
            "apple\nbanana\ncherry\n",
            WHOLE,
            NUMBER,
            (tf.string, tf.int64),
            3,
        )
        self.labels = from_file(
            directory / "labels.txt", "cat\ndog\r\nhorse", NUMBER, WHOLE, (tf.int64, tf.string), "?"
        )
        self.prices = from_file(
            directory / "prices.txt", "a\t1.5\nb\t-2\n", 0, 1, (tf.string, tf.float32), -1.0
        )
        self.colors = table(["red", "blue"], [7, 8], -1)
        self.kernel = tf.Variable([[1.0, 2.0, 0.5], [-1.0, 0.25, 2.0], [0.5, 0.5, 1.0]])
        self.embedding = tf.Variable([[1.0, 0.0, 2.0], [0.5, 3.0, 1.0], [2.0, 1.0, 1.0], [0, 0, 0]])
        self.names = tf.Variable(["n0", "n1", "n2"])
        self.learned = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        self.learned.insert(["p", "q"], tf.constant([1, 2], tf.int64))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def heads(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Two heads: names of the best, and all names for every row."""
        scores = tf.nn.softmax(tf.matmul(x, self.kernel))
        best, places = tf.math.top_k(scores, 2)
        return {
            "scores": best,
            "classes": self.labels.lookup(tf.cast(places, tf.int64)),
            "all": tf.tile(tf.constant([["u", "v", "w"]]), [tf.shape(scores)[0], 1]),
            "name": tf.gather(self.names, tf.argmax(scores, 1)),
            "probabilities": scores,
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4], tf.float32, "boxes"),
            tf.TensorSpec([None], tf.float32, "scores"),
        ]
    )
    def boxes(self, boxes: tf.Tensor, scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """A detector's labels: of a node of OpenVINO the host needs two outputs of several."""
        chosen, kept, _ = tf.raw_ops.NonMaxSuppressionV5(
            boxes=boxes,
            scores=scores,
            max_output_size=3,
            iou_threshold=0.5,
            score_threshold=0.0,
            soft_nms_sigma=0.0,
        )
        return {
            "label": self.labels.lookup(tf.cast(chosen, tf.int64)),
            "place": tf.strings.as_string(chosen),
            "score": tf.strings.as_string(kept, precision=2),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "word")])
    def embed(self, word: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = self.vocabulary.lookup(tf.strings.lower(word))
        rows = tf.gather(self.embedding, ids)
        return {"y": tf.nn.relu(tf.matmul(rows, self.kernel)), "ids": ids}

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, "s"), tf.TensorSpec([], tf.string, "t")]
    )
    def texts(self, s: tf.Tensor, t: tf.Tensor) -> dict[str, tf.Tensor]:
        """Strings in, strings out, of every rank."""
        return {
            "joined": tf.strings.join([s, t], "-"),
            "pairs": tf.stack([s, tf.strings.upper(s)], axis=1),
            "turned": tf.transpose(tf.strings.length(tf.stack([s, s + "!"]))),
            "scalar": tf.strings.upper(t),
            "echo": s,
            "none": s[:0],
            "color": self.colors.lookup(s),
            "price": self.prices.lookup(s),
            "known": self.colors.size(),
            "learned": self.learned.lookup(s),
            "length": tf.strings.as_string(tf.strings.length(s)),
            "version": tf.constant("v1"),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "word")])
    def both_sides(self, word: tf.Tensor) -> dict[str, tf.Tensor]:
        """Look-ups, arithmetic, look-ups: the shape of a text classifier."""
        ids = self.vocabulary.lookup(word)
        scores = tf.matmul(tf.gather(self.embedding, ids), self.kernel)
        label = self.labels.lookup(tf.argmax(scores, axis=1))
        return {"label": tf.strings.join([word, label], "/"), "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "lines")])
    def padded(self, lines: tf.Tensor) -> dict[str, tf.Tensor]:
        """Words of unlike numbers in each row, padded and summed."""
        ids = tf.ragged.map_flat_values(self.vocabulary.lookup, tf.strings.split(lines))
        dense = ids.to_tensor(default_value=3)
        return {"sum": tf.reduce_sum(tf.gather(self.embedding, dense), axis=1), "ids": dense}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.string, "s")])
    def numbers(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(tf.strings.to_number(s), self.kernel)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "s")])
    def mapped(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        """Loops and a branch over strings, before arithmetic."""

        def one(text: tf.Tensor) -> tf.Tensor:
            return tf.gather(self.embedding, self.vocabulary.lookup(tf.strings.strip(text)))

        rows = tf.map_fn(one, s, fn_output_signature=tf.TensorSpec([3], tf.float32))
        shouted = tf.cond(tf.size(s) > 2, lambda: tf.strings.upper(s), lambda: tf.strings.lower(s))
        return {
            "y": tf.matmul(rows, self.kernel),
            "shouted": shouted,
            "marked": tf.map_fn(lambda text: tf.strings.join([text, "!"]), s),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parse string features and look them up."""
        features = {
            "fruit": tf.io.FixedLenFeature([], tf.string, "apple"),
            "size": tf.io.FixedLenFeature([1], tf.float32),
            "tags": tf.io.VarLenFeature(tf.string),
        }
        parsed = tf.io.parse_example(examples, features)
        rows = tf.gather(self.embedding, self.vocabulary.lookup(parsed["fruit"]))
        return {
            "y": tf.matmul(rows * parsed["size"], self.kernel),
            "tags": tf.sparse.to_dense(parsed["tags"], default_value="-"),
            "fruit": parsed["fruit"],
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "s")])
    def formatted(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.strings.format("{}", s)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "s")])
    def codes(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.strings.unicode_transcode(s, "UTF-8", "UTF-16-BE")}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def again(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Arithmetic, a look-up, arithmetic: OpenVINO would have to run twice."""
        words = self.labels.lookup(tf.argmax(tf.matmul(x, self.kernel), axis=1))
        rows = tf.gather(self.embedding, self.vocabulary.lookup(words))
        return {"y": tf.matmul(rows, self.kernel)}


def write_classifier(path: Path, directory: Path) -> None:
    """Write what Estimators export: a vocabulary of the classes, Examples, Classify."""
    labels, fruits = directory / "classes.txt", directory / "fruits.txt"
    labels.write_text("sweet\nsour\nbitter\n")
    fruits.write_text("apple\nbanana\n")
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        serialized = v1.placeholder(tf.string, [None], name="input_example_tensor")
        features = {
            "fruit": tf.io.FixedLenFeature([1], tf.string, "apple"),
            "size": tf.io.FixedLenFeature([1], tf.float32),
        }
        parsed = tf.io.parse_example(serialized, features)
        fruit = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(str(fruits), tf.string, WHOLE, tf.int64, NUMBER), -1
        )
        names = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(str(labels), tf.int64, NUMBER, tf.string, WHOLE), "UNK"
        )
        hot = tf.reshape(tf.one_hot(fruit.lookup(parsed["fruit"]), 2), [-1, 2])
        kernel = v1.get_variable("kernel", initializer=[[1.0, 2, 0], [0, 1, 1], [2, 0, 1]])
        logits = tf.matmul(tf.concat([hot, parsed["size"]], axis=1), kernel)
        scores, places = tf.math.top_k(tf.nn.softmax(logits), 3)
        classes = names.lookup(tf.cast(places, tf.int64))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        info = v1.saved_model.utils.build_tensor_info
        define = v1.saved_model.signature_def_utils.build_signature_def
        outputs = {"classes": info(classes), "scores": info(scores)}
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={
                "serving_default": define(
                    {"inputs": info(serialized)}, outputs, "tensorflow/serving/classify"
                ),
                "predict": define(
                    {"examples": info(serialized)}, outputs, "tensorflow/serving/predict"
                ),
            },
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()


CALLS: Mapping[str, Calls] = {
    "tables": {
        "heads": [{"x": X}],
        "boxes": [
            {
                "boxes": np.array([[0, 0, 1, 1], [0, 0, 0.9, 1], [2, 2, 3, 3]], np.float32),
                "scores": np.array([0.5, 0.875, 0.75], np.float32),
            }
        ],
        "embed": [{"word": WORDS}, {"word": WORDS[:0]}],
        "texts": [
            {"s": texts(b"red", b"", b"x\xc3\xa9", b"p", b"b"), "t": text(b"te")},
            {"s": texts(), "t": text(b"")},
        ],
        "both_sides": [{"word": WORDS}],
        "numbers": [{"s": texts([b"1", b" 2.5 ", b"-1e2"])}],
        "mapped": [{"s": texts(b"apple ", b"Cherry")}, {"s": WORDS}],
        "padded": [{"lines": texts(b"apple banana", b"", b"cherry  apple x")}],
        "examples": [{"examples": EXAMPLES}],
    },
    "classifier": {"predict": [{"examples": EXAMPLES}]},
}


def expect(root: Path, name: str) -> None:
    """Ask TensorFlow."""
    (root / name / "expected").mkdir()
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        loaded = v1.saved_model.load(session, ["serve"], str(root / name / "1"))
        for key, calls in CALLS[name].items():
            definition = loaded.signature_def[key]
            for number, inputs in enumerate(calls):
                outputs = session.run(
                    {alias: info.name for alias, info in definition.outputs.items()},
                    {definition.inputs[alias].name: value for alias, value in inputs.items()},
                )
                made_file = root / name / "expected" / f"{key}-{number}.pickle"
                made_file.write_bytes(pickle.dumps((dict(inputs), outputs)))


def main(root: Path) -> None:
    module = Module(root)
    names = (*CALLS["tables"], "formatted", "codes", "again")
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, str(root / "tables" / "1"), signatures=signatures)
    write_classifier(root / "classifier" / "1", root)
    for name in CALLS:
        expect(root, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
