"""Writes real SavedModels below the directory given, with tensorflow. Run as a program."""

import sys
from pathlib import Path

import tensorflow as tf
import tensorflow.compat.v1 as v1


class HalfPlus(tf.Module):  # type: ignore[misc]
    """Three signatures over shared variables, one of them with several tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.half = tf.Variable(0.5)
        self.two = tf.Variable(2.0)
        self.table = tf.Variable(tf.range(300_000, dtype=tf.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def plus_two(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": self.half * x + self.two + self.table[0]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def plus_three(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y3": self.half * x + 3.0 + self.table[0]}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 3], tf.float32, "p"),
            tf.TensorSpec([None, 3], tf.int64, "q"),
        ]
    )
    def several(self, p: tf.Tensor, q: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"zz": p * self.half, "aa": q + 1, "same": p}


class Unsupported(tf.Module):  # type: ignore[misc]
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "s")])
    def parse(self, s: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"o": tf.io.decode_csv(s, [[0.0]])[0]}


def write_first_generation(path: Path) -> None:
    """Write the layout of TF Serving's half_plus_two: aliases that differ from tensor names."""
    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        half = v1.get_variable("half", initializer=0.5)
        y = v1.add(v1.multiply(half, x), 2.0, name="y")
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.utils.build_tensor_info
        define = v1.saved_model.signature_def_utils.build_signature_def
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={
                "serving_default": define(
                    {"in": info(x)}, {"out": info(y)}, "tensorflow/serving/predict"
                ),
                "regress": define(
                    {"inputs": info(x)}, {"outputs": info(y)}, "tensorflow/serving/regress"
                ),
            },
        )
        builder.save()


def write_two_graphs(path: Path) -> None:
    """Write a file with a graph for each of two tags: y = x / 2 + 2, and on `gpu` x / 2 + 3."""
    builder = v1.saved_model.builder.SavedModelBuilder(str(path))
    for tags, added in ((["serve"], 2.0), (["serve", "gpu"], 3.0)):
        graph = v1.Graph()
        with graph.as_default(), v1.Session(graph=graph) as session:
            x = v1.placeholder(tf.float32, [None], name="x")
            y = v1.add(v1.multiply(v1.get_variable("half", initializer=0.5), x), added, name="y")
            session.run(v1.global_variables_initializer())
            info = v1.saved_model.utils.build_tensor_info
            define = v1.saved_model.signature_def_utils.build_signature_def
            signature = define({"x": info(x)}, {"y": info(y)}, "tensorflow/serving/predict")
            signatures = {"serving_default": signature}
            if added == 2.0:
                builder.add_meta_graph_and_variables(session, tags, signature_def_map=signatures)
            else:
                builder.add_meta_graph(tags, signature_def_map=signatures)
    builder.save()


def write_fed_inside(path: Path) -> None:
    """Write a model whose input is computed by nodes that are not run when it is fed."""
    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        serialized = v1.placeholder(tf.string, [None], name="tf_example")
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        x = tf.identity(tf.io.parse_example(serialized, features)["x"], name="x")
        half = v1.get_variable("half", initializer=0.5)
        y = v1.multiply(half, x, name="y")
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}
        )
        builder.save()


class Counting(tf.Module):  # type: ignore[misc]
    """Signatures that change a variable, one that reads it, and one that does neither."""

    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(0.0, name="count")
        self.scale = tf.Variable(2.0, name="scale")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def in_a_loop(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        for _ in tf.range(3):
            self.count.assign_add(1.0)
        return {"y": x + self.count}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def reads(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x + self.count}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def pure(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x * self.scale}


class Fixed(tf.Module):  # type: ignore[misc]
    """Outputs that depend on no input, computed in 64 bits, beside one that does."""

    def __init__(self) -> None:
        super().__init__()
        self.large = tf.Variable([2**40, 2**31 - 1], dtype=tf.int64)
        self.real = tf.Variable([1.0, 2.5], dtype=tf.float64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def beside(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "y": x * 2.0,
            "sum": tf.reduce_sum(self.large + 1) * 3,
            "real": tf.reduce_sum(self.real),
            "is_large": self.large > 2**31,
        }

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.float32, name) for name in ("p", "q", "r")]
    )
    def crossed(self, p: tf.Tensor, q: tf.Tensor, r: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"p": q, "q": p, "r": r - p}


