"""What `tf.saved_model.save` writes of a tf.Module: several signatures, defaults, control flow."""

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

Tensors = dict[str, tf.Tensor]


def _spec(dtype: tf.DType, *shape: int | None, name: str) -> tf.TensorSpec:
    return tf.TensorSpec(list(shape), dtype, name=name)


X = _spec(tf.float32, None, 4, name="x")
SEQUENCE = _spec(tf.float32, None, None, 8, name="x")
IDS = _spec(tf.int32, None, None, name="ids")


class Several(tf.Module):  # type: ignore[misc]
    """Signatures of every kind of input."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.reshape(tf.range(12, dtype=tf.float32), [4, 3]) / 10)

    @tf.function(input_signature=[X])
    def plain(self, x: tf.Tensor) -> Tensors:
        return {"y": tf.nn.softmax(self._inner(x)), "kernel": self.kernel}

    @tf.function
    def _inner(self, x: tf.Tensor) -> tf.Tensor:
        return x @ self.kernel

    @tf.function(input_signature=[X, _spec(tf.float32, name="scale")])
    def scaled(self, x: tf.Tensor, scale: tf.Tensor = tf.constant(2.0)) -> Tensors:  # noqa: B008
        return {"y": self._inner(x) * scale}

    @tf.function(
        input_signature=[
            _spec(tf.float32, None, 4, name="p"),
            _spec(tf.int32, None, None, name="n"),
            _spec(tf.bool, None, name="flag"),
        ]
    )
    def several(self, p: tf.Tensor, n: tf.Tensor, flag: tf.Tensor) -> Tensors:
        return {
            "sum": tf.reduce_sum(p, axis=1),
            "n": n * 2 + 1,
            "not": tf.logical_not(flag),
            "hot": tf.one_hot(n, 6),
            "size": tf.shape(p),
        }

    @tf.function(input_signature=[_spec(tf.float32, name="x")])
    def scalar(self, x: tf.Tensor) -> Tensors:
        return {"y": x * x, "row": self.kernel[0] * x}

    @tf.function(
        input_signature=[
            _spec(tf.float64, None, 4, name="x"),
            _spec(tf.int64, None, name="n"),
        ]
    )
    def wide(self, x: tf.Tensor, n: tf.Tensor) -> Tensors:
        return {"y": tf.sqrt(tf.abs(x)), "n": n // 2, "rest": n % 2}

    @tf.function(input_signature=[_spec(tf.uint8, None, 3, name="x")])
    def bytes(self, x: tf.Tensor) -> Tensors:
        return {"y": tf.image.convert_image_dtype(x, tf.float32)}


class Loops(tf.Module):  # type: ignore[misc]
    """Control flow that depends on the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.sin(tf.reshape(tf.range(128, dtype=tf.float32), [8, 16])))
        self.own = tf.Variable(tf.eye(16) / 2)

    @tf.function(input_signature=[SEQUENCE])
    def recurrent(self, x: tf.Tensor) -> Tensors:
        """Compute a recurrent layer step by step, with a TensorArray."""
        state = tf.zeros([tf.shape(x)[0], 16])
        steps = tf.TensorArray(tf.float32, size=tf.shape(x)[1], element_shape=[None, 16])
        for i in tf.range(tf.shape(x)[1]):
            state = tf.tanh(x[:, i] @ self.kernel + state @ self.own)
            steps = steps.write(i, state)
        return {"last": state, "all": tf.transpose(steps.stack(), [1, 0, 2])}

    @tf.function(input_signature=[_spec(tf.float32, name="x"), _spec(tf.int32, name="n")])
    def steps(self, x: tf.Tensor, n: tf.Tensor) -> Tensors:
        i = tf.constant(0)
        while i < n:
            x = 3.0 * x * (1.0 - x)
            i += 1
        return {"y": x, "i": i}

    @tf.function(input_signature=[X, _spec(tf.bool, name="flag")])
    def branch(self, x: tf.Tensor, flag: tf.Tensor) -> Tensors:
        y = tf.nn.relu(x) if flag else tf.sigmoid(x)
        return {"y": y}


