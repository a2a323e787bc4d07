"""Python nodes written to the letter of OpenVINO Model Server's documentation.

Source: docs/python_support/reference.md of openvinotoolkit/model_server, section by section.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.requests import Caller
from ie_serving.core.values.tensors import is_absent, sent_in
from ie_serving.engines.python.kernel_model import KernelModel
from ie_serving.engines.python.ovms import Tensor
from tests.unit.engines.asking import answer, strings
from tests.unit.engines.python.kernels import served

INCREMENTER = """
from pyovms import Tensor

def increment(input):
    import numpy as np
    return np.array(input) + 1

class OvmsPythonModel:
    def initialize(self, kwargs):
        self.output_name = kwargs["output_names"][0]
        self.kwargs = kwargs

    def execute(self, inputs):
        my_input = inputs[0]
        my_output = Tensor(self.output_name, increment(my_input))
        return [my_output]

class Helper:
    def execute(self, inputs):
        return inputs
"""
NUMBERS = {"dtype": "float32", "shape": [-1]}
TEXT = {"dtype": "string", "shape": []}
TEXTS = {"dtype": "string", "shape": [-1]}
ANY = {"dtype": "any"}


def declared(given: Any, gives: Any) -> dict[str, Any]:
    return {"inputs": {"input": given}, "outputs": {"output": gives}}


def node(directory: Path, execute: str, given: Any, gives: Any) -> KernelModel:
    """Load a node whose `execute` is this line."""
    code = f"""
