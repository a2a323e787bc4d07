"""What programs of TensorFlow 1 wrote: `simple_save`, reference variables, their control flow."""

from pathlib import Path

import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.unit.engines.savedmodel.exports import (
    Signatures,
    first_control_flow,
    first_generation,
    signature,
)


def write(root: Path) -> None:
    _write_simple(root / "simple_save" / "1")
    _write_simple(root / "simple_table" / "1", named=True)
    first_generation(root / "first_loops" / "1", _loops)


def _write_simple(path: Path, *, named: bool = False) -> None:
    """Save a graph with variables of both kinds, an asset, a table of it and its initialization.

    Args:
        path: of the version.
        named: the table names the best class in an output.
    """
    asset = path.parent / "vocabulary.txt"
    asset.parent.mkdir()
    asset.write_text("low\nhigh\n")
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        keep = v1.placeholder_with_default(1.0, [], name="keep_prob")
        kernel = v1.get_variable("kernel", initializer=tf.ones([4, 2]), use_resource=True)
        bias = v1.get_variable("bias", initializer=tf.constant([0.5, -0.5]), use_resource=False)
        vocabulary = v1.constant(str(asset))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, vocabulary)
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                vocabulary,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
            ),
            "none",
        )
        scores = tf.nn.sigmoid((x @ kernel) * keep + bias, name="scores")
        best = tf.argmax(scores, 1)
        outputs = {"classes": table.lookup(best)} if named else {"scores": scores, "best": best}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        v1.saved_model.simple_save(
            session,
            str(path),
            inputs={"x": x, "keep_prob": keep},
            outputs=outputs,
            legacy_init_op=v1.tables_initializer(),
        )


def _loops() -> Signatures:
    """Count and accumulate with the loops and branches of TensorFlow 1."""
    with first_control_flow():
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        _, y = v1.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, y * 0.5 + x), [tf.constant(0), x]
        )
        training = v1.placeholder_with_default(False, [], name="is_training")
        kept = v1.cond(training, lambda: y * 2.0, lambda: y)
    return {
        "serving_default": signature({"x": x}, {"y": y}),
        "branch": signature({"x": x, "is_training": training}, {"y": kept}),
    }
