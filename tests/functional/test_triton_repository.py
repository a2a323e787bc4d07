"""A repository of Triton, by the commands of its page: Triton's client finds its models here."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import openvino.opset15 as op
import tritonclient.http as triton

from ie_serving.core.values.tensors import DataType
from tests.functional import half_plus_two
from tests.functional.conftest import Serve
from tests.functional.servers import ROOT, Server
from tests.process import COMMANDS, PATIENCE_S, output_of, ran, until
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
    with Server(*command, cwd=tmp_path) as server:
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


DIFFERENT = {
    "name": (
        'input [ { name: "z" data_type: TYPE_FP32 dims: [ 2 ] } ]',
        'unexpected input "z": the model has x',
    ),
    "output": (
        'output [ { name: "z" data_type: TYPE_FP32 dims: [ 2 ] } ]',
        'unexpected output "z": the model has y',
    ),
    "count": (
        'input [ { name: "x" }, { name: "y" } ]',
        "2 inputs are declared, the model has 1",
    ),
    "type": (
        'input [ { name: "x" data_type: TYPE_INT32 dims: [ 2 ] } ]',
        'input "x" has data_type TYPE_INT32, the model has TYPE_FP32',
    ),
    "dims": (
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]',
        'input "x" has the shape (-1, 3) with the batch before dims, the model has',
    ),
    "rank": (
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ 2, 1 ] } ]',
        'output "y" has the shape (-1, 2, 1) with the batch before dims, the model has',
    ),
    "fixed": ("max_batch_size: 4", "max_batch_size 4 needs a first dimension of any size"),
    "same": (
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]'
        ' output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]',
        "",
    ),
    "reshaped": ('input [ { name: "x" dims: [ 1, 2 ] reshape: { shape: [ 2 ] } } ]', ""),
    "silent": ('input [ { name: "x" } ]', ""),
}
"""By model: what its file declares, and what is said of it; `y` is twice `x`, both FP32 [-1, 2]."""


def test_a_model_that_is_not_as_its_file_declares_is_refused(tmp_path: Path, serve: Serve) -> None:
    for name, (text, _) in DIFFERENT.items():
        shape = [1, 2] if name == "fixed" else [-1, 2]
        unary(tmp_path / name / "1", shape, DataType.FP32, lambda x: op.multiply(x, np.float32(2)))
        batch = "" if name == "fixed" else "max_batch_size: 8\n"
        (tmp_path / name / "config.pbtxt").write_text(batch + text)
    checked = ran("ie_serving", "check", f"--model_repository={tmp_path}", "--json")
    found = json.loads(checked.stdout)["models"]
    server = serve("ie_serving", "config", f"--model_repository={tmp_path}")
    for name, (_, expected) in DIFFERENT.items():
        (version,) = server.rest.get(f"/v1/models/{name}").json()["model_version_status"]
        told = version["status"]["error_message"]
        assert (version["state"] == "AVAILABLE") == (not expected), told
        if expected:
            assert expected in told
            assert f"{tmp_path}/{name}/config.pbtxt is not about this model" in told
            assert expected in found[name]["versions"][0]["fault"]
        else:
            assert not found[name]["versions"][0].get("fault")


def test_a_new_declaration_that_contradicts_a_served_model_shows_in_its_status(
    tmp_path: Path, serve: Serve
) -> None:
    """The load that serves stays, and its status says why the new settings do not serve."""
    unary(tmp_path / "m" / "1", [-1, 2], DataType.FP32, lambda x: op.multiply(x, np.float32(2)))
    file = tmp_path / "m" / "config.pbtxt"
    good = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ] max_batch_size: 8'
    file.write_text(good)
    poll = "--file_system_poll_wait_seconds=0.3"
    server = serve("ie_serving", "config", f"--model_repository={tmp_path}", poll)
    file.write_text(good.replace("[ 2 ]", "[ 5 ]"))
    cause = 'input "x" has the shape (-1, 5)'

    def told() -> str:
        return str(server.rest.get("/v1/models/m/details").json()["settings_not_applied"])

    until(lambda: cause in told(), PATIENCE_S)
    assert told().startswith("version 1: ")
    (version,) = server.rest.get("/v1/models/m").json()["model_version_status"]
    assert version["state"] == "AVAILABLE"
    shown = server.rest.get("/page/state").json()["models"][0]
    assert cause in shown["not_applied"]
    file.write_text(good)
    until(lambda: not told(), PATIENCE_S)
    file.write_text(good.replace("[ 2 ]", "[ 5 ]"))
    until(lambda: cause in told(), PATIENCE_S)
    file.write_text(good.replace("8", "4"))
    until(lambda: not told(), PATIENCE_S)


def test_a_models_configuration_has_the_batch_size_of_its_file(
    tmp_path: Path, serve: Serve
) -> None:
    for name, text in (("set", "max_batch_size: 8"), ("unset", "")):
        unary(tmp_path / name / "1", [-1, 2], DataType.FP32, op.negative)
        (tmp_path / name / "config.pbtxt").write_text(text)
    server = serve("ie_serving", "config", f"--model_repository={tmp_path}")
    client = triton.InferenceServerClient(server.url.removeprefix("http://"))
    sizes = {name: client.get_model_config(name)["max_batch_size"] for name in ("set", "unset")}
    assert sizes == {"set": 8, "unset": 2**31 - 1}


def test_check_names_unknown_words_in_the_settings_of_a_repositorys_models(tmp_path: Path) -> None:
    for name in ("tri", "own"):
        unary(tmp_path / name / "1", [-1, 2], DataType.FP32, op.negative)
    (tmp_path / "tri" / "config.pbtxt").write_text("max_batch_sizes: 8")
    (tmp_path / "own" / "model.json").write_text('{"nirek": 2}')
    command = ("ie_serving", "check", f"--model_repository={tmp_path}")
    checked = ran(*command)
    assert checked.returncode == 1
    assert (
        f"server: {tmp_path}/tri/config.pbtxt: tri: max_batch_sizes: Triton has no such field,"
        ' left out; did you mean "max_batch_size"?'
    ) in checked.stdout
    assert "own/model.json: nirek: unknown key, ignored" in checked.stdout
    output_of(*command, "--lenient")