class Flipping(tf.Module):  # type: ignore[misc]
    """Draws from a seed that it moves, as a random layer of Keras that `export` left active."""

    def __init__(self) -> None:
        super().__init__()
        self.seed = tf.Variable(
            [0, 1], dtype=tf.uint32, name="seed_generator_1/seed_generator_state"
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        seed = self.seed.read_value()
        self.seed.assign(seed + tf.constant([0, 1], tf.uint32))
        drawn = tf.random.stateless_uniform([], tf.cast(seed, tf.int32))
        return {"y": tf.where(drawn < 0.5, x, -x)}


def write_first_generation_counting(path: Path) -> None:
    """Write a counter that only a control dependency of the output moves."""
    graph = v1.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        count = v1.get_variable("count", initializer=0.0, use_resource=False)
        with v1.control_dependencies([v1.assign_add(count, 1.0)]):
            moves = v1.multiply(x, 2.0)
        session.run(v1.global_variables_initializer())
        define = v1.saved_model.predict_signature_def
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={
                "serving_default": define({"x": x}, {"y": x * 2.0}),
                "moves": define({"x": x}, {"y": moves}),
                "reads": define({"x": x}, {"y": x + count}),
            },
        )
        builder.save()


def write_wide(path: Path) -> None:
    """Write as many inputs, and features of Examples, as models of tables have."""
    names = [f"f{number}" for number in range(200)]
    module = tf.Module()

    def total(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"y": tf.add_n([inputs[name] for name in names])}

    def of_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        feature = tf.io.FixedLenFeature([1], tf.float32, 0.0)
        return total(tf.io.parse_example(examples, dict.fromkeys(names, feature)))

    specs = {name: tf.TensorSpec([None], tf.float32) for name in names}
    module.total = tf.function(total, input_signature=[specs])
    texts = tf.TensorSpec([None], tf.string, "examples")
    module.of_examples = tf.function(of_examples, input_signature=[texts])
    signatures = {"serving_default": module.total, "of_examples": module.of_examples}
    tf.saved_model.save(module, str(path), signatures=signatures)


def main(root: Path) -> None:
    model = HalfPlus()
    tf.saved_model.save(
        model,
        str(root / "several"),
        signatures={
            "serving_default": model.plus_two,
            "three": model.plus_three,
            "several": model.several,
        },
    )
    write_fed_inside(root / "fed_inside")
    broken = Unsupported()
    tf.saved_model.save(broken, str(root / "unsupported"), signatures=broken.parse)
    write_first_generation(root / "first")
    write_two_graphs(root / "two_graphs")
    flipping = Flipping()
    tf.saved_model.save(flipping, str(root / "flipping"), {"serving_default": flipping.serve})
    ragged = tf.Module()
    ragged.cut = tf.function(
        lambda s: {"words": tf.strings.split(s)}, input_signature=[tf.TensorSpec([None], tf.string)]
    )
    tf.saved_model.save(ragged, str(root / "ragged"), {"serving_default": ragged.cut})
    counting = Counting()
    names = {"in_a_loop": counting.in_a_loop, "reads": counting.reads}
    signatures = {"serving_default": counting.pure, **names}
    tf.saved_model.save(counting, str(root / "counting"), signatures=signatures)
    write_first_generation_counting(root / "first_counting")
    fixed = Fixed()
    signatures = {"serving_default": fixed.beside, "crossed": fixed.crossed}
    tf.saved_model.save(fixed, str(root / "fixed"), signatures=signatures)
    write_wide(root / "wide")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