import numpy as np
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        {execute}
"""
    return served(directory, code, "", declared(given, gives))


async def test_the_basic_example_is_found_without_a_name(tmp_path: Path) -> None:
    model = served(tmp_path, INCREMENTER, "", declared(NUMBERS, NUMBERS))
    assert (await answer(model, input=[1.0, 2.0]))["output"].tolist() == [2.0, 3.0]
    model.close()
    assert "pyovms" not in sys.modules


async def test_a_tensor_tells_its_name_shape_type_and_data(tmp_path: Path) -> None:
    code = """
        import json
        from pyovms import Tensor
        class OvmsPythonModel:
            def initialize(self, kwargs: dict):
                self.given = kwargs
            def execute(self, inputs: list):
                t = inputs[0]
                assert isinstance(t.data, memoryview) and t.data.format == "f"
                said = [t.name, t.shape, t.datatype, t.size, len(bytes(t)), len(memoryview(t))]
                said += [self.given["node_name"], self.given["input_names"]]
                said.append(self.given["base_path"])
                return [Tensor("output", json.dumps(said).encode())]
            def finalize(self):
                (Path := __import__("pathlib").Path)(self.given["base_path"], "gone").touch()
        """
    model = served(tmp_path, code, "", declared(NUMBERS, TEXT))
    said = (await answer(model, input=[1.0, 2.0]))["output"].item()
    start = b'["input", [2], "FP32", 8, 8, 2, "OvmsPythonModel", ["input"], '
    assert said == start + b'"%b"]' % bytes(tmp_path)
    model.close()
    assert (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("given", "texts", "buffer"),
    [
        # One string alone is the buffer, as where a client sends raw content.
        (TEXT, np.array(b"abc", np.object_), b"abc"),
        (TEXTS, strings("abc", ""), b"\x03\0\0\0abc\0\0\0\0"),
    ],
)
async def test_strings_are_buffers(tmp_path: Path, given: Any, texts: Any, buffer: bytes) -> None:
    execute = "t = inputs[0]; assert t.datatype == 'BYTES'; return [Tensor('output', bytes(t))]"
    model = node(tmp_path, execute, given, TEXT)
    assert (await answer(model, input=texts))["output"].item() == buffer
    model.close()


@pytest.mark.parametrize(
    ("made", "gives", "expected"),
    [
        pytest.param(
            "Tensor('output', np.array(['my', 'batched']))",
            TEXTS,
            [b"my", b"batched"],
            id="an array of texts",
        ),
        pytest.param("Tensor('output', b'some text')", TEXTS, [b"some text"], id="bytes"),
        pytest.param(
            "Tensor('output', b'\\1\\0\\0\\0a\\0\\0\\0\\0', (2,), 'BYTES')",
            TEXTS,
            [b"a", b""],
            id="BYTES with lengths",
        ),
        pytest.param(
            "Tensor('output', b'abc', datatype='BYTES')",
            TEXTS,
            [b"abc"],
            id="BYTES without lengths",
        ),
        pytest.param(
            "Tensor('output', np.float32([[1, 2]]), shape=[2])",
            NUMBERS,
            [1.0, 2.0],
            id="a shape of its own",
        ),
        pytest.param(
            "Tensor('output', np.float32([1, 2]).tobytes(), [2], 'FP32')",
            NUMBERS,
            [1.0, 2.0],
            id="FP32 as bytes",
        ),
    ],
)
async def test_a_tensor_becomes_the_output_that_is_declared(
    tmp_path: Path, made: str, gives: Any, expected: Any
) -> None:
    model = node(tmp_path, f"return [{made}]", NUMBERS, gives)
    assert (await answer(model, input=[0.0]))["output"].tolist() == expected
    model.close()


@pytest.mark.parametrize(
    ("ends", "fault"),
    [
        pytest.param(
            "return None",
            "INTERNAL: OvmsPythonModel.execute returned NoneType; expected a list of",
            id="nothing",
        ),
        pytest.param(
            "return [Tensor('x', b'1')]",
            'INTERNAL: kernel OvmsPythonModel returned "x"; it declares',
            id="another output",
        ),
        pytest.param(
            "yield []", "UNIMPLEMENTED: OvmsPythonModel.execute is a generator", id="a generator"
        ),
        pytest.param(
            "raise KeyError('k')",
            "INTERNAL: kernel OvmsPythonModel failed: KeyError: 'k'",
            id="an exception",
        ),
    ],
)
async def test_a_wrong_return_value_is_told(tmp_path: Path, ends: str, fault: str) -> None:
    model = node(tmp_path, ends, NUMBERS, NUMBERS)
    with pytest.raises(ServingError) as raised:
        await answer(model, input=[0.0])
    assert f"{code_of(raised.value).name}: {raised.value}".startswith(fault)
    model.close()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("b'some text'", np.frombuffer(b"some text", np.uint8), id="bytes"),
        pytest.param("np.float64([[1.5]])", np.array([[1.5]]), id="FP64"),
        pytest.param("np.zeros((0, 4), np.int16)", np.zeros((0, 4), np.int16), id="no rows"),
        pytest.param(
            "np.float32([1, 2]).tobytes(), [2], 'FP32'", np.float32([1, 2]), id="FP32 as bytes"
        ),
        pytest.param("b'\\1\\0\\0\\0a', (1,), 'BYTES'", strings("a"), id="BYTES"),
    ],
)
async def test_untyped_outputs_are_arrays(tmp_path: Path, made: str, expected: Any) -> None:
    model = node(tmp_path, f"return [Tensor('output', {made})]", ANY, ANY)
    found = (await answer(model, input=[1.0]))["output"]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tolist() == expected.tolist()
    model.close()


@pytest.mark.parametrize(
    ("made", "sent"),
    [
        pytest.param("b'abc', (25,), 'BYTES'", (b"abc", "BYTES", (25,)), id="another length"),
        pytest.param("b'abc', [2], 'mine'", (b"abc", "mine", (2,)), id="another type"),
        pytest.param("b'abc', [2], 'FP32'", (b"abc", "FP32", (2,)), id="too few bytes"),
        pytest.param(
            "b'', [0, 1 << 60, 1 << 60], 'FP32'",
            (b"", "FP32", (0, 1 << 60, 1 << 60)),
            id="a huge shape",
        ),
        pytest.param("np.array('a')", ("a".encode("utf-32-le"), "1w", ()), id="texts of numpy"),
    ],
)
async def test_untyped_outputs_that_are_no_arrays_keep_their_type(
    tmp_path: Path, made: str, sent: Any
) -> None:
    model = node(tmp_path, f"return [Tensor('output', {made})]", ANY, ANY)
    found = sent_in((await answer(model, input=[1.0]))["output"])
    assert found is not None
    assert (bytes(found), found.datatype, found.shape) == sent
    model.close()


@pytest.mark.parametrize("size", [-1, 1 << 63])
async def test_a_shape_that_no_reply_can_have(tmp_path: Path, size: int) -> None:
    model = node(tmp_path, f"return [Tensor('output', b'abc', [{size}])]", ANY, ANY)
    with pytest.raises(ServingError, match="expected sizes from 0 to"):
        await answer(model, input=[1.0])
    model.close()


async def test_an_untyped_output_may_be_left_out(tmp_path: Path) -> None:
    model = node(tmp_path, "return []", ANY, ANY)
    assert is_absent((await answer(model, input=[1.0]))["output"])
    model.close()
    model = node(tmp_path, "return []", ANY, NUMBERS)
    with pytest.raises(ServingError, match='returned no output; it declares "output"'):
        await answer(model, input=[1.0])
    model.close()


def test_a_process_takes_no_untyped_tensors(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match='"any" is for nodes in the server'):
        served(tmp_path, INCREMENTER, "", declared(ANY, ANY), isolation="process")


def test_tensors_must_be_declared(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"OvmsPythonModel does not say .*declare it in params"):
        served(tmp_path, INCREMENTER)


async def test_a_generator_answers_a_stream(tmp_path: Path) -> None:
    code = """
        from pyovms import Tensor
        class OvmsPythonModel:
            def execute(self, inputs):
                for i in range(3):
                    yield [Tensor("output", str(i).encode())]
        """
    model = served(tmp_path, code, "", declared(NUMBERS, TEXT))
    assert model.stream is not None

    async def items() -> AsyncIterator[Any]:
        for _ in range(2):
            yield {"input": np.zeros(1, np.float32)}

    signature = model.signatures["serving_default"]
    replies = model.stream(signature, items(), lambda outputs: outputs["output"].item(), Caller())
    assert [each async for each in replies] == [b"0", b"1", b"2"] * 2
    model.close()


def test_a_tensor_is_made_of_a_tensor_and_cut_into_parts() -> None:
    tensor = Tensor("a", Tensor("b", b"1234"), (2, 2), "mine")
    assert (tensor.name, tensor.shape, tensor.datatype, tensor.size) == ("a", (2, 2), "mine", 4)
    assert tensor[:2].shape == (2,)
    assert np.asarray(tensor).tolist() == [*b"1234"]


def test_a_tensor_has_the_buffer_of_its_data() -> None:
    assert bytes(Tensor(name="a", data=np.int32(3))) == b"\3\0\0\0"
    tensor = Tensor(name="a", buffer=np.int16([1, 2]))
    assert (tensor.data.format, tensor.data.tolist(), tensor.datatype) == ("h", [1, 2], "INT16")
    with pytest.raises(TypeError):
        Tensor("a")
