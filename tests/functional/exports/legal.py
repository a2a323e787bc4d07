"""Writes models that are legal and were once refused, each with what TensorFlow answers.

Run as a program: `NAME/1` and `NAME/expected/serving_default.pickle` below the directory given.
"""

import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.distribute.sharded_variable import ShardedVariable
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.unit.engines.savedmodel.host.sounds import wav
from tests.unit.wire.image.pictures import encoded

Made = tuple[Callable[..., Any], Any]
"""What computes the outputs, of inputs by alias, and what else the module holds."""

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
PLACES = np.array([[1, 0], [2, 1]], np.int32)
IMAGE = np.random.default_rng(41).random((4, 4, 3)).astype(np.float32)
SORTED = np.array([[0, 1, 3, 5], [1, 1, 2, 2]], np.float32)


def known(value: Any, **options: Any) -> tf.Variable:
    return tf.Variable(value, trainable=False, **options)


def branch(step: int) -> Made:
    flag = known(step)
    return lambda x: tf.cond(flag > 2, lambda: x * 2.0, lambda: x), flag


def several() -> Made:
    flag = known(1)
    cases = [(flag > 2, lambda x: x * 2.0), (flag > 5, lambda x: x * 3.0)]
    return lambda x: tf.case(
        [(is_so, lambda f=f: f(x)) for is_so, f in cases], default=lambda: x
    ), flag


def switched() -> Made:
    """Choose by each index from one below the first branch to one above the last."""
    held = known(ROWS[:2])

    def inner(x: Any) -> Any:
        return tf.switch_case(tf.cast(x[1, 0], tf.int32), [lambda: x, lambda: -x, lambda: x / 2.0])

    def compute(x: Any) -> Any:
        first = tf.cast(x[0, 0], tf.int32)
        branches = [lambda: x @ held, lambda: inner(x), lambda: tf.nn.softmax(x)]
        return tf.stack([tf.switch_case(first + at, branches) for at in range(-1, 4)])

    return compute, held


def switched_texts() -> Made:
    def compute(x: Any) -> Any:
        first = tf.strings.length(x[1]) - 1
        branches = [lambda: tf.strings.upper(x), lambda: x + "!", lambda: x]
        return tf.stack([tf.switch_case(first + at, branches) for at in range(-1, 4)])

    return compute, None


def turned() -> Made:
    times = known(1)
    return lambda x: tf.image.rot90(x, times), times


def factor(dtype: tf.DType) -> Made:
    held = known(tf.cast([1, 0], dtype))
    return lambda x: x * tf.cast(held, tf.float32), held


def open_shape() -> Made:
    held = known(ROWS[:2], shape=tf.TensorShape(None))
    return lambda x: tf.matmul(x, held), held


def open_rows() -> Made:
    held = known(ROWS, shape=[None, 2])
    return lambda x: tf.gather(held, x[:, 0]), held


def sliced() -> Made:
    """What the checkpoint holds in several files, as the options of `write` say."""
    held = known(np.arange(20_000, dtype=np.float32).reshape(-1, 2))
    return lambda x: tf.gather(held, x[:, 0] * 4321), held


def sharded() -> Made:
    """Look up what parameter servers hold in parts, and multiply it by a variable."""
    held = ShardedVariable([known(ROWS), known(ROWS[:2] * 3)])
    weights = known(ROWS[1:])
    return lambda x: tf.matmul(tf.nn.embedding_lookup(held, x[:, 0] * 2), weights), (held, weights)


def gathered() -> Made:
    held = known(ROWS)
    return (
        lambda x: (
            tf.gather_nd(held, x)
            + tf.raw_ops.ResourceGatherNd(resource=held.handle, indices=x, dtype=tf.float32)
        ),
        held,
    )


def sized() -> Made:
    held = known(ROWS)
    return lambda x: x + tf.cast(tf.raw_ops.VariableShape(input=held.handle), tf.float32), held


def searched(side: str) -> Made:
    return lambda x: tf.searchsorted(SORTED, x, side=side), None


def recurrence(over: Callable[..., Any]) -> Made:
    """Begin with the first row, so that a request of one row asks the loop for no round."""
    return lambda x: over(lambda so_far, row: so_far * 0.5 + row, x), None


