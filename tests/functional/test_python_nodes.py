"""Python nodes in the form in which people publish them for OpenVINO Model Server, with clients.

Nothing is declared: `graph.pbtxt`, the node's file and Triton's client are all that there is.
Source: docs/python_support and demos/python_demos of openvinotoolkit/model_server.
"""

import base64
import json
import queue
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.functional.asking import predict_request
from tests.functional.servers import Server
from tests.process import PATIENCE_S

NODES = {
    "louder": """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        return [Tensor("louder", bytes(inputs[0]).decode().upper().encode())]
""",
    "told": """
import json
from pyovms import Tensor

class OvmsPythonModel:
    def initialize(self, kwargs: dict):
        self.kwargs = kwargs
    def execute(self, inputs: list):
        said = [[t.name, t.datatype, t.shape, t.data.format, list(t.data.shape), bytes(t).hex()]
                for t in inputs]
        names = [self.kwargs[n] for n in ("node_name", "input_names", "output_names")]
        return [Tensor("said", json.dumps([names, said]).encode())]
""",
    "same": """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        t = inputs[0]
        return [Tensor(name="out", buffer=bytes(t), shape=t.shape, datatype=t.datatype)]
""",
    "more": """
import numpy as np
from pyovms import Tensor

class OvmsPythonModel:
    def initialize(self, kwargs: dict):
        self.output_name = kwargs["output_names"][0]
    def execute(self, inputs: list, kwargs: dict = {}):
        return [Tensor(self.output_name, np.array(inputs[0]) + 1)]
""",
    "numbered": """
from pyovms import Tensor

class OvmsPythonModel:
    def initialize(self, kwargs: dict):
        self.output_names = [n for n in kwargs["output_names"] if n != "loopback"]
    def execute(self, inputs: list):
        text = bytes(inputs[0]).decode()
        for i in range(len(text)):
            made = (text[:i] + text[i].upper() + text[i + 1 :]).encode()
            yield [Tensor(self.output_names[i % 2], made)]
""",
    "either": """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        try:
            number = int(bytes(inputs[0]))
        except Exception:
            return [Tensor("error_message", "no number".encode())]
        return [Tensor("result", str(number + 1).encode())]
""",
    "after": """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        return [Tensor("last", bytes(inputs[0]) + b"!")]
""",
    "known": """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        return [Tensor("which", ",".join(each.name for each in inputs).encode())]
""",
    "labelled": """
from pyovms import Tensor

class OvmsPythonModel:
    def initialize(self, kwargs: dict):
        self.labels = []
    def execute(self, inputs: list):
        for input in inputs:
            if input.name == "labels":
                self.labels = bytes(input).decode().split(",")
            else:
                return [Tensor("result", self.labels[bytes(input)[0]].encode())]
""",
    "odd": """
import numpy as np
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        return [Tensor("out", np.array("my string"))]
""",
    "converts": """
from openvino import convert_model
import openvino as ov
import openvino.tools.ovc
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        assert ov.convert_model is convert_model is openvino.tools.ovc.convert_model
        return [Tensor("out", convert_model.__name__.encode())]
""",
}
LOOPING = """
  input_stream_info: {
    tag_index: 'LOOPBACK:0',
    back_edge: true
  }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler",
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set { tag_index: "LOOPBACK:0" }
      }
    }
  }"""
IMMEDIATE = """
  input_stream_handler {
    input_stream_handler: "ImmediateInputStreamHandler",
  }"""


def node(name: str, takes: str, gives: str, more: str = "", file: str = "") -> str:
    """Write a Python node; streams stand with their tags."""
    streams = [f'  input_stream: "{each}"' for each in takes.split()]
    streams += [f'  output_stream: "{each}"' for each in gives.split()]
    return f"""
node {{
  name: "{name}"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
{chr(10).join(streams)}{more}
  node_options: {{
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {{
      handler_path: "{file or name}.py"
    }}
  }}
}}
"""


