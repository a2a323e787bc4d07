"""Writes TFLite models that OpenVINO answers otherwise than LiteRT. Run as a program.

nearest   a picture by its nearest pixels, with centres at halves: all values
scatter   rows at places that a request gives: where these repeat, TensorFlow adds the rows up
most      the greatest of a row: with NaN
quantized as nearest, of 8 bits
sum       alike
counting  adds up what it was given, in a variable
frames    likewise, of two rows
transposed        a transposed convolution
transposed_valid  another
mediapipe         as transposed, by the operation that MediaPipe's files have for it
mediapipe_valid   as transposed_valid
unknown           as transposed, by an operation that no engine has
beside            as mediapipe, and behind it an operation that OpenVINO lacks
select            as unknown, by one of TensorFlow
examples          likewise, by one of TensorFlow that TensorFlow Serving adds to its interpreter
recurrent         an LSTM, whose state is in tensors that keep their values
svdf              an SVDF of 8 bits, with a state of 16
micro             likewise, with a state of 8, which only TensorFlow Lite Micro takes
partly            two signatures, one of them with an operation that OpenVINO lacks
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

PICTURE = [tf.TensorSpec([None, 4, 4, 1], name="x")]
ONE_PICTURE = [tf.TensorSpec([1, 4, 4, 1], name="x")]
ROWS = [tf.TensorSpec([3, 1], tf.int32, name="i"), tf.TensorSpec([3, 2], name="x")]
ROW = [tf.TensorSpec([None, 3], name="x")]


def nearest(x: Any) -> Any:
    return tf.raw_ops.ResizeNearestNeighbor(images=x, size=[3, 6], half_pixel_centers=True)


def transposed(padding: str) -> Callable[[Any], Any]:
    random = np.random.default_rng(2)
    kernel, bias = (random.standard_normal(each).astype(np.float32) for each in ((3, 2, 5, 1), 5))
    sizes = [1, 8, 8, 5] if padding == "SAME" else [1, 9, 8, 5]
    strides = [1, 2, 2, 1]

    def compute(x: Any) -> Any:
        made = tf.nn.conv2d_transpose(x, kernel, sizes, strides, padding)
        return tf.nn.bias_add(made, bias)

    return compute


def counted(module: tf.Module) -> Callable[[Any], Any]:
    module.seen = tf.Variable(tf.zeros(3))
    return lambda x: x + module.seen.assign_add(tf.reduce_sum(x, 0))


def recurrent() -> Any:
    """Make a model of Keras; not on import, since its variables start TensorFlow's threads."""
    import tf_keras

    return tf_keras.Sequential(
        [tf_keras.layers.Input((4, 3), 1, name="x"), tf_keras.layers.LSTM(2)]
    )


