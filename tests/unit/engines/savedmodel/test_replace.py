"""Each operation that is written out computes what it computed before, as TensorFlow runs both."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.engines.savedmodel.replace import (
    REPLACED,
    has_replaced,
    replace_operations,
)
from ie_serving.wire.protobuf import graph

X = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = np.array([0, 0, 2, 2], np.int32)

CASES: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "sum of rows by segment": (
        "SparseSegmentSum",
        lambda x, ids: tf.sparse.segment_sum(x, ids[::-1], ids),
    ),
    "segments of 64 bits": (
        "SparseSegmentSum",
        lambda x, ids: tf.sparse.segment_sum(x, ids, tf.cast(ids, tf.int64)),
    ),
    "no rows": ("SparseSegmentSum", lambda x, ids: tf.sparse.segment_sum(x, ids[:0], ids[:0])),
    "mean by segment, one empty": ("SegmentMean", tf.math.segment_mean),
    "counts of a row": (
        "DenseBincount",
        lambda _, ids: tf.math.bincount(ids, minlength=4, maxlength=4, axis=-1),
    ),
    "which occur in each row": (
        "DenseBincount",
        lambda _, ids: tf.math.bincount(
            tf.reshape(ids, [2, 2]), minlength=4, maxlength=4, axis=-1, binary_output=True
        ),
    ),
    "counts with weights": (
        "DenseBincount",
        lambda x, ids: tf.math.bincount(
            ids, x[:, 1], minlength=4, maxlength=4, axis=-1, dtype=tf.float32
        ),
    ),
    "several updates of one place": (
        "ScatterNd",
        lambda x, ids: tf.scatter_nd(ids[:, tf.newaxis], x, [4, 3]),
    ),
    "normalization over near channels": (
        "LRN",
        lambda x, _: tf.nn.lrn(tf.reshape(x, [1, 2, 1, 6]), 2, bias=2.0, alpha=0.5, beta=0.7),
    ),
    "normalization as it is by default": (
        "LRN",
        lambda x, _: tf.nn.lrn(tf.reshape(x, [1, 1, 1, 12])),
    ),
    "numbers that are apart by the tolerance itself": (
        "ApproximateEqual",
        lambda x, _: tf.cast(
            tf.raw_ops.ApproximateEqual(x=x, y=x[:, ::-1], tolerance=2.0), tf.float32
        ),
    ),
    "counts of a single value": (
        "Bincount",
        lambda _, ids: tf.raw_ops.Bincount(
            arr=ids[:1] + 2, size=5, weights=tf.constant([], tf.float32)
        ),
    ),
    "counts of a single value without weights that are known": (
        "Bincount",
        lambda x, ids: _counted(ids[:1] + 2, x[4:, 0]),
    ),
    "counts of all values of a table, with weights": (
        "Bincount",
        lambda x, ids: tf.raw_ops.Bincount(
            arr=tf.reshape(ids, [2, 2]), size=5, weights=tf.reshape(x[:, 1], [2, 2])
        ),
    ),
    "boxes of no score": (
        "NonMaxSuppressionV2",
        lambda x, _: _suppressed(x, "NonMaxSuppressionV2"),
    ),
    "boxes of no score in the first form": (
        "NonMaxSuppression",
        lambda x, _: _suppressed(x, "NonMaxSuppression"),
    ),
    "several flags of one place": (
        "ScatterNd",
        lambda x, ids: tf.cast(tf.scatter_nd(ids[:, tf.newaxis], x > 5, [4, 3]), tf.float32),
    ),
    "quotients of integers": (
        "Div",
        lambda _, ids: tf.raw_ops.Div(x=ids * 3 - 5, y=tf.constant([3, -3, 2, 4])),
    ),
    "sparse places in other dimensions": (
        "SparseReshape",
        lambda x, _: tf.sparse.to_dense(tf.sparse.reshape(_sparse(x), [3, -1])),
    ),
    "sparse places in one dimension": (
        "SparseReshape",
        lambda x, _: tf.sparse.to_dense(tf.sparse.reshape(_sparse(x[:2]), [6])),
    ),
    "sparse places in other dimensions, twice": (
        "SparseReshape",
        lambda x, _: tf.sparse.to_dense(
            tf.sparse.reshape(tf.sparse.reshape(_sparse(x), [3, -1]), [-1, 2])
        ),
    ),
    **{
        f"turned round along {axes}": (
            "ReverseV2",
            lambda x, _, axes=axes: tf.reverse(tf.reshape(x, [2, 3, 2]), axes),
        )
        for axes in ([-1], [0, 1], [2, -3, 1], [-1, -2])
    },
    "embeddings of ids in three dimensions": (
        "SparseReshape",
        lambda x, ids: tf.nn.safe_embedding_lookup_sparse(
            tf.gather(x, tf.range(4)), _sparse(tf.stack([[ids[:2], ids[2:]]]))
        ),
    ),
}


def _counted(values: Any, weights: Any) -> Any:
    return tf.raw_ops.Bincount(arr=values, size=5, weights=weights)


def _suppressed(x: Any, op: str) -> Any:
    boxes = tf.concat([x, x[:, :1] + 3], 1)
    attributes = {"boxes": boxes, "scores": -x[:, 0], "max_output_size": 3}
    return getattr(tf.raw_ops, op)(**attributes, iou_threshold=0.5)


def _sparse(dense: Any) -> Any:
    """Give the values of a tensor of three dimensions that are not 0."""
    cube = tf.reshape(dense, [1, 2, -1])
    return tf.sparse.from_dense(tf.cast(cube, tf.int64))


def answers(definition: Any) -> Any:
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        v1.import_graph_def(definition, name="")
        return session.run("y:0", {"x:0": X, "ids:0": IDS})


@pytest.mark.parametrize("inside", [False, True], ids=["in the graph", "in a function"])
@pytest.mark.parametrize(("op", "compute"), CASES.values(), ids=CASES)
def test_an_operation_that_is_written_out_computes_the_same(
    op: str, compute: Callable[[Any, Any], Any], inside: bool
) -> None:
    with v1.Graph().as_default() as made:
        x, ids = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.int32, [None], "ids")
        tf.identity((tf.function(compute) if inside else compute)(x, ids), name="y")
    definition = made.as_graph_def()
    changed = graph.GraphDef.FromString(definition.SerializeToString())
    replace_operations(changed)
    functions = changed.library.function
    ops = {node.op for nodes in (changed.node, *(f.node_def for f in functions)) for node in nodes}
    assert op in REPLACED
    assert op not in ops
    got = answers(v1.GraphDef.FromString(changed.SerializeToString()))
    np.testing.assert_allclose(got, answers(definition), rtol=1e-6)


def test_embeddings_of_ids_in_two_dimensions_keep_their_places() -> None:
    """OpenVINO computes them as they are: with less than half of the operations."""
    with v1.Graph().as_default() as made:
        ids, rows = v1.placeholder(tf.int64, [None, None], "ids"), tf.constant(X)
        tf.nn.safe_embedding_lookup_sparse(rows, tf.sparse.from_dense(ids))
    changed = graph.GraphDef.FromString(made.as_graph_def().SerializeToString())
    replace_operations(changed)
    assert "SparseReshape" in {node.op for node in changed.node}


def test_a_graph_without_them_is_left_as_it_is() -> None:
    with v1.Graph().as_default() as made:
        tf.identity(v1.placeholder(tf.float32, [None], "x") * 2.0, name="y")
    held = graph.GraphDef.FromString(made.as_graph_def().SerializeToString())
    assert not has_replaced(held)
