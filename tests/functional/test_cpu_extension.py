"""`cpu_extension`: an operation that OpenVINO lacks, compiled here, over both interfaces."""

import shutil
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as op
import pytest
import tensorflow as tf

from ie_serving.core.values.tensors import DataType
from tests.functional.asking import predict_request
from tests.functional.conftest import Serve
from tests.functional.servers import Server
from tests.process import PATIENCE_S, output_of
from tests.unit.engines.openvino.models import unary

SOURCE = """
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>

class Thrice : public ov::op::Op {
public:
    OPENVINO_OP("Thrice", "of_a_test");
    Thrice() = default;
    explicit Thrice(const ov::OutputVector& given) : Op(given) {
        constructor_validate_and_infer_types();
    }
    void validate_and_infer_types() override {
        set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
    }
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& given) const override {
        return std::make_shared<Thrice>(given);
    }
    bool visit_attributes(ov::AttributeVisitor&) override { return true; }
    bool has_evaluate() const override { return true; }
    bool evaluate(ov::TensorVector& out, const ov::TensorVector& in) const override {
        out[0].set_shape(in[0].get_shape());
        const float* given = in[0].data<float>();
        float* made = out[0].data<float>();
        for (size_t i = 0; i < in[0].get_size(); ++i) made[i] = 3 * given[i];
        return true;
    }
};

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>{
    std::make_shared<ov::OpExtension<Thrice>>()});
"""
OPENVINO = Path(ov.__file__).parent
BUILD_S = 100.0

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the operation against the headers that come with OpenVINO."""
    folder = tmp_path_factory.mktemp("extension")
    (folder / "thrice.cpp").write_text(SOURCE)
    made = folder / "libthrice.so"
    (runtime,) = (OPENVINO / "libs").glob("libopenvino.so.*")
    flags = ("-std=c++17", "-shared", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=1")
    found = ("-I", OPENVINO / "include", "-L", OPENVINO / "libs", f"-l:{runtime.name}")
    output_of(
        shutil.which("g++") or "", *flags, folder / "thrice.cpp", "-o", made, *found,
        patience_s=BUILD_S,
    )  # fmt: skip
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Write y = Thrice(x): a model of another operation, renamed in its file."""
    unary(tmp_path / "1", [-1, 3], DataType.FP32, op.relu)
    file = tmp_path / "1" / "model.xml"
    text = file.read_text()
    assert 'type="ReLU" version="opset1"' in text
    file.write_text(
        text.replace('type="ReLU" version="opset1"', 'type="Thrice" version="of_a_test"')
    )
    return tmp_path


@pytest.fixture(params=["flag", "variable"])
def server(request: pytest.FixtureRequest, serve: Serve, model: Path, library: Path) -> Server:
    command = ("ie_serving", "--model_name=thrice", f"--model_path={model}")
    if request.param == "flag":
        return serve(*command, f"--cpu_extension={library}")
    return serve(*command, env={"CPU_EXTENSION": str(library)})


def by_openvino(model: Path, library: Path, rows: np.ndarray) -> list[list[float]]:
    """Ask OpenVINO with the same library, without a server."""
    core = ov.Core()
    core.add_extension(library)
    answer: np.ndarray = core.compile_model(model / "1" / "model.xml", "CPU")(rows)[0]
    return answer.tolist()


def test_the_operation_of_a_library_is_computed_and_answered(
    server: Server, model: Path, library: Path
) -> None:
    rows = np.array([[1, -2, 0.5], [0, 4, 8]], np.float32)
    expected = by_openvino(model, library, rows)
    assert expected == (3 * rows).tolist()
    request = predict_request("thrice", x=rows)
    reply = server.prediction.Predict(request, PATIENCE_S)
    assert tf.make_ndarray(reply.outputs["y"]).tolist() == expected
    answered = server.rest.post("/v1/models/thrice:predict", json={"inputs": rows.tolist()})
    assert answered.json()["outputs"] == expected
