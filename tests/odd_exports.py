"""Writes SavedModels with odd signatures and odd files, by TensorFlow. Run as a program.

partly    signatures that different stages of a load refuse, beside good ones
hopeless  none but signatures that are refused
text      saved_model.pbtxt, with variables and with Examples
ranks     inputs of unknown rank
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1
from flatbuffers import Builder, flexbuffers
from google.protobuf import text_format
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.lite.python import schema_py_generated as schema


def first_generation(path: Path, graph: Callable[[], Mapping[str, Any]]) -> None:
    """Write a graph of TensorFlow 1 with a session."""
    with v1.Graph().as_default() as made, v1.Session(graph=made) as session:
        signatures = graph()
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()


def signature(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    info = v1.saved_model.utils.build_tensor_info
    return v1.saved_model.signature_def_utils.build_signature_def(
        {alias: info(tensor) for alias, tensor in inputs.items()},
        {alias: info(tensor) for alias, tensor in outputs.items()},
        "tensorflow/serving/predict",
    )


def refused() -> dict[str, Any]:
    """Make signatures that are read wrongly, or that no rewrite or front end takes."""
    wave = v1.placeholder(tf.complex64, [None], name="wave")
    sparse = v1.sparse_placeholder(tf.float32, [None, 3], name="sparse")
    square = v1.placeholder(tf.float32, [None, 2, 2], name="square")
    lost = signature({"x": square}, {"y": square})
    lost.outputs["y"].name = "nowhere:0"
    return {
        "serving_default": signature({"x": square}, {"y": tf.linalg.eigh(square)[0]}),
        "complex": signature({"wave": wave}, {"y": tf.abs(wave)}),
        "sparse": signature({"s": sparse}, {"y": tf.sparse.to_dense(sparse)}),
        "lost": lost,
    }


def partly() -> dict[str, Any]:
    x = v1.placeholder(tf.float32, [None, 2], name="x")
    z = v1.placeholder(tf.float32, [None, 3], name="z")
    keep = v1.placeholder(tf.float32, [], name="keep")
    weights = v1.get_variable("weights", initializer=[[1.0], [2.0]])
    y = tf.matmul(x, weights)
    rank_in_graph = signature({"x": x}, {"y": y})
    rank_in_graph.inputs["x"].tensor_shape.Clear()
    rank_in_graph.inputs["x"].tensor_shape.unknown_rank = True
    declared = signature({"x": x, "keep": keep}, {"y": y * keep})
    declared.defaults["keep"].CopyFrom(tf.make_tensor_proto(0.25))
    return {
        **refused(),
        "good": signature({"x": x}, {"y": y}),
        "other": signature({"z": z}, {"y": z * 2.0}),
        "declared": declared,
        "rank_in_graph": rank_in_graph,
    }


class Module(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable([[1.0], [2.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def multiply(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(x, self.kernel)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def parse(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features = {"a": tf.io.FixedLenFeature([2], tf.float32)}
        return {"y": tf.matmul(tf.io.parse_example(examples, features)["a"], self.kernel)}

    @tf.function(
        input_signature=[
            tf.TensorSpec(None, tf.float32, name="a"),
            tf.TensorSpec(None, tf.float32, name="b"),
        ]
    )
    def any_rank(self, a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.relu(a) * self.kernel[1, 0] + b}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def matrix(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(x, self.kernel), "same": tf.constant(["k"])}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def ten_times(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.matmul(x, self.kernel) * 10.0}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, name="a"),
            tf.TensorSpec([1], tf.float32, name="b"),
        ]
    )
    def two(self, a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"sum": a + b, "product": a * b}


class Wrong(tf.Module):  # type: ignore[misc]
    """Lists and outputs; `rows` is the input of all."""

    rows = (tf.TensorSpec([None, 4], tf.float32, name="rows"),)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="ids")])
    def second_outputs(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        found, places, counts = tf.unique_with_counts(ids)
        return {"places": places, "counts": counts, "found": found}

    @tf.function(input_signature=rows)
    def grows(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        made = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(tf.shape(rows)[0]):
            made = made.write(i, rows[i] * 2.0)
        return {"y": made.stack()}

    @tf.function(input_signature=rows)
    def grows_without_loop(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        made = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        return {"y": made.write(0, rows[0]).write(1, rows[1]).stack()}

    @tf.function(input_signature=rows)
    def joins(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        made = tf.TensorArray(tf.float32, 2, infer_shape=False, element_shape=[None, 4])
        return {"y": made.write(0, rows[:1]).write(1, rows).concat()}

    @tf.function(input_signature=rows)
    def joins_alike(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        made = tf.TensorArray(tf.float32, tf.shape(rows)[0], element_shape=[2, 4])
        for i in tf.range(tf.shape(rows)[0]):
            made = made.write(i, tf.stack([rows[i], -rows[i]]))
        return {"y": made.concat()}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 6], tf.float32, name="x")])
    def normalized(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.lrn(x, 1)}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 6], tf.float32, name="x")])
    def pooled(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        values, places = tf.nn.max_pool_with_argmax(x, 3, 2, "SAME")
        return {"values": values, "places": places}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 6], tf.float32, name="x")])
    def pooled_by_strides(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        values, places = tf.nn.max_pool_with_argmax(x, 3, 2, "VALID")
        return {"values": values, "places": places}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 1], tf.float32, name="x")])
    def spread(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Transpose a convolution as JAX does: by one of its input with zeros in between."""
        ones, twos, kernel, padding = [1, 1], [2, 2], tf.ones([3, 3, 1, 1]), [[1, 1], [1, 1]]
        numbers = xla_data_pb2.ConvolutionDimensionNumbers(
            input_batch_dimension=0,
            input_feature_dimension=3,
            input_spatial_dimensions=[1, 2],
            kernel_input_feature_dimension=2,
            kernel_output_feature_dimension=3,
            kernel_spatial_dimensions=[0, 1],
            output_batch_dimension=0,
            output_feature_dimension=3,
            output_spatial_dimensions=[1, 2],
        ).SerializeToString()
        given = (x, kernel, ones, padding, twos, ones, 1, numbers, "", tf.float32)
        return {"y": gen_xla_ops.xla_conv_v2(*given)}

    @tf.function(input_signature=rows)
    def other_rank(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        _, scores = tf.nn.ctc_greedy_decoder(rows[:, None, :], tf.shape(rows)[:1])
        return {"scores": scores}

    @tf.function(input_signature=rows)
    def has_its_size(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        made = tf.TensorArray(tf.float32, size=tf.shape(rows)[0], dynamic_size=True)
        for i in tf.range(tf.shape(rows)[0]):
            made = made.write(i, rows[i] * 2.0)
        return {"y": made.stack()}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="ids")])
    def gathers(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.gather(tf.constant([7.0, 8.0, 9.0]), ids)}