def converter(takes: str, gives: str, options: str = "") -> str:
    return f"""
node {{
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "{takes}"
  output_stream: "{gives}"
  {options}
}}
"""


def graph(takes: str, gives: str, *nodes: str) -> str:
    """Write a graph; its streams get the tags that Python nodes need."""
    kinds = (("input_stream", takes), ("output_stream", gives))
    lines = [
        f'{kind}: "OVMS_PY_TENSOR{at}:{name}"'
        for kind, names in kinds
        for at, name in enumerate(names.split())
    ]
    return "\n".join([*lines, *nodes])


TAGGED = (
    "node_options: { [type.googleapis.com / mediapipe.PyTensorOvTensorConverterCalculatorOptions]:"
    ' { tag_to_output_tensor_names { key: ["OVMS_PY_TENSOR"] value: "back" } } }'
)
GRAPHS = {
    "louder": graph("text", "louder", node("louder", "IN:text", "OUT:louder")),
    "told": graph("b a c", "said", node("told", "B:b A:a C:c", "OUT:said")),
    "told_one": graph("x", "said", node("one", "IN:x", "OUT:said", file="told")),
    "same": graph("in", "out", node("same", "in", "out")),
    "more": graph(
        "first",
        "last",
        node("more", "INPUT:0:first", "OUTPUT:0:second"),
        converter("OVMS_PY_TENSOR:second", "OVTENSOR:there"),
        converter("OVTENSOR:there", "OVMS_PY_TENSOR:back", TAGGED),
        node("again", "INPUT:back", "OUTPUT:last", file="more"),
    ),
    "numbered": graph(
        "in",
        "even odd",
        node("numbered", "IN:in LOOPBACK:loopback", "E:even O:odd LOOPBACK:loopback", LOOPING),
    ),
    "either": graph(
        "in",
        "last error_message which",
        node("either", "IN:in", "OUT:result ERROR:error_message"),
        node("after", "IN:result", "OUT:last"),
        node("known", "A:error_message B:result", "OUT:which"),
    ),
    "labelled": graph(
        "labels image", "result", node("labelled", "I1:labels I2:image", "OUT:result", IMMEDIATE)
    ),
    "odd": graph("in", "out", node("odd", "IN:in", "OUT:out")),
    "converts": graph("in", "out", node("converts", "IN:in", "OUT:out")),
    "passed": 'input_stream: "OVTENSOR:in"\noutput_stream: "OVMS_PY_TENSOR:out"'
    + converter("OVTENSOR:in", "OVMS_PY_TENSOR:out"),
}


def written(root: Path) -> Path:
    """Write the graphs; of three ways to name one each is taken. Gives the configuration."""
    for name, text in GRAPHS.items():
        place = root / name / "1" if name == "same" else root / name
        place.mkdir(parents=True)
        (place / "graph.pbtxt").write_text(text)
        for file, code in NODES.items():
            (place / f"{file}.py").write_text(code)
    listed = [{"config": {"name": name, "base_path": name}} for name in ("same", "odd")]
    listed.append({"config": {"name": "passed", "graph_path": "graph.pbtxt"}})
    names = [each["config"]["name"] for each in listed]
    rest = [{"name": name} for name in GRAPHS if name not in names]
    file = root / "config.json"
    file.write_text(json.dumps({"model_config_list": listed, "mediapipe_config_list": rest}))
    return file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = written(tmp_path_factory.mktemp("nodes"))
    with Server("ie_serving", "config", f"--config_path={config}", "--allow_python") as it:
        yield it.ready()


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with closing(grpcclient.InferenceServerClient(f"127.0.0.1:{server.port}")) as client:
        yield client


@pytest.fixture
def web(server: Server) -> Iterator[Any]:
    with closing(httpclient.InferenceServerClient(f"127.0.0.1:{server.rest_port}")) as client:
        yield client


def raw(name: str, data: bytes, shape: list[int], datatype: str = "BYTES") -> Any:
    """As the demos send text and images."""
    given = grpcclient.InferInput(name, shape, datatype)
    given._raw_content = data
    return given


