"""What OpenVINO's front end for ONNX drops is refused by name, in every graph of a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino as ov
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ie_serving.core.values.errors import LoadFailed
from ie_serving.core.values.tensors import Array
from ie_serving.engines.onnx_file import nodes, opsets, uses_domain
from ie_serving.engines.openvino.reading.onnx_graph import NEWEST_OPSET, OVERLOOKED, refuse_unread
from tests.onnx_models import Of, save_onnx
from tests.unit.engines.openvino.operators.asked import floats

X, SCALES = floats(1, 1, 8, 6), np.array([1, 1, 0.5, 0.5], np.float32)
SIZES = np.array([1, 1, 4, 5], np.int64)
SEQUENCE = (floats(3, 2, 4),)
QUERIES, PAST = (floats(1, 2, 3, 4),) * 3, (floats(1, 2, 4, 4),) * 2
ROIS = (floats(1, 2, 9, 9), np.array([[0, 0, 7, 7]], np.float32), np.zeros(1, np.int64))

Case = tuple[str, int, Sequence[Array | None], dict[str, Any], str]
CASES: Sequence[Case] = (
    ("Resize", 18, (X, None, SCALES), {"mode": "linear", "antialias": 1}, "antialias=1"),
    ("Resize", 18, (X, None, SCALES), {"mode": "cubic", "exclude_outside": 1}, "exclude_outside=1"),
    (
        "Resize",
        18,
        (X, None, None, SIZES),
        {"keep_aspect_ratio_policy": "not_larger"},
        "keep_aspect_ratio_policy=not_larger",
    ),
    ("Attention", 25, QUERIES, {"left_window_size": 1}, "left_window_size=1"),
    ("Attention", 25, QUERIES, {"right_window_size": 0}, "right_window_size=0"),
    (
        "Attention",
        23,
        (floats(1, 2, 2, 4), *QUERIES[1:], floats(2, 7), *PAST),
        {"is_causal": 1},
        "is_causal=1",
    ),
    ("SpaceToDepth", 28, (floats(1, 2, 4, 4),), {"blocksize": 2, "mode": "CRD"}, "mode=CRD"),
    (
        "LSTM",
        14,
        (*SEQUENCE, floats(1, 12, 4), floats(1, 12, 3)),
        {"hidden_size": 3, "layout": 1},
        "layout=1",
    ),
    (
        "GRU",
        14,
        (*SEQUENCE, floats(1, 9, 4), floats(1, 9, 3)),
        {"hidden_size": 3, "layout": 1},
        "layout=1",
    ),
    (
        "RNN",
        14,
        (*SEQUENCE, floats(1, 3, 4), floats(1, 3, 3)),
        {"hidden_size": 3, "layout": 1},
        "layout=1",
    ),
    (
        "LSTM",
        14,
        (*SEQUENCE, floats(1, 12, 4), floats(1, 12, 3), *[None] * 4, floats(1, 9)),
        {"hidden_size": 3},
        "its input P",
    ),
    ("DFT", 17, (floats(1, 6, 1),), {"onesided": 1}, "onesided=1"),
    ("DFT", 20, (floats(2, 5, 4, 2),), {}, "its input axis"),
    ("RoiAlign", 16, ROIS, {"mode": "max", "output_height": 3, "output_width": 3}, "mode=max"),
    (
        "MaxPool",
        12,
        (floats(1, 1, 5, 6),),
        {"kernel_shape": [2, 2], "storage_order": 1},
        "storage_",
    ),
    (
        "ConvTranspose",
        11,
        (floats(1, 1, 4, 5), floats(1, 1, 3, 3)),
        {"strides": [2, 2], "output_shape": [8, 10], "auto_pad": "SAME_UPPER"},
        "auto_pad=SAME_UPPER",
    ),
    ("ReduceL1", 18, (floats(2, 3),), {"noop_with_empty_axes": 1}, "noop_with_empty_axes=1"),
    ("ReduceLogSum", 18, (X + 2,), {"noop_with_empty_axes": 1}, "noop_with_empty_axes=1"),
)
UNKNOWN_TO_THE_REFERENCE: Sequence[Case] = (
    (
        "LSTM",
        14,
        (*SEQUENCE, floats(1, 12, 4), floats(1, 12, 3)),
        {"hidden_size": 3, "input_forget": 1},
        "input_forget=1",
    ),
    ("ReduceL2", 18, (floats(2, 3),), {"noop_with_empty_axes": 1}, "noop_with_empty_axes=1"),
    ("Greater", 1, (floats(3, 3, 3), floats(3, 3)), {"broadcast": 1, "axis": 0}, "axis=0"),
)


def write(directory: Path, case: Case) -> Path:
    """Write a model of one operator, whose inputs but the first are its constants."""
    kind, opset, inputs, attributes, _ = case
    names = ["" if each is None else f"x{at}" for at, each in enumerate(inputs)]
    outputs = ["y", "indices"] if "storage_order" in attributes else ["y"]
    node = helper.make_node(kind, names, outputs, name="n", **attributes)
    constants = [
        onnx.numpy_helper.from_array(each, name)
        for each, name in zip(inputs[1:], names[1:], strict=True)
        if each is not None
    ]
    given = helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, np.shape(inputs[0]))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    return save(directory, helper.make_graph([node], "g", [given], results, constants), opset)


def save(directory: Path, graph: onnx.GraphProto, opset: int, **more: Any) -> Path:
    file = directory / "model.onnx"
    imported = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imported, ir_version=10, **more)
    file.write_bytes(model.SerializeToString())
    return file


def named(case: Case) -> str:
    return f"{case[0]}-{case[4]}"


@pytest.mark.parametrize("case", [*CASES, *UNKNOWN_TO_THE_REFERENCE], ids=named)
def test_a_node_that_would_be_dropped_is_refused_by_name(tmp_path: Path, case: Case) -> None:
    with pytest.raises(LoadFailed, match=f'^{case[0]} "n": OpenVINO does not .*{case[4]}'):
        refuse_unread(write(tmp_path, case))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("case", CASES, ids=named)
def test_openvino_still_drops_it(tmp_path: Path, case: Case) -> None:
    """A row of the table that OpenVINO no longer needs fails here, and may go."""
    file, given = write(tmp_path, case), case[2][0]
    expected = ReferenceEvaluator(str(file)).run(None, {"x0": given})[-1]
    compiled = ov.Core().compile_model(str(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answer = list(compiled([given]).values())[-1]
    assert answer.shape != expected.shape or not np.allclose(answer, expected, atol=1e-3)


@pytest.mark.parametrize(
    "case",
    [
        ("Resize", 18, (X, None, SCALES), {"antialias": 0, "exclude_outside": 0}, ""),
        ("Attention", 25, QUERIES, {"left_window_size": -1, "is_causal": 1}, ""),
        ("DFT", 17, (floats(1, 6, 2),), {"axis": 1}, ""),
        ("MaxPool", 12, (X,), {"kernel_shape": [2, 2]}, ""),
    ],
    ids=named,
)
def test_harmless_values_are_served(tmp_path: Path, case: Case) -> None:
    refuse_unread(write(tmp_path, case))


def resize(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Resize", ["x", "", "s"], ["y"], name="r", **attributes)


def test_bodies_of_branches_are_read(tmp_path: Path) -> None:
    y = onnx.ValueInfoProto(name="y")
    body = helper.make_graph([resize(antialias=1)], "body", [], [y])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    file = save(tmp_path, helper.make_graph([branch], "g", [], [y]), 18)
    with pytest.raises(LoadFailed, match=r'Resize "r": OpenVINO does not compute antialias=1'):
        refuse_unread(file)


def test_functions_are_read_by_their_own_opset(tmp_path: Path) -> None:
    call = helper.make_node("f", ["x", "s"], ["y"], domain="own")
    twice = resize()
    twice.attribute.add(name="antialias", type=onnx.AttributeProto.INT, ref_attr_name="a")
    function = helper.make_function(
        "own", "f", ["x", "s"], ["y"], [twice], [helper.make_opsetid("", 18)], ["a"]
    )
    graph = helper.make_graph([call], "g", [], [onnx.ValueInfoProto(name="y")])
    file = save(tmp_path, graph, 17, functions=[function])
    assert [(node.kind, node.opset) for node in nodes(file)] == [("f", 1), ("Resize", 18)]
    with pytest.raises(LoadFailed, match="antialias=a value of the caller"):
        refuse_unread(file)


def test_a_newer_opset_than_was_compared_is_refused(tmp_path: Path) -> None:
    graph = helper.make_graph([resize()], "g", [], [])
    refuse_unread(save(tmp_path, graph, NEWEST_OPSET))
    with pytest.raises(LoadFailed, match=f"of opset 99; the newest known is {NEWEST_OPSET}"):
        refuse_unread(save(tmp_path, graph, 99))
    assert onnx.defs.onnx_opset_version() <= NEWEST_OPSET, "compare the newer operators, too"


def test_a_file_is_read_as_onnx_reads_it(tmp_path: Path) -> None:
    node = helper.make_node(
        "Own", ["x", "", "z"], ["y"], domain="own", i=-3, f=0.5, s="text", ints=[1, -2],
        floats=[0.5, 2.0], strings=["a", "b"], tensor=onnx.numpy_helper.from_array(X),
    )  # fmt: skip
    file = save(tmp_path, helper.make_graph([node], "g", [], []), 18)
    (found,) = nodes(file)
    assert found.attributes == {
        "i": -3, "f": 0.5, "s": "text", "ints": (1, -2), "floats": (0.5, 2.0),
        "strings": ("a", "b"), "tensor": None,
    }  # fmt: skip
    assert (found.domain, found.inputs, found.opset) == ("own", ("x", "", "z"), 1)
    assert opsets(file) == {"ai.onnx": 18, "own": 1}
    assert uses_domain(file, "own")
    assert not uses_domain(file, "ai.onnx.ml")


@pytest.mark.parametrize("content", [b"", b"\x3a\xff\x01", b"no model at all", b"\x3a\x02\x0a\x09"])
def test_a_file_that_is_no_model_is_left_to_openvino(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    refuse_unread(tmp_path / "model.onnx")


def test_each_row_names_what_onnx_has() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    known = {
        (schema.name, name)
        for schema in schemas
        for name in (*schema.attributes, *(each.name for each in schema.inputs))
    }
    own = {kind: rows for kind, rows in OVERLOOKED.items() if "." not in kind}
    assert {(kind, row.name) for kind, rows in own.items() for row in rows} <= known


def eight_bits(*shape: int) -> Array:
    return np.random.default_rng(2).integers(0, 256, shape, np.uint8)


def scale(number: float) -> Array:
    return np.array(number, np.float32)


ZERO = np.array(3, np.uint8)
A, B = (eight_bits(2, 8), scale(0.05), ZERO), (eight_bits(2, 8)[:, ::-1].copy(), scale(0.03), ZERO)
TO = (scale(0.02), ZERO)
TOKENS = (floats(2, 4, 8), floats(8, 24), floats(24))
MICROSOFTS: Sequence[Case] = (
    ("QLinearAdd", 1, (*A, *B, *TO), {}, "compute it"),
    ("QLinearMul", 1, (*A, *B, *TO), {}, "compute it"),
    ("QLinearLeakyRelu", 1, (*A, *TO), {"alpha": 0.1}, "compute it"),
    ("QLinearSigmoid", 1, (*A, scale(1 / 256), ZERO), {}, "compute it"),
    ("QLinearSoftmax", 1, (*A, scale(1 / 256), ZERO), {"opset": 13}, "compute it"),
    ("QLinearConcat", 1, (*TO, *A, *B), {"axis": 0}, "compute it"),
    ("QLinearWhere", 1, (np.eye(2, 8) > 0, *A, *B, *TO), {}, "compute it"),
    (
        "QLinearAveragePool",
        1,
        (eight_bits(1, 1, 4, 4), *A[1:], *TO),
        {"kernel_shape": [2, 2]},
        "compute it",
    ),
    (
        "GroupQueryAttention",
        1,
        (floats(1, 4, 32), *[floats(1, 4, 16)] * 2, *[np.zeros((1, 2, 0, 8), np.float32)] * 2,
         np.array([3], np.int32), np.array(4, np.int32)),
        {"num_heads": 4, "kv_num_heads": 2},
        "compute it",
    ),
    ("Attention", 1, TOKENS, {"num_heads": 2, "scale": 0.25}, "scale=0.25"),
    (
        "Attention",
        1,
        (*TOKENS, np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)),
        {"num_heads": 2, "mask_filter_value": -1.0},
        "mask_filter_value=-1.0",
    ),
    (
        "FusedMatMul",
        1,
        (floats(3, 3, 2), floats(3, 3, 2)),
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
        "transBatchA=1",
    ),
    (
        "FusedGemm",
        1,
        (floats(4, 3), floats(3, 5)),
        {"activation": "Tanh"},
        "activation=Tanh",
    ),
    (
        "MatMulNBits",
        1,
        (floats(3, 64), eight_bits(8, 2, 16), np.ones(16, np.float32) / 8, eight_bits(8),
         np.repeat(np.array([1, 0], np.int32), 32)),
        {"K": 64, "N": 8, "bits": 4, "block_size": 32},
        "its input g_idx",
    ),
)  # fmt: skip


def of_microsoft(directory: Path, case: Case) -> Path:
    """Write a model of one operator that onnxruntime defines; only weights are constant."""
    kind, _, inputs, attributes, _ = case
    names = [f"x{at}" for at in range(len(inputs))]
    results = ["y", "k", "v"] if kind.startswith("Group") else ["y"]
    domain = "com.microsoft"
    node = helper.make_node(kind, names, results, name="n", domain=domain, **attributes)
    ends = {
        name: Of(helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in zip(names, inputs, strict=True)
    }
    held = dict(zip(names[1:], inputs[1:], strict=True)) if kind == "MatMulNBits" else {}
    ends = {name: each for name, each in ends.items() if name not in held}
    file = directory / "model.onnx"
    return save_onnx(file, [node], ends, "".join(results), domains={domain: 1}, **held)


@pytest.mark.parametrize("case", MICROSOFTS, ids=named)
def test_a_node_of_onnxruntime_that_openvino_computes_otherwise_is_refused(
    tmp_path: Path, case: Case
) -> None:
    with pytest.raises(LoadFailed, match=f'^com.microsoft.{case[0]} "n": OpenVINO.*{case[4]}'):
        refuse_unread(of_microsoft(tmp_path, case))


@pytest.mark.parametrize("case", MICROSOFTS, ids=named)
def test_openvino_still_computes_it_otherwise_than_onnxruntime(tmp_path: Path, case: Case) -> None:
    file = str(of_microsoft(tmp_path, case))
    session = onnxruntime.InferenceSession(file)
    given = {each.name: case[2][int(each.name[1:])] for each in session.get_inputs()}
    expected = session.run(None, given)[0]
    compiled = ov.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answer = compiled(given)[0]
    assert not np.allclose(answer.astype(np.float32), expected.astype(np.float32), rtol=1e-3)


def test_attention_without_a_bias_is_refused_before_the_front_end_ends_the_process(
    tmp_path: Path,
) -> None:
    case = ("Attention", 1, TOKENS[:2], {"num_heads": 2}, "")
    with pytest.raises(LoadFailed, match="does not take it without its input bias"):
        refuse_unread(of_microsoft(tmp_path, case))


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "UINT32"])
@pytest.mark.parametrize("place", ["initializer", "constant", "branch"])
def test_numbers_that_the_front_end_misreads_are_refused(
    tmp_path: Path, kind: str, place: str
) -> None:
    """It takes the bits of 1.5 in bfloat16 for 16320, and 2 of uint32 for 0."""
    tensor = helper.make_tensor("w", getattr(onnx.TensorProto, kind), [2], [1, 2])
    y = onnx.ValueInfoProto(name="y")
    cast = helper.make_node("Cast", ["w"], ["y"], to=onnx.TensorProto.FLOAT)
    nodes, held = [cast], [tensor]
    if place == "constant":
        nodes, held = [helper.make_node("Constant", [], ["w"], value=tensor), cast], []
    graph = helper.make_graph(nodes, "g", [], [y], held)
    if place == "branch":
        branch = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([branch], "whole", [], [y])
    file = save(tmp_path, graph, 21)
    if place != "branch":
        compiled = ov.Core().compile_model(str(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        assert compiled({})[0].tolist() != [1, 2]
    with pytest.raises(
        LoadFailed, match=f'numbers of "w", which are of type {kind.lower()} and no'
    ):
        refuse_unread(file)


def test_numbers_in_raw_data_are_served(tmp_path: Path) -> None:
    held = onnx.numpy_helper.from_array(np.array([1, 2], np.uint32), "w")
    cast = helper.make_node("Cast", ["w"], ["y"], to=onnx.TensorProto.FLOAT)
    y = onnx.ValueInfoProto(name="y")
    refuse_unread(save(tmp_path, helper.make_graph([cast], "g", [], [y], [held]), 21))


@pytest.mark.parametrize("place", ["initializer", "default", "constant", "branch"])
def test_an_input_of_no_elements_is_refused_where_the_front_end_takes_it_for_0(
    tmp_path: Path, place: str
) -> None:
    """It gives the first of three rows in place of none."""
    tensor = onnx.numpy_helper.from_array(np.zeros(0, np.int64), "rows")
    x, y = helper.make_tensor_value_info("x", 1, [3, 2]), onnx.ValueInfoProto(name="y")
    nodes, held = [helper.make_node("Gather", ["x", "rows"], ["y"])], [tensor]
    if place == "constant":
        nodes, held = [helper.make_node("Constant", [], ["rows"], value=tensor), *nodes], []
    rows = [helper.make_tensor_value_info("rows", 7, ["n"])] * (place == "default")
    graph = helper.make_graph(nodes, "g", [x, *rows] if place != "branch" else [], [y], held)
    if place == "branch":
        branch = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([branch], "whole", [x], [y])
    with pytest.raises(
        LoadFailed, match='Gather "y": OpenVINO does not read that its input "rows"'
    ):
        refuse_unread(save(tmp_path, graph, 17))
    if place != "branch":
        read = ov.Core().read_model(str(tmp_path / "model.onnx"))
        assert read.output(0).get_partial_shape() != ov.PartialShape([0, 2])


NONE = np.zeros((0, 3), np.float32)


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Expand"])
def test_an_operator_on_no_elements_is_refused_where_the_front_end_takes_them_for_0(
    tmp_path: Path, kind: str
) -> None:
    sizes = np.int64([3] if kind == "Expand" else [0])
    form = {} if kind == "Expand" else {"keepdims": 0}
    node = helper.make_node(kind, ["c", "sizes"], ["r"], **form)
    added = helper.make_node("Add", ["x", "r"], ["y"])
    nodes = [node, added]
    file = save_onnx(tmp_path / "m.onnx", nodes, {"x": [3]}, "yr", opset=18, c=NONE, sizes=sizes)
    expected = onnxruntime.InferenceSession(str(file)).run(["y", "r"], {"x": np.ones(3, "f")})
    answer = ov.Core().compile_model(str(file), "CPU")([np.ones(3, np.float32)])
    assert [each.tolist() for each in expected] != [answer[at].tolist() for at in range(2)]
    with pytest.raises(LoadFailed, match=f'{kind} "r": OpenVINO does not read that its input "c"'):
        refuse_unread(file)


@pytest.mark.parametrize("place", ["initializer", "constant", "branch"])
def test_an_output_of_no_elements_is_refused_where_the_front_end_takes_it_for_0(
    tmp_path: Path, place: str
) -> None:
    tensor = onnx.numpy_helper.from_array(NONE, "z")
    x, z = helper.make_tensor_value_info("x", 1, [2]), onnx.ValueInfoProto(name="z")
    nodes, held, results = [helper.make_node("Relu", ["x"], ["y"])], [tensor], [z]
    if place != "initializer":
        nodes, held = [*nodes, helper.make_node("Constant", [], ["z"], value=tensor)], []
    if place == "branch":
        branch = helper.make_graph(nodes[1:], "g", [], [z])
        nodes = [helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch)]
        held = [onnx.numpy_helper.from_array(np.array(True), "c")]
        results = [onnx.ValueInfoProto(name="w")]
    file = save(tmp_path, helper.make_graph(nodes, "g", [x], results, held), 17)
    read = ov.Core().read_model(str(file))
    assert read.output(0).get_partial_shape() != ov.PartialShape([0, 3])
    with pytest.raises(LoadFailed, match='OpenVINO does not read that the output "z" is empty'):
        refuse_unread(file)


@pytest.mark.parametrize("kind", ["Reshape", "Expand", "ReduceSum", "Concat"])
def test_an_input_of_no_elements_is_served_where_it_is_the_same_as_0(
    tmp_path: Path, kind: str
) -> None:
    dtype = np.float32 if kind == "Concat" else np.int64
    held = onnx.numpy_helper.from_array(np.zeros(0, dtype), "none")
    node = helper.make_node(kind, ["x", "none"], ["y"], **({"axis": 0} if kind == "Concat" else {}))
    x, y = helper.make_tensor_value_info("x", 1, [1]), onnx.ValueInfoProto(name="y")
    file = save(tmp_path, helper.make_graph([node], "g", [x], [y], [held]), 17)
    refuse_unread(file)
    answer = ov.Core().compile_model(str(file), "CPU")([np.float32([5])])[0]
    assert answer.shape == ReferenceEvaluator(str(file)).run(None, {"x": np.float32([5])})[0].shape
    assert answer.ravel().tolist() == [5]


def test_a_constant_of_no_elements_is_no_input_of_operators_that_leave_one_out(
    tmp_path: Path,
) -> None:
    """PyTorch gives tensors of `Constant` no name, as an input that is left out has none."""
    constants = {"roi": np.zeros(0, np.float32), "s": np.float32([1, 1, 2, 2])}
    made = [
        helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(each))
        for name, each in constants.items()
    ]
    made += [
        helper.make_node("Resize", ["x", "roi", "s"], ["r"]),
        helper.make_node("Clip", ["r", "", "most"], ["y"]),
    ]
    most = onnx.numpy_helper.from_array(np.float32(1), "most")
    x, y = helper.make_tensor_value_info("x", 1, [1, 1, 2, 2]), onnx.ValueInfoProto(name="y")
    refuse_unread(save(tmp_path, helper.make_graph(made, "g", [x], [y], [most]), 11))


def test_names_of_one_branch_say_nothing_of_the_other(tmp_path: Path) -> None:
    branches = {
        branch: helper.make_graph(
            [
                helper.make_node(
                    "Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.zeros(size))
                ),
                helper.make_node(kind, ["x", "c"], ["y"], **attributes),
            ],
            branch,
            [],
            [onnx.ValueInfoProto(name="y")],
        )
        for branch, size, kind, attributes in [
            ("then_branch", 1, "Add", {}),
            ("else_branch", 0, "Concat", {"axis": 0}),  # comes first in the file
        ]
    }
    y = onnx.ValueInfoProto(name="y")
    chosen = helper.make_node("If", ["c"], ["y"], **branches)
    refuse_unread(save(tmp_path, helper.make_graph([chosen], "g", [], [y]), 17))