class Sparse(tf.Module):  # type: ignore[misc]
    """Embeddings of as many ids as a row has."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(tf.cos(tf.reshape(tf.range(24, dtype=tf.float32), [6, 4])))

    @tf.function(input_signature=[IDS])
    def mean(self, ids: tf.Tensor) -> Tensors:
        sparse = tf.sparse.from_dense(ids)
        return {
            way: tf.nn.embedding_lookup_sparse(self.table, sparse, None, combiner=way)
            for way in ("mean", "sum", "sqrtn")
        }

    @tf.function(input_signature=[IDS, _spec(tf.float32, None, None, name="weights")])
    def weighted(self, ids: tf.Tensor, weights: tf.Tensor) -> Tensors:
        sparse = tf.sparse.from_dense(ids)
        held = tf.SparseTensor(
            sparse.indices, tf.gather_nd(weights, sparse.indices), sparse.dense_shape
        )
        return {"y": tf.nn.embedding_lookup_sparse(self.table, sparse, held, combiner="mean")}

    @tf.function(input_signature=[IDS])
    def safe(self, ids: tf.Tensor) -> Tensors:
        sparse = tf.sparse.from_dense(ids)
        return {"y": tf.nn.safe_embedding_lookup_sparse([self.table], sparse, default_id=1)}

    @tf.function(input_signature=[IDS])
    def ragged(self, ids: tf.Tensor) -> Tensors:
        rows = tf.RaggedTensor.from_tensor(ids, padding=0)
        return {
            "mean": tf.reduce_mean(tf.gather(self.table, rows), axis=1),
            "padded": rows.to_tensor(-1),
            "lengths": rows.row_lengths(),
        }


class Shapes(tf.Module):  # type: ignore[misc]
    """Arithmetic whose shapes depend on the inputs' shapes."""

    @tf.function(input_signature=[SEQUENCE])
    def folded(self, x: tf.Tensor) -> Tensors:
        size = tf.shape(x)
        flat = tf.reshape(x, [size[0], size[1] * 8])
        return {
            "flat": flat[:, ::2],
            "products": tf.einsum("bij,bkj->bik", x, x),
            "padded": tf.pad(x, [[0, 0], [1, 2], [0, 0]], "REFLECT"),
            "cumulated": tf.cumsum(x, axis=1, reverse=True),
            "parts": tf.stack(tf.split(x, 2, axis=2)),
        }

    @tf.function(input_signature=[X])
    def top(self, x: tf.Tensor) -> Tensors:
        values, places = tf.nn.top_k(x, k=2)
        return {
            "values": values,
            "places": places,
            "best": tf.argmax(x, axis=1),
            "sorted": tf.sort(x, axis=1),
            "band": tf.where(x > 0, x, tf.zeros_like(x)),
        }

    @tf.function(input_signature=[X, _spec(tf.int32, None, name="n")])
    def scattered(self, x: tf.Tensor, n: tf.Tensor) -> Tensors:
        return {
            "sum": tf.math.unsorted_segment_sum(x, n, 3),
            "scattered": tf.tensor_scatter_nd_update(x, n[:, tf.newaxis], x[::-1] * 0 + 1.0),
            "gathered": tf.gather(x, n, batch_dims=1),
        }

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def any_rank(self, x: tf.Tensor) -> Tensors:
        return {"y": tf.nn.relu(x) * 2.0}


class Strings(tf.Module):  # type: ignore[misc]
    """Tables and labels around arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.reshape(tf.range(12, dtype=tf.float32), [4, 3]) / 10)
        initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        self.ids = tf.lookup.StaticHashTable(initializer, 0)
        self.names = tf.constant(["low", "middle", "high"])

    @tf.function(input_signature=[_spec(tf.string, None, name="words")])
    def look_up(self, words: tf.Tensor) -> Tensors:
        ids = self.ids.lookup(words)
        return {"ids": ids, "rows": tf.gather(self.kernel, ids)}

    @tf.function(input_signature=[X])
    def labels(self, x: tf.Tensor) -> Tensors:
        scores, places = tf.nn.top_k(tf.nn.softmax(x @ self.kernel), k=2)
        return {"scores": scores, "classes": tf.gather(self.names, places)}

    @tf.function(input_signature=[X])
    def heads(self, x: tf.Tensor) -> Tensors:
        """Classify twice, as Estimators' heads do, with the names of all classes for each row."""
        logits = x @ self.kernel
        best = tf.argmax(logits, axis=-1)
        rows = tf.shape(x)[0]
        return {
            "first/classes": tf.gather(self.names, best)[:, tf.newaxis],
            "first/all_classes": tf.tile(self.names[tf.newaxis], [rows, 1]),
            "first/probabilities": tf.nn.softmax(logits),
            "second/classes": tf.strings.as_string(best)[:, tf.newaxis],
            "second/logistic": tf.sigmoid(logits[:, :1]),
        }

    @tf.function(input_signature=[_spec(tf.string, None, name="s")])
    def text(self, s: tf.Tensor) -> Tensors:
        words = tf.strings.split(tf.strings.lower(s))
        return {"words": words.to_tensor(""), "sizes": tf.strings.length(s)}


class Jpeg(tf.Module):  # type: ignore[misc]
    """Image models that take compressed bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.ones([3, 2]) / 3)

    def _decode(self, image: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_jpeg(image, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.image.resize(tf.image.convert_image_dtype(pixels, tf.float32), [8, 8])

    @tf.function(input_signature=[_spec(tf.string, None, name="bytes")])
    def batch(self, bytes: tf.Tensor) -> Tensors:
        images = tf.map_fn(self._decode, bytes, fn_output_signature=tf.float32)
        return {"scores": tf.nn.softmax(tf.reduce_mean(images, [1, 2]) @ self.kernel)}

    @tf.function(input_signature=[_spec(tf.string, name="image")])
    def one(self, image: tf.Tensor) -> Tensors:
        return {"mean": tf.reduce_mean(self._decode(image), [0, 1])}


MODULES: Mapping[str, tuple[type[tf.Module], Mapping[str, str]]] = {
    "module_several": (
        Several,
        {
            "serving_default": "plain",
            "scaled": "scaled",
            "several": "several",
            "scalar": "scalar",
            "wide": "wide",
            "bytes": "bytes",
        },
    ),
    "module_loops": (
        Loops,
        {"serving_default": "recurrent", "steps": "steps", "branch": "branch"},
    ),
    "module_sparse": (
        Sparse,
        {"serving_default": "mean", "weighted": "weighted", "safe": "safe", "ragged": "ragged"},
    ),
    "module_shapes": (
        Shapes,
        {
            "serving_default": "folded",
            "top": "top",
            "scattered": "scattered",
            "any_rank": "any_rank",
        },
    ),
    "module_jpeg": (Jpeg, {"serving_default": "batch", "one": "one"}),
    "module_strings": (
        Strings,
        {"serving_default": "look_up", "labels": "labels", "heads": "heads", "text": "text"},
    ),
}
"""The method behind each signature, by model."""


def write(root: Path) -> None:
    for name, (kind, methods) in MODULES.items():
        module = kind()
        functions = {key: getattr(module, method) for key, method in methods.items()}
        tf.saved_model.save(module, str(root / name / "1"), signatures=functions)