def array(name: str, value: Any, datatype: str, kind: Any = grpcclient, **how: Any) -> Any:
    given = kind.InferInput(name, value.shape, datatype)
    given.set_data_from_numpy(value, **how)
    return given


def told(result: Any) -> Any:
    """Give what the node `told` says of its only input, without the name."""
    (only,) = json.loads(result.as_numpy("said").tobytes())[1]
    return only[1:]


def texts(*each: bytes) -> Any:
    return np.array(each, np.object_)


@pytest.mark.parametrize("shape", [[25], [1]])
def test_the_quickstart_is_answered(client: Any, shape: list[int]) -> None:
    data = b"Make this text uppercase."
    results = client.infer("louder", [raw("text", data, shape)])
    assert results.as_numpy("louder").tobytes() == b"MAKE THIS TEXT UPPERCASE."
    output = results.get_output("louder")
    assert (output.datatype, list(output.shape)) == ("UINT8", [25])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            raw("x", b"ab\0", [3]), ["BYTES", [3], "B", [3], "616200"], id="bytes with a zero"
        ),
        pytest.param(
            raw("x", b"ab\0", [7, 2]),
            ["BYTES", [7, 2], "B", [3], "616200"],
            id="a shape of its own",
        ),
        pytest.param(raw("x", b"", [0]), ["BYTES", [0], "B", [0], ""], id="nothing"),
        pytest.param(
            raw("x", b"null0two0", [2], "my_string"),
            ["my_string", [2], "B", [9], b"null0two0".hex()],
            id="a type of its own",
        ),
        pytest.param(raw("x", b"\1\2", [1], "BF16"), ["BF16", [1], "B", [2], "0102"], id="BF16"),
        pytest.param(
            raw("x", b"\1\0\0\0", [], "INT32"), ["INT32", [], "i", [], "01000000"], id="a scalar"
        ),
        pytest.param(
            array("x", np.float32([[1.0], [2.0]]), "FP32"),
            ["FP32", [2, 1], "f", [2, 1], "0000803f00000040"],
            id="FP32",
        ),
        pytest.param(
            array("x", np.float16([1.0]), "FP16"), ["FP16", [1], "e", [1], "003c"], id="FP16"
        ),
        pytest.param(
            array("x", np.array([True, False]), "BOOL"), ["BOOL", [2], "?", [2], "0100"], id="BOOL"
        ),
        pytest.param(
            array("x", texts(b"a", b""), "BYTES"),
            ["BYTES", [2], "B", [9], "010000006100000000"],
            id="texts",
        ),
    ],
)
def test_a_node_gets_the_buffer_as_it_was_sent(client: Any, given: Any, said: Any) -> None:
    assert told(client.infer("told_one", [given])) == said


