"""A repository of Triton, by the commands of its page: Triton's client finds its models here."""

import re
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import openvino.opset15 as op
import tritonclient.http as triton

from ie_serving.core.values.tensors import DataType
from tests.functional import half_plus_two
from tests.functional.servers import ROOT, Server
from tests.process import COMMANDS, output_of
from tests.unit.engines.openvino.models import unary

PAGE = ROOT / "docs" / "start" / "from-triton.md"
CONFIG = {
    "twice": """
        name: "twice" backend: "openvino" max_batch_size: 16
        input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
        output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
        dynamic_batching { max_queue_delay_microseconds: 100 }
    """,
    "half": 'platform: "tensorflow_savedmodel" version_policy: { all {} }',
    "both": """
        platform: "ensemble"
        input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
        output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
        ensemble_scheduling { step [
          { model_name: "twice" model_version: -1
            input_map { key: "x" value: "IN" } output_map { key: "y" value: "OUT" } } ] }
    """,
}


def test_models_of_a_repository_answer(tmp_path: Path) -> None:
    models = tmp_path / "models"
    unary(models / "twice" / "1", [-1, 1], DataType.FP32, lambda x: op.multiply(x, np.float32(2)))
    exported = half_plus_two.export(tmp_path / "exported")
    shutil.copytree(exported, models / "half" / "7" / "model.savedmodel")
    for name, text in CONFIG.items():
        (models / name).mkdir(exist_ok=True)
        (models / name / "config.pbtxt").write_text(text)
    imports, start = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    output_of(
        "/bin/sh",
        "-ec",
        imports.replace("/models", str(models)).replace("ie_serving ", f"{COMMANDS}/ie_serving "),
        cwd=tmp_path,
    )
    *command, rest, grpc = (
        start.replace("--rest_port 8000", "REST").replace("--port 8001", "GRPC").split()
    )
    assert [rest, grpc] == ["REST", "GRPC"]
    with closing(Server(*command, cwd=tmp_path)) as server:
        client = triton.InferenceServerClient(server.ready().url.removeprefix("http://"))
        for name, given, wanted, answer in (
            ("twice", "x", "y", 6.0),
            ("half", "x", "y", 3.5),
            ("both", "IN", "OUT", 6.0),
        ):
            tensor = triton.InferInput(given, [1, 1], "FP32")
            tensor.set_data_from_numpy(np.full((1, 1), 3, np.float32))
            assert client.infer(name, [tensor]).as_numpy(wanted).item() == answer, name
        assert client.get_model_metadata("half")["versions"] == ["7"]