def keras_inside() -> Made:
    """A graph of objects of more than 16 KB."""
    import keras

    name = "a_layer_with_a_long_name"
    layers = [keras.layers.Dense(2, name=f"{name}_{number}") for number in range(40)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    return model, model


def crossed(x: Any) -> Any:
    """Cross columns by their hash, as Keras's `HashedCrossing` does, then compute with them."""
    column = tf.expand_dims(x, 1)
    found = tf.sparse.to_dense(tf.sparse.cross_hashed([column, tf.strings.length(column)], 8))
    return tf.matmul(tf.one_hot(found[:, 0], 8), np.eye(8, 3, dtype=np.float32))


def ngrams(**options: Any) -> Made:
    def compute(x: Any) -> Any:
        words = tf.strings.split(x)
        return tf.strings.ngrams(words, (1, 3), separator="_", **options).to_tensor()

    return compute, None


def vectorized() -> Made:
    import keras

    words = ["a", "b", "a b", "b c", "c"]
    layer = keras.layers.TextVectorization(ngrams=2, vocabulary=words)
    return layer, layer


def over_images(compute: Callable[[Any], Any], dtype: tf.DType = tf.float32) -> Made:
    def each(file: Any) -> Any:
        return compute(tf.io.decode_png(file, channels=3))

    return lambda x: tf.map_fn(each, x, fn_output_signature=dtype), None


def heard(samples: int = 16_000) -> Made:
    """Hear as the speech commands of TensorFlow's tutorial: files, and the cepstrum of them."""

    def compute(x: Any) -> Any:
        sound, rate = tf.audio.decode_wav(x[0], 1, samples)
        squared = {"window_size": 480, "stride": 320, "magnitude_squared": True}
        found = tf.raw_ops.AudioSpectrogram(input=sound, **squared)
        mfcc = tf.raw_ops.Mfcc(spectrogram=found, sample_rate=rate, dct_coefficient_count=40)
        return tf.matmul(mfcc[0], tf.ones([40, 2])) / 100.0

    return compute, None


def heard_each() -> Made:
    def each(file: Any) -> Any:
        return tf.audio.decode_wav(file, 1, 90).audio[:, 0]

    return lambda x: tf.map_fn(each, x, fn_output_signature=tf.float32), None


def boxed(part: str, **options: Any) -> Made:
    """Detect: boxes and scores are computed of `x`, and their best are looked at."""

    def compute(x: Any) -> Any:
        boxes = tf.sort(tf.reshape(x, [2, -1, 1, 2, 2]), axis=3)
        boxes = tf.reshape(boxes, [2, -1, 1, 4])
        scores = tf.round(tf.matmul(boxes[:, :, 0], tf.ones([4, 3]) * [0.2, 0.1, 0.25]) * 9) / 9
        found = tf.image.combined_non_max_suppression(boxes, scores, 9, 30, 0.3, 0.2, **options)
        return tf.cast(getattr(found, part), tf.float32)

    return compute, None


def cepstrum(x: Any) -> Any:
    """Give the cepstrum of `tf.signal`, as keyword models of Keras have it, of rows of 240."""
    found = tf.abs(tf.signal.stft(x, 64, 32))
    mel = tf.signal.linear_to_mel_weight_matrix(20, found.shape[-1], 16_000, 80.0, 7600.0)
    logarithms = tf.math.log(found @ mel + 1e-3)
    return tf.signal.mfccs_from_log_mel_spectrograms(logarithms)[..., :13] / 100.0


def cosines(x: Any) -> Any:
    back = tf.signal.idct(tf.signal.dct(x[:, :60], norm="ortho"), norm="ortho")
    return back + tf.signal.dct(x[:, 60:120], 3) / 100.0


def transposed(x: Any) -> Any:
    """Convolve by a kernel turned round, as JAX's `conv_transpose` without XLA does."""
    kernel = tf.reverse(tf.reshape(tf.range(12.0), [2, 2, 1, 3]), [0, 1])
    return tf.nn.conv2d(tf.reshape(x, [-1, 12, 20, 1]), kernel, [1, 2], "SAME") / 100.0


def crowd() -> Made:
    def each(file: Any) -> Any:
        image = tf.io.decode_jpeg(file, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.reduce_mean(tf.image.resize(image, [224, 224]), [0, 1])

    return lambda x: tf.map_fn(each, x, fn_output_signature=tf.float32), None


def texts(*values: bytes) -> Any:
    return np.array(values, np.object_)


LINES = texts(b"a b c d", b"d", b"b c", b"")
PICTURES = texts(
    *(encoded(np.arange(rows * 21, dtype=np.uint8).reshape(rows, 7, 3) * 3) for rows in (5, 6))
)
SPOTS = np.random.default_rng(41).integers(0, 255, (8, 90, 112, 1), np.uint8)
PHOTOGRAPHS = [
    encoded(np.broadcast_to(each.repeat(2, 0).repeat(2, 1), (180, 224, 3)), "JPEG", quality=95)
    for each in SPOTS
]
CROWD = texts(*PHOTOGRAPHS * 32)
"""As many pictures as a large batch has: hundreds of megabytes, of which the host keeps few."""
SOUNDS = texts(wav(12_000), wav(70))
CORNERS = np.random.default_rng(41).random((2, 240)).astype(np.float32)
QUERIES = np.array([[-1, 1], [2, np.nan]], np.float32)
MODELS: Mapping[str, tuple[Callable[[], Made], Any]] = {
    "branch_taken": (lambda: branch(3), ROWS),
    "branch_as_it_is": (lambda: branch(1), ROWS),
    "case": (several, ROWS),
    "switched": (switched, ROWS),
    "switched_texts": (switched_texts, LINES),
    "rot90": (turned, IMAGE),
    "bool": (lambda: factor(tf.bool), ROWS),
    "uint16": (lambda: factor(tf.uint16), ROWS),
    "uint32": (lambda: factor(tf.uint32), ROWS),
    "uint64": (lambda: factor(tf.uint64), ROWS),
    "bfloat16": (lambda: (lambda x: tf.cast(x / 7.0, tf.bfloat16), None), ROWS),
    "open_shape": (open_shape, ROWS),
    "open_rows": (open_rows, PLACES),
    "sharded": (sharded, PLACES),
    "gather_nd": (gathered, PLACES),
    "variable_shape": (sized, ROWS),
    "searched_left": (lambda: searched("left"), QUERIES),
    "searched_right": (lambda: searched("right"), QUERIES),
    "scan_of_one_row": (lambda: recurrence(tf.scan), ROWS[:1]),
    "fold_of_one_row": (lambda: recurrence(tf.foldl), ROWS[:1]),
    "keras_inside": (keras_inside, ROWS),
    "slices": (sliced, PLACES),
    "crossed": (lambda: (crossed, None), LINES),
    "characters": (
        lambda: (lambda x: tf.strings.unicode_split(x, "UTF-8").to_tensor(), None),
        LINES,
    ),
    "salted": (
        lambda: (lambda x: tf.strings.to_hash_bucket_strong(x, 1000, [133137, 133137]), None),
        LINES,
    ),
    "ngrams": (ngrams, LINES),
    "ngrams_padded": (lambda: ngrams(pad_values=("<", ">"), padding_width=1), LINES),
    "ngrams_short": (lambda: ngrams(preserve_short_sequences=True), LINES),
    "vectorized_by_ngrams": (vectorized, LINES),
    "nearest": (
        lambda: over_images(lambda im: tf.image.resize(im, [4, 9], method="nearest"), tf.uint8),
        PICTURES,
    ),
    **{
        f"{method}{'_antialiased' if antialias else ''}": (
            lambda method=method, antialias=antialias: over_images(
                lambda im: tf.image.resize(im, [4, 9], method=method, antialias=antialias)
            ),
            PICTURES,
        )
        for method, antialias in (("bicubic", False), ("bicubic", True), ("lanczos3", True))
    },
    "bicubic_of_numbers": (
        lambda: (lambda x: tf.image.resize(x[..., tf.newaxis], [5, 7], method="bicubic"), None),
        CORNERS,
    ),
    "grey": (
        lambda: over_images(lambda im: tf.image.resize(tf.image.rgb_to_grayscale(im), [4, 4])),
        PICTURES,
    ),
    "standardized": (
        lambda: over_images(
            lambda im: tf.image.per_image_standardization(tf.image.resize(im, [4, 4]))
        ),
        PICTURES,
    ),
    **{
        f"padded_{method}": (
            lambda method=method, dtype=dtype: over_images(
                lambda im: tf.image.resize_with_pad(im, 8, 8, method=method), dtype
            ),
            PICTURES,
        )
        for method, dtype in (("bilinear", tf.float32), ("nearest", tf.uint8))
    },
    "of_its_shape": (
        lambda: over_images(
            lambda im: tf.image.resize_with_crop_or_pad(
                tf.image.resize(im, [6, 6], preserve_aspect_ratio=True), 6, 6
            )
        ),
        PICTURES,
    ),
    "crowd": (crowd, CROWD),
    "heard": (heard, SOUNDS),
    "cepstrum": (lambda: (cepstrum, None), CORNERS),
    "cosines": (lambda: (cosines, None), CORNERS),
    "turned": (lambda: (lambda x: tf.reverse(x, [-1, 0]), None), ROWS),
    "turned_last": (lambda: (lambda x: tf.reverse(x, [-1]), None), ROWS),
    "transposed": (lambda: (transposed, None), CORNERS),
    "heard_each": (heard_each, SOUNDS),
    **{
        f"boxed_{part.split('_')[-1]}": (lambda part=part: boxed(part), CORNERS)
        for part in ("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections")
    },
    "boxed_by_class": (lambda: boxed("nmsed_boxes", pad_per_class=True), CORNERS),
}
FIRST: Mapping[str, Callable[[Any], Any]] = {
    "reference": lambda x: v1.Variable(ROWS, use_resource=False),
    "partitioned": lambda x: tf.matmul(
        x,
        tf.convert_to_tensor(
            v1.get_variable("w", [2, 3], partitioner=v1.fixed_size_partitioner(2))
        ),
    ),
    "default_branch": lambda x: v1.cond(
        v1.placeholder_with_default(False, []), lambda: x * 2.0, lambda: x
    ),
    "local": lambda x: (
        x
        * v1.get_variable(
            "local", initializer=tf.constant([1.0, 2.0]), collections=["local_variables"]
        )
    ),
}
"""Models of TensorFlow 1, all asked `ROWS`."""


def taken_by_default(x: Any) -> Any:
    """Train where a request says so, as programs of TensorFlow 1 do."""
    training = v1.placeholder_with_default(False, [], name="training")
    return v1.cond(training, lambda: tf.nn.dropout(x, 0.5), lambda: x + 1.0)


FROZEN: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "frozen_default": (taken_by_default, ROWS),
    "frozen_echo": (tf.identity, ROWS),
    "frozen_texts": (lambda x: tf.strings.to_number(x) * 2.0, np.array([b"1.5", b"-2"], object)),
    "frozen_any_shape": (lambda x: tf.matmul(x, ROWS[:2]), ROWS),
}
"""Frozen graphs, each with a request; the last one says of its input what early graphs said."""
FROZEN_LSTM = "frozen_lstm"
NAMES = (*MODELS, *FIRST, *FROZEN, FROZEN_LSTM)


def write(directory: Path, compute: Callable[..., Any], held: Any, x: Any) -> Any:
    module = tf.Module()
    module.held = held
    spec = tf.TensorSpec([None, *x.shape[1:]], x.dtype, name="x")
    module.compute = tf.function(lambda x: {"y": compute(x)}, input_signature=[spec])
    sharding = tf.train.experimental.MaxShardSizePolicy(max_shard_size=30_000)
    is_sliced = directory.parent.name == "slices"
    options = tf.saved_model.SaveOptions(
        experimental_sharding_callback=sharding if is_sliced else None
    )
    tf.saved_model.save(module, str(directory), module.compute, options)
    loaded = tf.saved_model.load(str(directory))
    return loaded.signatures["serving_default"](x=tf.constant(x))["y"].numpy()


def write_first(directory: Path, compute: Callable[[Any], Any], value: Any) -> Any:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        y = compute(x)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        builder = v1.saved_model.builder.SavedModelBuilder(str(directory))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            main_op=v1.local_variables_initializer() if v1.local_variables() else None,
        )
        builder.save()
        return session.run(y, {x: value})


