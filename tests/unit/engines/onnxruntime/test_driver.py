"""Models of scikit-learn, converted to ONNX, answer as the library itself."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ie_serving.core.values.errors import InvalidRequest, InvalidTensor, LoadFailed
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array, DataType
from ie_serving.engines.base import CompiledModel, Engine, EngineOptions
from ie_serving.engines.drivers import Drivers
from ie_serving.engines.onnx_file import nodes, uses_domain
from ie_serving.engines.onnxruntime.driver import EXACT_SUMS, OnnxRuntimeEngine, exact_sums
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.preprocessing import Preprocessing
from ie_serving.engines.run.program import CompiledPrograms
from ie_serving.wire.protobuf.fields import delimited as field
from tests.onnx_models import Of, save_onnx
from tests.tables import named_by
from tests.unit.engines.contract import EngineContract

X, LABELS = load_iris(return_X_y=True)
ROWS = X.astype(np.float32)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]


def write_add_one(directory: Path) -> None:
    """Write y = x + 1, by an operator of ai.onnx.ml: a scaler with offset -1."""
    scaler = helper.make_node(
        "Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[-1.0, -1.0], scale=[1.0, 1.0]
    )
    ends, domains = {"x": [None, 2]}, {"ai.onnx.ml": 1}
    save_onnx(directory / "model.onnx", [scaler], ends, {"y": [None, 2]}, domains=domains)


def spoil(directory: Path) -> None:
    (directory / "model.onnx").write_bytes(b"\x08\x07 no model")


class TestOnnxRuntime(EngineContract):
    engine: Callable[[], Engine] = OnnxRuntimeEngine
    write_add_one = staticmethod(write_add_one)
    spoil = staticmethod(spoil)


def write(directory: Path, model: Any, **options: Any) -> Path:
    directory.mkdir(exist_ok=True)
    converted = to_onnx(model, ROWS[:1], options=options.get("options"), target_opset=17)
    (directory / "model.onnx").write_bytes(converted.SerializeToString())
    return directory


async def answer(model: CompiledPrograms, **inputs: Array) -> dict[str, Array]:
    def copies(outputs: Mapping[str, Array]) -> dict[str, Array]:
        return {name: array.copy() for name, array in outputs.items()}

    return await model.infer(model.signatures[SERVING_DEFAULT], inputs, copies)


MODELS = {
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "scaled regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("execution", ["inline", "async"])
@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
@pytest.mark.parametrize(
    ("labels", "dtype"), [(LABELS, DataType.INT64), (NAMES, DataType.STRING)], ids=["int", "text"]
)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
async def test_a_classifier_answers_as_scikit_learn(
    tmp_path: Path,
    make: Callable[[], Any],
    labels: Any,
    dtype: DataType,
    zipmap: bool,
    execution: str,
) -> None:
    fitted = make().fit(X, labels)
    write(tmp_path, fitted, options={id(fitted): {"zipmap": zipmap}})
    engine = Drivers([OnnxRuntimeEngine(), OpenVinoEngine()])
    model: Any = engine.compile(tmp_path, EngineOptions(execution=execution))
    signature = model.signatures[SERVING_DEFAULT]
    label, probability = signature.outputs.values()
    assert (label.dtype, probability.dtype) == (dtype, DataType.FP32)
    answered = await answer(model, X=ROWS)
    expected = fitted.predict(ROWS)
    if dtype is DataType.STRING:
        expected = np.array([text.encode() for text in expected], np.object_)
    assert np.array_equal(answered[label.name], expected)
    assert np.allclose(answered[probability.name], fitted.predict_proba(ROWS), atol=1e-5)
    model.close()


@named_by(
    "named",
    ("own", "named"),
    [
        (Preprocessing(mean=(1.0,), scale=(2.0,)), "mean, scale"),
        (OpenVinoOptions(shape=(4, 2)), "shape"),
        (OpenVinoOptions(batch_size=4), "batch_size"),
        (OpenVinoOptions(inference_precision="bf16"), "inference_precision"),
    ],
)
def test_settings_that_it_does_not_carry_out_are_refused(
    tmp_path: Path, own: object, named: str
) -> None:
    write_add_one(tmp_path)
    with pytest.raises(LoadFailed, match=f"^{named}: onnxruntime, which runs this model"):
        OnnxRuntimeEngine().compile(tmp_path, EngineOptions().having(own))


async def test_settings_that_are_so_already_refuse_nothing(tmp_path: Path) -> None:
    write_add_one(tmp_path)
    own = OpenVinoOptions(batch_size=-1, inference_precision="f32")
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions().having(own))
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    assert np.array_equal((await answer(model, x=rows))["y"], rows + 1)
    model.close()


async def test_strings_go_in(tmp_path: Path) -> None:
    encoder = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["a", "ü"],
        values_int64s=[1, 2],
        default_int64=-1,
    )
    x, y = Of(TensorProto.STRING, [None]), Of(TensorProto.INT64, [None])
    domains = {"ai.onnx.ml": 2}
    save_onnx(tmp_path / "model.onnx", [encoder], {"x": x}, {"y": y}, domains=domains)
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    texts = np.array([b"a", "ü".encode(), b"z"], np.object_)
    assert (await answer(model, x=texts))["y"].tolist() == [1, 2, -1]
    with pytest.raises(InvalidTensor, match='"x" holds bytes that are not UTF-8'):
        await answer(model, x=np.array([b"\xff"], np.object_))


@pytest.mark.parametrize("execution", ["inline", "async"])
async def test_a_refusal_of_the_library_is_one_clean_line(tmp_path: Path, execution: str) -> None:
    write_add_one(tmp_path)
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions(execution=execution))
    for _ in range(3):
        with pytest.raises(InvalidRequest, match="Error occurred during inference") as failure:
            await answer(model, x=np.ones((1, 3), np.float32))
        assert "\n" not in str(failure.value)
        assert (await answer(model, x=np.ones((1, 2), np.float32)))["y"].tolist() == [[2.0, 2.0]]


async def test_the_library_writes_nothing_past_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pad = helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    save_onnx(tmp_path / "model.onnx", [pad], {"x": [None]}, {"y": [None]}, pads=np.array([2, 2]))
    served = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    with pytest.raises(InvalidRequest, match="Pad reflect"):
        await answer(served, x=np.zeros(1, np.float32))
    served.close()
    (said,) = [each for each in caplog.messages if each.startswith("zeros refused")]
    assert "Pad reflect" in said
    assert capfd.readouterr() == ("", "")


def test_a_graph_without_such_operators_is_left_to_others(tmp_path: Path) -> None:
    """Some converters name the domain among the imports, and use nothing of it."""
    node = helper.make_node("Relu", ["x"], ["y"])
    x, y, domains = {"x": [None, 2]}, {"y": [None, 2]}, {"ai.onnx.ml": 1}
    save_onnx(tmp_path / "model.onnx", [node], x, y, domains=domains)
    assert not OnnxRuntimeEngine().claims(tmp_path)


def test_an_output_without_a_form_as_a_tensor_fails_to_load(tmp_path: Path) -> None:
    node = helper.make_node("SequenceConstruct", ["x"], ["y"])
    save_onnx(tmp_path / "model.onnx", [node], {"x": [2]}, "y")
    with pytest.raises(LoadFailed, match=r'"y" is of type seq\(tensor\(float\)\)'):
        OnnxRuntimeEngine().compile(tmp_path, EngineOptions())


def test_without_the_library_the_model_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_add_one(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as Python marks what is not there
    with pytest.raises(LoadFailed, match=r"pip install '.\[onnxruntime\]'"):
        OnnxRuntimeEngine().compile(tmp_path, EngineOptions())


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
async def test_no_request_without_elements_reaches_what_ends_the_process(
    tmp_path: Path, kind: str
) -> None:
    """By SIGABRT: "terminate called without an active exception"."""
    gates = {"GRU": 9, "LSTM": 12}[kind]
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=3)
    weights = {"w": np.ones((1, gates, 4), np.float32), "r": np.ones((1, gates, 3), np.float32)}
    save_onnx(tmp_path / "m.onnx", [node], {"x": ["t", "n", 4]}, "y", **weights)
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    with pytest.raises(InvalidTensor, match=r'"x" of shape .* has no elements.*: send at least'):
        await answer(model, x=np.zeros((2, 0, 4), np.float32))
    model.close()


@pytest.mark.parametrize(
    ("kind", "place", "sizes"),
    [
        ("Conv", 1, [(1, 1, 4), (1, 1, 0)]),  # hangs
        ("MultiHeadAttention", 0, [(1, 2, 0)] * 3),  # divides by nothing, as does the next
        ("STFT", 2, [(1, 16, 1), (), (0,)]),
    ],
)
async def test_no_input_without_elements_reaches_an_operator_that_fails_at_it(
    tmp_path: Path, kind: str, place: int, sizes: list[tuple[int, ...]]
) -> None:
    domain, heads = ("com.microsoft", {"num_heads": 2}) if kind.startswith("Multi") else ("", {})
    inputs = {
        f"x{n}": np.ones(each, np.float32 if each else np.int64) for n, each in enumerate(sizes)
    }
    node = helper.make_node(kind, list(inputs), ["y"], domain=domain, **heads)
    ends = {
        name: [None] * array.ndim if array.ndim else Of(TensorProto.INT64, [])
        for name, array in inputs.items()
    }
    save_onnx(tmp_path / "m.onnx", [node], ends, "y", domains={domain: 1} if domain else {})
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    with pytest.raises(InvalidTensor, match=rf'"x{place}" of shape .* has no elements'):
        await answer(model, **inputs)
    model.close()


@pytest.mark.parametrize("content", [b"", b"\x3a\xff\x01", b"no model at all", b"\x3a\x02\x0a\x09"])
def test_a_file_that_is_no_onnx_uses_no_domain(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert not uses_domain(tmp_path / "model.onnx", "ai.onnx.ml")


def nested(depth: int) -> bytes:
    graph = field(1, field(4, b"Abs"))
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    return field(7, graph)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(field(7, field(1, field(5, field(7, b"12345")))), id="part of a float"),
        pytest.param(field(7, field(1, field(5, field(2, b"")))), id="no float"),
        pytest.param(field(7, field(1, field(5, field(3, b"")))), id="no integer"),
        pytest.param(field(8, field(2, b"")), id="no version"),
        pytest.param(nested(600), id="graphs in graphs"),
    ],
)
def test_a_file_that_is_no_onnx_has_no_operators(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=r"\w"):
        list(nodes(tmp_path / "model.onnx"))
    with pytest.raises(LoadFailed):
        OnnxRuntimeEngine().compile(tmp_path, EngineOptions())


MASKED = """
<ir_version: 11, opset_import: ["": 23]>
masked (
    float[2,3,4,8] q, float[2,3,6,8] k, float[2,3,6,8] v, float[2,1,4,18] mask,
    float[2,3,12,8] past_key, float[2,3,12,8] past_value
) => (
    float[2,3,4,8] y, float[2,3,18,8] key, float[2,3,18,8] value,
    float[2,3,4,18] qk_matmul_output
) {
    y, key, value, qk_matmul_output =
        Attention <is_causal = 1, qk_matmul_output_mode = 2> (q, k, v, mask, past_key, past_value)
}
"""


@pytest.mark.parametrize(("how", "is_served"), [("is_causal = 1", False), ("is_causal = 0", True)])
def test_scores_that_are_masked_are_refused(tmp_path: Path, how: str, is_served: bool) -> None:
    """The library gives the least float for negative infinity."""
    model = onnx.parser.parse_model(MASKED.replace("is_causal = 1", how))
    onnx.save(model, str(tmp_path / "model.onnx"))
    if is_served:
        OnnxRuntimeEngine().compile(tmp_path, EngineOptions()).close()
    else:
        with pytest.raises(LoadFailed, match=r'negative infinity in its output "qk_matmul_output"'):
            OnnxRuntimeEngine().compile(tmp_path, EngineOptions())


async def test_sums_of_products_of_8_bits_are_not_cut_off(tmp_path: Path) -> None:
    """As they are on CPUs without VNNI, unless the session is told otherwise."""
    weights = np.random.default_rng(0).integers(60, 128, (64, 8)).astype(np.int8)
    nodes = [
        helper.make_node("Cast", ["x"], ["u"], to=TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["u", "w"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    save_onnx(tmp_path / "model.onnx", nodes, {"x": [1, 64]}, {"y": [1, 8]}, w=weights)
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    found = (await answer(model, x=np.full((1, 64), 255, np.float32)))["y"]
    assert found.tolist() == (255.0 * weights.sum(0, dtype=np.float64))[None].tolist()
    model.close()


@pytest.mark.skipif(EXACT_SUMS[1] == "1", reason="without VNNI the library has no such kernel")
async def test_a_convolution_of_signed_integers_is_served(tmp_path: Path) -> None:
    """Of weights that the setting for exact sums would take for unsigned ones."""
    names, int8 = ["x", "s", "z", "w", "s", "z", "s", "z"], TensorProto.INT8
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": np.int8([[[127, -128]]])}
    node = helper.make_node("QLinearConv", names, ["y"])
    ends = {"x": Of(int8, [1, 1, 3])}, {"y": Of(int8, [1, 1, 2])}
    save_onnx(tmp_path / "model.onnx", [node], *ends, **constants)
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    assert (await answer(model, x=np.int8([[[2, 0, 1]]])))["y"].tolist() == [[[25, -13]]]
    model.close()


@pytest.mark.parametrize(("flags", "value"), [("avx2", "1"), ("avx2 avx_vnni", "0"), ("", "1")])
def test_sums_are_exact_by_a_setting_where_they_are_not_by_the_processor(
    flags: str, value: str
) -> None:
    assert exact_sums(f"flags\t\t: fpu {flags}\n")[1] == value


async def test_a_past_of_which_no_present_is_asked_is_refused(tmp_path: Path) -> None:
    """The library computes NaN of what lies beyond the keys in its memory."""
    ends = {name: [1, 3, 8] for name in "qkv"} | {name: [1, 2, 9, 4] for name in "ab"}
    inputs = ["q", "k", "v", "", "", "", "a", "b"]
    for outputs in (["y"], ["y", "n", "m"]):
        node = helper.make_node(
            "MultiHeadAttention", inputs, outputs, domain="com.microsoft", num_heads=2
        )
        domains = {"com.microsoft": 1}
        save_onnx(tmp_path / "model.onnx", [node], ends, "".join(outputs), domains=domains)
        if outputs[1:]:
            OnnxRuntimeEngine().compile(tmp_path, EngineOptions()).close()
        else:
            with pytest.raises(LoadFailed, match='"y": onnxruntime reads beyond keys'):
                OnnxRuntimeEngine().compile(tmp_path, EngineOptions())


@pytest.mark.parametrize("kind", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
async def test_no_request_divides_the_least_integer(
    tmp_path: Path, kind: str, dtype: "TensorProto.DataType"
) -> None:
    """Divided by -1 it ends the process."""
    node, end = helper.make_node(kind, ["x", "y"], ["z"]), Of(dtype, ["n"])
    save_onnx(tmp_path / "m.onnx", [node], {"x": end, "y": end}, {"z": end})
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    kind_of = helper.tensor_dtype_to_np_dtype(dtype)
    least, y = np.array([np.iinfo(kind_of).min], kind_of), np.array([-1], kind_of)
    with pytest.raises(InvalidTensor, match=r'"x": .* does not divide the least integer: send'):
        await answer(model, x=least, y=y)
    found = (await answer(model, x=least + 1, y=y))["z"]
    assert found.tolist() == [-int(least[0] + 1) if kind == "Div" else 0]
    model.close()


ROUNDS = """
<ir_version: 8, opset_import: ["": 17]>
rounds (int64 n, float[1] x) => (float[1] y) {
    goes_on = Constant <value = bool {1}> ()
    y = Loop (n, goes_on, x) <
        body = body (int64 i, bool going, float[1] a) => (bool go, float[1] b) {
            go = Identity (going)
            b = Add (a, a)
        }
    >
}
"""


async def thread_of(model: CompiledModel, given: Mapping[str, Array]) -> int:
    """Give the thread of the last of 40 short inferences, from which the latency model learns."""
    signature = model.signatures[SERVING_DEFAULT]
    for _ in range(40):
        found = await model.infer(signature, given, lambda _: threading.get_ident())
    return found


async def test_a_short_graph_runs_on_the_event_loop(tmp_path: Path) -> None:
    write_add_one(tmp_path)
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    assert await thread_of(model, {"x": np.ones((1, 2), np.float32)}) == threading.get_ident()
    model.close()


async def test_a_graph_whose_values_choose_its_time_leaves_the_event_loop_free(
    tmp_path: Path,
) -> None:
    onnx.save(onnx.parser.parse_model(ROUNDS), str(tmp_path / "model.onnx"))
    model = OnnxRuntimeEngine().compile(tmp_path, EngineOptions())
    few = {"n": np.array(2), "x": np.ones(1, np.float32)}
    assert await thread_of(model, few) != threading.get_ident()
    assert (await answer(model, **few))["y"].tolist() == [4]
    many = answer(model, **{**few, "n": np.array(200_000)})
    task, turns = asyncio.ensure_future(many), 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 10
    model.close()


def test_long_lists_of_trees_are_read_in_time_that_grows_with_their_length(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[1.0] * count)
        file = save_onnx(tmp_path / "model.onnx", [node], {"x": [1]}, {"y": [1]})
        began = time.thread_time()
        (found,) = nodes(file)
        assert found.attributes["scale"] == (1.0,) * count
        return time.thread_time() - began

    seconds(1)
    assert seconds(80_000) < 8 * seconds(20_000)