def wrong(path: Path) -> None:
    module = Wrong()
    names = [
        "grows",
        "grows_without_loop",
        "joins",
        "joins_alike",
        "normalized",
        "pooled",
        "pooled_by_strides",
        "spread",
        "other_rank",
        "has_its_size",
        "gathers",
    ]
    signatures = {name: getattr(module, name) for name in names}
    signatures["serving_default"] = module.second_outputs
    tf.saved_model.save(module, str(path), signatures=signatures)


def lite(module: Module, root: Path) -> None:
    """Write TFLite models as their converter does, and changed ones."""
    source = root / "for_lite"
    signatures = {"serving_default": module.multiply, "two": module.two}
    tf.saved_model.save(module, str(source), signatures=signatures)
    keys = ["serving_default", "two"]
    converter = tf.lite.TFLiteConverter.from_saved_model(str(source), signature_keys=keys)
    data = converter.convert()
    two = tf.lite.TFLiteConverter.from_saved_model(str(source), signature_keys=["two"]).convert()
    tf.saved_model.save(module, str(root / "lite" / "1"), signatures=module.ten_times)
    versions = {
        "lite": data,
        "plain": changed(data, undeclared),
        "plain_two": changed(two, undeclared),
        "defs": changed(data, declared),
    }
    for name, model in versions.items():
        (root / name / "1").mkdir(parents=True, exist_ok=True)
        (root / name / "1" / "model.tflite").write_bytes(model)


def changed(data: bytes, change: Callable[[Any], None]) -> bytes:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    change(model)
    builder = Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def undeclared(model: Any) -> None:
    model.signatureDefs = None


def declared(model: Any) -> None:
    """Put SignatureDefs where TensorFlow Serving looks for them."""
    x = tf.TensorSpec([None, 2], tf.float32, name="serving_default_x")
    y = tf.TensorSpec([None, 1], tf.float32, name="StatefulPartitionedCall")
    infos = [saved_model_pb2.SavedModel().meta_graphs.add().signature_def["s"] for _ in range(2)]
    good, bad = infos
    good.method_name = "tensorflow/serving/regress"
    for infos, spec in ((good.inputs, x), (good.outputs, y), (bad.inputs, x)):
        infos["in" if spec is x else "out"].name = f"{spec.name}:0"
        infos["in" if spec is x else "out"].dtype = 1
        infos["in" if spec is x else "out"].tensor_shape.CopyFrom(spec.shape.as_proto())
    bad.outputs["out"].name = "nowhere:0"
    encoded = flexbuffers.Dumps(
        {"serving_default": good.SerializeToString(), "bad": bad.SerializeToString()}
    )
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = encoded
    entry.name, entry.buffer = "signature_defs_metadata", len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]


def as_text(directory: Path) -> None:
    """Write the same SavedModel as text."""
    binary = directory / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(binary.read_bytes())
    (directory / "saved_model.pbtxt").write_text(text_format.MessageToString(model))
    binary.unlink()


def main(root: Path) -> None:
    first_generation(root / "partly" / "1", partly)
    first_generation(root / "hopeless" / "1", refused)
    module = Module()
    signatures = {"serving_default": module.multiply, "parse": module.parse}
    tf.saved_model.save(module, str(root / "text" / "1"), signatures=signatures)
    as_text(root / "text" / "1")
    signatures = {
        "serving_default": module.multiply,
        "any_rank": module.any_rank,
        "matrix": module.matrix,
    }
    tf.saved_model.save(module, str(root / "ranks" / "1"), signatures=signatures)
    wrong(root / "wrong" / "1")
    lite(module, root)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