def with_custom(file: bytes, name: str) -> bytes:
    """Exchange the transposed convolution for a custom operation with the bias in it."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file))
    (graph,) = model.subgraphs
    (place,) = [
        i
        for i, code in enumerate(model.operatorCodes)
        if code.builtinCode == schema.BuiltinOperator.TRANSPOSE_CONV
    ]
    code = model.operatorCodes[place]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = name
    (node,) = [each for each in graph.operators if each.opcodeIndex == place]
    options = node.builtinOptions
    _, kernel, x, bias = node.inputs
    same = options.padding == schema.Padding.SAME
    node.inputs = [x, kernel, bias]
    node.builtinOptions, node.builtinOptionsType = None, 0
    given = np.array([1 if same else 2, options.strideW, options.strideH], np.int32)
    node.customOptions = list(given.tobytes())
    return packed(model)


def svdf(bits: int) -> bytes:
    """Write an SVDF of 8 bits with a state, and weights of it, of so many."""
    kinds = {getattr(np, f"int{n}"): getattr(schema.TensorType, f"INT{n}") for n in (8, 16, 32)}
    own = np.int16 if bits == 16 else np.int8
    tensors = {
        "x": ([1, 4], np.int8),
        "features": ([UNITS, 4], np.int8),
        "times": ([UNITS, STEPS], own),
        "bias": ([UNITS], np.int32),
        "state": ([1, UNITS * STEPS], own),
        "y": ([1, UNITS], np.int8),
    }
    model = schema.ModelT(version=3, buffers=[schema.BufferT()], description="")
    graph = schema.SubGraphT(tensors=[], inputs=[0], outputs=[len(tensors) - 1])
    for name, (shape, dtype) in tensors.items():
        scale = schema.QuantizationParametersT(scale=[0.1], zeroPoint=[0])
        tensor = schema.TensorT(shape, kinds[dtype], 0, name, scale, isVariable=name == "state")
        if name in {"features", "times", "bias"}:
            tensor.buffer = len(model.buffers)
            data = np.frombuffer(np.ones(shape, dtype).tobytes(), np.uint8)
            model.buffers.append(schema.BufferT(data=data))
        graph.tensors.append(tensor)
    code = schema.BuiltinOperator.SVDF
    model.operatorCodes = [schema.OperatorCodeT(code, builtinCode=code, version=3)]
    relu = schema.ActivationFunctionType.RELU
    options = schema.SVDFOptionsT(rank=1, fusedActivationFunction=relu)
    node = schema.OperatorT(0, [0, 1, 2, 3, 4], [5], schema.BuiltinOptions.SVDFOptions, options)
    graph.operators, model.subgraphs = [node], [graph]
    return packed(model)


def elementwise(kind: str, dtype: str, scales: Sequence[float | None]) -> bytes:
    """Write an operation on integers; `scales` has those of its inputs, and then of its output."""
    count = len(scales) - 1
    model = schema.ModelT(version=3, buffers=[schema.BufferT()], description="")
    code = getattr(schema.BuiltinOperator, kind)
    model.operatorCodes = [schema.OperatorCodeT(code, builtinCode=code, version=2)]
    graph = schema.SubGraphT(tensors=[], inputs=list(range(count)), outputs=[count])
    for at in range(count + 1):
        compared = at == count and kind.endswith(("LESS", "EQUAL"))
        number = getattr(schema.TensorType, "BOOL" if compared else dtype)
        given = [] if scales[at] is None else [scales[at]]
        scale = schema.QuantizationParametersT(scale=given, zeroPoint=[0]) if given else None
        graph.tensors.append(schema.TensorT([4], number, 0, "xyz"[at], scale))
    name = f"{''.join(word.title() for word in kind.split('_'))}Options"
    node = schema.OperatorT(0, graph.inputs, graph.outputs)
    if hasattr(schema.BuiltinOptions, name):
        node.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        node.builtinOptions = getattr(schema, f"{name}T")()
    graph.operators, model.subgraphs = [node], [graph]
    return packed(model)


def packed(model: schema.ModelT) -> bytes:
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


UNITS, STEPS = 64, 8
WRITTEN = {"svdf": 16, "micro": 8}
CUSTOM = {
    "mediapipe": "",
    "mediapipe_valid": "",
    "unknown": "Landmarks2TransformMatrix",
    "select": "FlexRoll",
    "examples": "ParseExampleV2",
    "beside": "",
}


def samples() -> Iterator[list[Any]]:
    for each in np.random.default_rng(1).standard_normal((8, 1, 4, 4, 1)):
        yield [each.astype(np.float32)]


MODELS: dict[str, tuple[Callable[..., Any], Sequence[tf.TensorSpec]]] = {
    "nearest": (nearest, PICTURE),
    "quantized": (nearest, PICTURE),
    "scatter": (lambda i, x: tf.scatter_nd(i, x, [6, 2]), ROWS),
    "most": (lambda x: tf.reduce_max(x, 1), ROW),
    "sum": (lambda x: tf.reduce_sum(x, 1), ROW),
    "counting": (lambda x: x, ROW),
    "frames": (lambda x: x, [tf.TensorSpec([2, 3], name="x")]),
    "recurrent": (lambda x: x, [tf.TensorSpec([1, 4, 3], name="x")]),  # of Keras: `converted`
    **dict.fromkeys(
        ("transposed", "mediapipe", "unknown", "select", "examples"),
        (transposed("SAME"), ONE_PICTURE),
    ),
    "beside": (
        lambda x: tf.bitwise.bitwise_xor(tf.cast(transposed("SAME")(x), tf.int32), 1),
        ONE_PICTURE,
    ),
    **dict.fromkeys(("transposed_valid", "mediapipe_valid"), (transposed("VALID"), ONE_PICTURE)),
}
COUNTING = ("counting", "frames")


def named(computes: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda *given: {"y": computes(*given)}


def converted(module: tf.Module, name: str, directory: Path) -> bytes:
    concrete = module.f.get_concrete_function()
    if name == "recurrent":  # one operation, where others make a loop of it
        converter = tf.lite.TFLiteConverter.from_keras_model(recurrent())
    elif name in COUNTING:
        tf.saved_model.save(module, directory / "saved", signatures=concrete)
        converter = tf.lite.TFLiteConverter.from_saved_model(str(directory / "saved"))
        converter.experimental_enable_resource_variables = True
    else:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module)
    if name == "quantized":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = samples
    file: bytes = converter.convert()
    return file


def main(root: Path) -> None:
    for name, (computes, specs) in MODELS.items():
        module = tf.Module()
        chosen = counted(module) if name in COUNTING else computes
        module.f = tf.function(named(chosen), input_signature=specs)
        file = converted(module, name, root / name)
        if name in CUSTOM:
            file = with_custom(file, CUSTOM[name] or "Convolution2DTransposeBias")
        write(root / name, file)
    for name, bits in WRITTEN.items():
        write(root / name, svdf(bits))
    write(root / "partly", of_two(root / "partly" / "saved"))


def of_two(directory: Path) -> bytes:
    module = tf.Module()
    module.sum = tf.function(named(lambda x: tf.reduce_sum(x, 1)), input_signature=ROW)
    flipped = named(lambda x: tf.bitwise.bitwise_xor(tf.cast(x, tf.int32), 1))
    module.flipped = tf.function(flipped, input_signature=ROW)
    names = {"serving_default": module.sum, "flipped": module.flipped}
    tf.saved_model.save(module, directory, signatures=names)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(directory), signature_keys=[*names])
    file: bytes = converter.convert()
    return file


def write(model: Path, file: bytes) -> None:
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.tflite").write_bytes(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