def test_typed_contents_of_bytes_stand_behind_their_lengths(server: Server) -> None:
    """However many the shape says; the reply is raw all the same."""
    request = service_pb2.ModelInferRequest(model_name="told_one")
    tensor = request.inputs.add(name="x", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.extend([b"a", b"bc"])
    call = server.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    reply = service_pb2.ModelInferResponse.FromString(
        call(request.SerializeToString(), timeout=PATIENCE_S)
    )
    (said,) = json.loads(reply.raw_output_contents[0])[1]
    assert said[1:] == ["BYTES", [1], "B", [11], "0100000061020000006263"]


@pytest.mark.parametrize(
    ("datatype", "shape", "data"), [("FP32", [2], b"\0" * 4), ("INT8", [], b"\0\0")]
)
def test_a_known_datatype_has_its_number_of_bytes(
    client: Any, datatype: str, shape: list[int], data: bytes
) -> None:
    with pytest.raises(InferenceServerException, match=f"{datatype} of shape .* takes"):
        client.infer("told_one", [raw("x", data, shape, datatype)])


def test_a_client_of_rest(web: Any) -> None:
    """The demo's: one element, raw; and the same without binary data."""
    for binary in (True, False):
        given = array("x", texts(b"a,b"), "BYTES", httpclient, binary_data=binary)
        assert told(web.infer("told_one", [given])) == ["BYTES", [1], "B", [7], "03000000612c62"]
    numbers = array("x", np.float32([1.0]), "FP32", httpclient, binary_data=True)
    assert told(web.infer("told_one", [numbers])) == ["FP32", [1], "f", [1], "0000803f"]


@pytest.mark.parametrize("datatype", ["BYTES", "my_string"])
def test_raw_bytes_over_rest(server: Server, datatype: str) -> None:
    described = {"name": "in", "shape": [5], "datatype": datatype}
    described["parameters"] = {"binary_data_size": 3}
    text = json.dumps({"inputs": [described]}).encode()
    length = {"inference-header-content-length": str(len(text))}
    reply = server.rest.post("/v2/models/same/infer", content=text + b"abc", headers=length)
    (output,) = reply.json()["outputs"]
    assert output == {"name": "out", "datatype": datatype, "shape": [5], "data": [97, 98, 99]}


def test_a_shape_without_room_in_a_reply_is_refused(server: Server) -> None:
    described = {"name": "in", "shape": [1 << 63], "datatype": "BYTES"}
    text = json.dumps({"inputs": [{**described, "parameters": {"binary_data_size": 3}}]}).encode()
    length = {"inference-header-content-length": str(len(text))}
    reply = server.rest.post("/v2/models/same/infer", content=text + b"abc", headers=length)
    assert (reply.status_code, "expected sizes from 0 to" in reply.text) == (400, True)


def test_answers_are_what_the_node_says(client: Any, web: Any) -> None:
    sent = raw("in", b"12345", [3], "my_string")
    reply = client.infer("same", [sent]).get_response()
    assert (reply.outputs[0].datatype, list(reply.outputs[0].shape)) == ("my_string", [3])
    assert list(reply.raw_output_contents) == [b"12345"]
    reply = client.infer("odd", [sent]).get_response()
    assert (reply.outputs[0].datatype, list(reply.outputs[0].shape)) == ("9w", [])
    assert list(reply.raw_output_contents) == ["my string".encode("utf-32-le")]
    strings = client.infer("same", [array("in", texts(b"a", b"b"), "BYTES")])
    assert strings.as_numpy("out").tolist() == [b"a", b"b"]
    strings = web.infer("same", [array("in", texts(b"a", b"b"), "BYTES", httpclient)])
    assert strings.as_numpy("out").tolist() == [b"a", b"b"]


def test_names_and_the_order_of_tags(client: Any) -> None:
    given = [raw(name, name.encode(), [1]) for name in "cba"]
    names, said = json.loads(client.infer("told", given).as_numpy("said").tobytes())
    assert names == ["told", ["b", "a", "c"], ["said"]]
    assert [each[0] for each in said] == ["a", "b", "c"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_nodes_and_converters_run_in_a_row(client: Any, dtype: str) -> None:
    value = np.array([[1, 2, 3]], dtype)
    word = {"float32": "FP32", "float64": "FP64"}.get(dtype, dtype.upper())
    reply = client.infer("more", [array("first", value, word)]).as_numpy("last")
    assert (reply.dtype, reply.tolist()) == (value.dtype, [[3, 4, 5]])


def test_converters_alone_pass_their_input_on(client: Any) -> None:
    reply = client.infer("passed", [array("in", np.float32([1.5]), "FP32")])
    assert reply.as_numpy("out").tolist() == [1.5]


def test_a_node_may_leave_out_outputs(client: Any) -> None:
    """A node behind it runs with the others, and not where it has none."""
    good, bad = (client.infer("either", [raw("in", data, [1])]) for data in (b"41", b"x"))
    assert [each.name for each in good.get_response().outputs] == ["last", "which"]
    assert good.as_numpy("last").tobytes() == b"42!"
    assert good.as_numpy("which").tobytes() == b"result"
    assert [each.name for each in bad.get_response().outputs] == ["error_message", "which"]
    assert bad.as_numpy("error_message").tobytes() == b"no number"
    assert bad.as_numpy("which").tobytes() == b"error_message"


def test_incomplete_inputs_are_kept_until_they_are_complete(client: Any) -> None:
    assert not client.infer("labelled", [raw("labels", b"cat,dog", [7])]).get_response().outputs
    for number, label in enumerate((b"cat", b"dog")):
        reply = client.infer("labelled", [raw("image", bytes([number]), [1])])
        assert reply.as_numpy("result").tobytes() == label
    with pytest.raises(InferenceServerException, match=r"Missing but required: \{a,c\}"):
        client.infer("told", [raw("b", b"", [0])])


def test_a_generator_answers_one_by_one(client: Any) -> None:
    replies: queue.Queue[Any] = queue.Queue()
    client.start_stream(callback=lambda result, error: replies.put((result, error)))
    try:
        client.async_stream_infer("numbered", [raw("in", b"abc", [3])])
        found = [replies.get(timeout=PATIENCE_S) for _ in range(3)]
    finally:
        client.stop_stream()
    assert [error for _, error in found] == [None] * 3
    outputs = [result.get_response().outputs[0].name for result, _ in found]
    assert outputs == ["even", "odd", "even"]
    said = [
        result.as_numpy(name).tobytes() for (result, _), name in zip(found, outputs, strict=True)
    ]
    assert said == [b"Abc", b"aBc", b"abC"]
    with pytest.raises(InferenceServerException, match="ask it by a stream"):
        client.infer("numbered", [raw("in", b"abc", [3])])


def test_a_node_can_convert_models(client: Any) -> None:
    reply = client.infer("converts", [raw("in", b"x", [1])])
    assert reply.as_numpy("out").tobytes() == b"convert_model"


def test_metadata_names_what_is_known(client: Any) -> None:
    found = client.get_model_metadata("told", as_json=True)
    assert sorted(each["name"] for each in found["inputs"]) == ["a", "b", "c"]
    assert [each["name"] for each in found["outputs"]] == ["said"]


def test_clients_of_tensorflow_serving_are_answered(server: Server) -> None:
    """Dtypes say what tensors are; strings stand behind their lengths for the node alone."""
    request = predict_request("more", first=tf.make_tensor_proto([[1.5]], np.float64))
    reply = server.prediction.Predict(request, PATIENCE_S).outputs["last"]
    assert (tf.make_ndarray(reply).tolist(), reply.dtype) == ([[3.5]], tf.float64.as_datatype_enum)
    body = {"inputs": {"in": ["a", "bc"]}}
    reply = server.rest.post("/v1/models/same:predict", json=body)
    assert reply.json() == {"outputs": ["a", "bc"]}
    reply = server.rest.post("/v1/models/either:predict", json={"inputs": {"in": ["x"]}})
    given = {name: bytes(value) for name, value in reply.json()["outputs"].items()}
    assert given == {"error_message": b"no number", "which": b"error_message"}


def test_a_directory_is_a_graph(tmp_path: Path) -> None:
    """The demo's encoding by hand, against the only model of a command line."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "graph.pbtxt").write_text(GRAPHS["louder"])
    (place / "louder.py").write_text(NODES["louder"])
    flags = ("--model_name=alone", f"--model_path={place}", "--allow_python")
    with Server("ie_serving", "model", *flags) as server:
        server.ready()
        data = serialize_byte_tensor(texts(b"abc")).item()
        with closing(grpcclient.InferenceServerClient(f"127.0.0.1:{server.port}")) as client:
            reply = client.infer("alone", [raw("text", data, [len(data)])])
        assert reply.as_numpy("louder").tobytes() == b"\3\0\0\0ABC"
        body = {"inputs": {"text": [{"b64": base64.b64encode(b"x").decode()}]}}
        reply = server.rest.post("/v1/models/alone/versions/1:predict", json=body)
        assert bytes(reply.json()["outputs"]) == b"\1\0\0\0X"
