"""Writes SavedModels whose init op sets variables and tables, each with what TensorFlow answers.

Run as a program, as `tests/unit/engines/savedmodel/exports.py` describes it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.trackable.resource import TrackableResource

from tests.unit.engines.savedmodel.exports import Signatures, expect, signature, strings

X = np.array([1, 2.5], np.float32)
ROWS = np.array([[1, 2], [3, -4]], np.float32)
KEYS = strings(b"saved", b"set", b"both", b"neither")


def variable(name: str, value: Any, *, resource: bool = True) -> Any:
    return v1.get_variable(name, initializer=tf.constant(value), use_resource=resource)


def plain() -> tuple[Signatures, Any]:
    """Variables of either kind that are set, read and added to, one after the other."""
    x = v1.placeholder(tf.float32, [None], name="x")
    kept, was = variable("kept", 3.0), variable("was", 1.0)
    reference, was_reference = (variable(name, 1.0, resource=False) for name in ("ref", "was_ref"))
    resource, copied, added = (variable(name, 1.0) for name in ("resource", "copied", "added"))
    both = [resource.assign(5.0), v1.assign(reference, 5.0), added.assign_add(2.0)]
    both.append(copied.assign(kept.read_value() * 2.0))
    with v1.control_dependencies(both):
        seen = [was.assign(resource.read_value()), v1.assign(was_reference, reference + 1.0)]
    with v1.control_dependencies(seen):
        again = [resource.assign(7.0), v1.assign_sub(reference, 2.0), added.assign_add(added * 3.0)]
    given = {"kept": kept, "was": was, "ref": reference, "was_ref": was_reference}
    given |= {"resource": resource, "copied": copied, "added": added}
    signatures = {name: signature({"x": x}, {"y": x + each}) for name, each in given.items()}
    signatures["held"] = signature({"x": x}, {"y": x, "held": resource * 2.0})
    return signatures, tf.group(*again)


def one() -> tuple[Signatures, Any]:
    """The smallest: a variable that is saved as 1 and set to 5."""
    x = v1.placeholder(tf.float32, [None], name="x")
    v = variable("v", 1.0)
    return {"serving_default": signature({"x": x}, {"y": x + v})}, v1.assign(v, 5.0)


def arithmetic() -> tuple[Signatures, Any]:
    """Variables that OpenVINO multiplies by, gathers from, and reads in loops and branches."""
    rows = v1.placeholder(tf.float32, [None, 2], name="rows")
    ids = v1.placeholder(tf.int64, [None], name="ids")
    kernel, table = variable("kernel", ROWS), variable("table", np.zeros((3, 2), np.float32))
    steps = variable("steps", 1)
    sets = tf.group(
        kernel.assign(tf.reshape(tf.range(4.0), [2, 2])),
        table.assign(tf.reshape(tf.range(6.0), [3, 2])),
        steps.assign(3),
    )
    product = tf.matmul(rows, kernel)
    (looped,) = tf.while_loop(
        lambda y: tf.reduce_sum(y) < 100.0, lambda y: [tf.matmul(tf.exp(y), kernel)], [rows]
    )
    branch = tf.cond(
        tf.reduce_sum(rows) > 1.0, lambda: tf.matmul(rows, kernel), lambda: tf.sin(rows)
    )
    folded = tf.matmul(rows, tf.matmul(kernel, tf.sin(kernel)))
    powers = tf.while_loop(
        lambda at, y: at < steps, lambda at, y: [at + 1, tf.matmul(y, kernel)], [0, rows]
    )[1]
    gathered = tf.nn.embedding_lookup(table, ids)
    return {
        "product": signature({"rows": rows}, {"y": product}),
        "gathered": signature({"ids": ids}, {"y": tf.matmul(gathered, kernel)}),
        "looped": signature({"rows": rows}, {"y": looped}),
        "branch": signature({"rows": rows}, {"y": branch}),
        "folded": signature({"rows": rows}, {"y": folded}),
        "powers": signature({"rows": rows}, {"y": powers}),
    }, sets


def tables() -> tuple[Signatures, Any]:
    """Tables into which the init op inserts, one of them with what the checkpoint holds."""
    keys = v1.placeholder(tf.string, [None], name="keys")
    made = [
        tf.lookup.experimental.MutableHashTable(
            tf.string, tf.int64, -1, name=name, experimental_is_anonymous=False, checkpoint=stored
        )
        for name, stored in (("stored", True), ("filled", False), ("empty", False))
    ]
    one, two = tf.constant([1, 2], tf.int64), tf.constant([3, 4], tf.int64)
    v1.get_default_session().run(made[0].insert(tf.constant(["saved", "both"]), one))
    first = made[1].insert(tf.constant(["both", "neither"]), one)
    with v1.control_dependencies([first, made[0].insert(tf.constant(["set", "both"]), two)]):
        sets = made[1].insert(tf.constant(["both", "set"]), two)
    found = {each.name: each.lookup(keys) for each in made}
    outputs = dict(zip(("stored", "filled", "empty"), found.values(), strict=True))
    sizes = {f"size_{name}": each.size() for name, each in zip(outputs, made, strict=True)}
    return {
        "serving_default": signature({"keys": keys}, outputs),
        "sizes": signature({"keys": keys}, {"y": tf.identity(keys), **sizes}),
    }, sets


def kinds() -> tuple[Signatures, Any]:
    """Variables of other dtypes, and one that no checkpoint holds."""
    x = v1.placeholder(tf.float32, [None], name="x")
    ids = v1.placeholder(tf.int32, [None], name="ids")
    names, large = variable("names", ["a", "b"]), variable("large", np.array([1, 2], np.int64))
    flag = variable("flag", False)
    local = v1.get_variable("local", initializer=2.0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
    sets = [names.assign(["c", "d"]), large.assign([2**40, 3]), flag.assign(True)]
    return {
        "names": signature({"ids": ids}, {"y": tf.gather(names, ids), "held": names.read_value()}),
        "large": signature({"ids": ids}, {"y": tf.gather(large, ids), "held": large + 1}),
        "flag": signature({"x": x}, {"y": tf.where(flag, tf.sin(x), x)}),
        "local": signature({"x": x}, {"y": tf.sin(x) * local}),
    }, tf.group(*sets, v1.local_variables_initializer())


def read_elsewhere() -> tf.Tensor:
    """Write a checkpoint that is no part of the model, and read from it."""
    prefix = str(Path.cwd() / "elsewhere")
    save = tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["v"], shape_and_slices=[""], tensors=[tf.constant([5.0])]
    )
    v1.get_default_session().run(save)
    (found,) = tf.raw_ops.RestoreV2(
        prefix=prefix, tensor_names=["v"], shape_and_slices=[""], dtypes=[tf.float32]
    )
    return found


def unclear() -> tuple[Signatures, Any]:
    """What the server does not compute at load, beside what it need not."""
    x = v1.placeholder(tf.float32, [None], name="x")
    names = ("kept", "drawn", "branched", "scattered", "reads", "elsewhere")
    kept, drawn, branched, scattered, reads, elsewhere = (variable(each, [1.0]) for each in names)
    draw = drawn.assign(tf.random.normal([1]))
    choose = tf.cond(kept[0] > 0.0, lambda: branched.assign([5.0]), branched.read_value)
    scatter = v1.scatter_update(scattered, [0], [5.0])
    keys = v1.placeholder(tf.string, [None], name="keys")
    removed = tf.lookup.experimental.MutableHashTable(
        tf.string, tf.int64, -1, name="removed", experimental_is_anonymous=False
    )
    remove = removed.remove(tf.constant(["saved"]))
    with v1.control_dependencies([draw]):
        set_reads = reads.assign(drawn.read_value())
    sets = tf.group(draw, choose, scatter, remove, set_reads, elsewhere.assign(read_elsewhere()))
    read = {"kept": kept, "drawn": drawn, "branched": branched, "scattered": scattered}
    read |= {"reads": reads, "elsewhere": elsewhere}
    signatures = {name: signature({"x": x}, {"y": x + each}) for name, each in read.items()}
    signatures["removed"] = signature({"x": keys}, {"y": removed.lookup(keys)})
    return signatures, sets


def unclear_first() -> tuple[Signatures, Any]:
    """A branch in the form of TensorFlow 1, and an assignment to what an assignment gives."""
    x = v1.placeholder(tf.float32, [None], name="x")
    chained, branched = (variable(name, 1.0, resource=False) for name in ("chained", "branched"))
    kept = variable("kept", 3.0)
    v1.disable_control_flow_v2()
    choose = tf.cond(
        kept > 0.0,
        lambda: v1.assign(branched, 5.0),
        lambda: tf.identity(branched),
    )
    v1.enable_control_flow_v2()
    sets = tf.group(v1.assign_add(v1.assign(chained, 5.0), 1.0), choose)
    read = {"kept": kept, "chained": chained, "branched": branched}
    return {name: signature({"x": x}, {"y": x + each}) for name, each in read.items()}, sets


class Setting(TrackableResource):  # type: ignore[misc]
    """A resource whose `_initialize` assigns, as TensorFlow 2 runs it when the model is loaded."""

    def __init__(self, *variables: tf.Variable) -> None:
        super().__init__()
        self._variables = variables

    def _create_resource(self) -> Any:
        return tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.string, value_dtype=tf.int64, shared_name="setting"
        )

    def _initialize(self) -> None:
        scale, rows = self._variables
        scale.assign(5.0)
        rows.assign(rows * scale)


class Second(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.rows = tf.Variable(1.0), tf.Variable(ROWS)
        self.kept = tf.Variable(2.0)
        self.setting = Setting(self.scale, self.rows)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def scaled(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x * self.scale + self.kept, "scale": self.scale.read_value()}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def product(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(x, self.rows) * self.kept}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="ids")])
    def gathered(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.sin(tf.gather(self.rows, ids))}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def looped(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        for _ in tf.range(3):
            x = tf.matmul(x, self.rows) * self.kept
        return {"y": x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def untouched(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x * self.kept}


INPUTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "one": {"serving_default": {"x": X}},
    "plain": {
        name: {"x": X}
        for name in ("kept", "was", "ref", "was_ref", "resource", "copied", "added", "held")
    },
    "arithmetic": {
        "product": {"rows": ROWS},
        "gathered": {"ids": np.array([2, 0, 1], np.int64)},
        "looped": {"rows": ROWS},
        "branch": {"rows": ROWS},
        "folded": {"rows": ROWS},
        "powers": {"rows": ROWS},
    },
    "tables": {"serving_default": {"keys": KEYS}, "sizes": {"keys": KEYS}},
    "kinds": {
        "names": {"ids": np.array([1, 0], np.int32)},
        "large": {"ids": np.array([1, 0], np.int32)},
        "flag": {"x": X},
        "local": {"x": X},
    },
    "unclear": {"kept": {"x": X}},
    "unclear_first": {"kept": {"x": X}},
    "second": {
        "scaled": {"x": X},
        "product": {"x": ROWS},
        "gathered": {"ids": np.array([1, 0], np.int32)},
        "looped": {"x": ROWS},
        "untouched": {"x": X},
    },
}


def write(path: Path, graph: Any, *, legacy: bool) -> None:
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        signatures, sets = graph()
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        op = sets.op if isinstance(sets, tf.Tensor | tf.Variable) else sets
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map=signatures,
            **{"legacy_init_op" if legacy else "main_op": op},
        )
        builder.save()


def main(root: Path) -> None:
    for graph in (one, plain, arithmetic, tables, kinds, unclear, unclear_first):
        write(root / graph.__name__ / "1", graph, legacy=graph is plain)
    module = Second()
    module.setting.resource_handle  # noqa: B018 (makes it a part of the graph)
    signatures = {name: getattr(module, name) for name in INPUTS["second"]}
    tf.saved_model.save(module, str(root / "second" / "1"), signatures=signatures)
    for name, asked in INPUTS.items():
        expect(root, name, asked)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