def write_frozen(directory: Path, compute: Callable[[Any], Any], value: Any) -> Any:
    is_early = directory.parent.name == "frozen_any_shape"
    with tf.Graph().as_default() as made, v1.Session() as session:
        shape = None if is_early else [None, *value.shape[1:]]
        x = v1.placeholder(tf.as_dtype(value.dtype), shape, name="x")
        y = tf.identity(compute(x), name="y")
        definition = made.as_graph_def()
        if is_early:
            definition.versions.producer = 21
            definition.node[0].attr["shape"].shape.unknown_rank = False
        directory.mkdir(parents=True)
        (directory / "model.pb").write_bytes(definition.SerializeToString())
        return session.run(y, {x: value})


def write_frozen_lstm(directory: Path, value: Any) -> Any:
    """Freeze as most programs do, by which loops are written out."""
    import keras

    model = keras.Sequential([keras.Input((2, 1)), keras.layers.LSTM(3)])
    spec = tf.TensorSpec([None, 2, 1], tf.float32, name="x")
    compute = tf.function(model).get_concrete_function(spec)
    definition = convert_variables_to_constants_v2(compute).graph.as_graph_def()
    assert any(node.name.startswith("unused_control_flow_input") for node in definition.node)
    (output,) = [node for node in definition.node if node.name == "Identity"]
    output.name = "y"
    directory.mkdir(parents=True)
    (directory / "model.pb").write_bytes(definition.SerializeToString())
    return model(value).numpy()


def main(root: Path) -> None:
    v1.disable_control_flow_v2()
    answers = {
        name: (ROWS, write_first(root / name / "1", made, ROWS)) for name, made in FIRST.items()
    }
    for name, (compute, x) in FROZEN.items():
        answers[name] = x, write_frozen(root / name / "1", compute, x)
    v1.enable_control_flow_v2()
    for name, (make, x) in MODELS.items():
        answers[name] = x, write(root / name / "1", *make(), x)
    rows = ROWS[..., np.newaxis]
    answers[FROZEN_LSTM] = rows, write_frozen_lstm(root / FROZEN_LSTM / "1", rows)
    for name, (x, y) in answers.items():
        (root / name / "expected").mkdir()
        pair = pickle.dumps(({"x": x}, {"y": y}))
        (root / name / "expected" / "serving_default.pickle").write_bytes(pair)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
