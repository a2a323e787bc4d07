"""The commands of the README, of docs/start and of `make run`, as they are printed.

Changed are only ports and the root of absolute paths; what a page leaves to its reader is made
here: a model, and the files of an operator.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.exporting import export
from tests.functional.exports import readers_models
from tests.functional.servers import READY, ROOT, SAMPLE
from tests.functional.typed import Typed, blocks, section
from tests.process import COMMANDS, Process, free_ports, output_of, until

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("make")), reason="the README uses curl and make"
)

README = (ROOT / "README.md").read_text()
START = ROOT / "docs" / "start"
OWN_MODEL = (START / "own-model.md").read_text()
ENVIRONMENT = {"PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}", "no_proxy": "localhost"}
ROW = "[5.1, 3.5, 1.4, 0.2]"
"""Of the pages' requests; a row of Fisher's irises, the first."""

OF_IRISES = """
import onnx, skl2onnx, skops.io
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
rows, species = load_iris(return_X_y=True)
model = RandomForestClassifier(3, random_state=1).fit(rows, species)
"""
OF_TORCH = f"""
import openvino as ov
import torch
torch.manual_seed(1)
x = torch.tensor([{ROW}])
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(1)).eval()
"""
LIBRARIES = {"scikit-learn": OF_IRISES, "scikit-learn, as ONNX": OF_IRISES, "PyTorch": OF_TORCH}
"""What has happened in Python before a page's line, by the row of its table."""


def lines(text: str) -> dict[str, str]:
    """Give the lines of a table that save a model, by library."""
    return dict(re.findall(r"^\| ([\w, -]+) \| `(.*?)` \|", text, re.MULTILINE))


OF_README = section(README, "Your own model")
LINES = lines(section(OWN_MODEL, "From Python"))


@pytest.fixture
def ports() -> tuple[int, int]:
    port, rest_port = free_ports(2)
    return port, rest_port


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Typed]:
    """Give a folder as `make run` and `mkdir -p models/mine/1` leave it, to type in."""
    for made in (".venv/bin", "models/mine/1"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    with closing(Typed(tmp_path)) as typed:
        yield typed


@pytest.fixture
def made(tmp_path: Path, ports: tuple[int, int]) -> Iterator[Process]:
    """`make run` in a folder of its own, whose environment is that of the tests."""
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").mkdir()
    for part in COMMANDS.parent.iterdir():
        (tmp_path / ".venv" / part.name).symlink_to(part)
    (tmp_path / ".venv/.installed").unlink(missing_ok=True)
    (tmp_path / ".venv/.installed").touch()
    make_run, _ = blocks(section(README, "Try it"))
    chosen = f"PORT={ports[0]} REST_PORT={ports[1]}"
    command = f"exec {make_run[1].strip()} {chosen}"
    make = Process("/bin/sh", "-ec", command, env=ENVIRONMENT, cwd=tmp_path)
    with closing(make):
        make.line(READY)
        yield make


def test_make_run_and_the_readme_say_what_works(
    made: Process, tmp_path: Path, ports: tuple[int, int]
) -> None:
    printed = [line for line in made.lines if re.match(r"  (curl|\.venv)", line)]
    _, (_, ask) = blocks(section(README, "Try it"))
    of_readme = ask.replace(":8000/", f":{ports[1]}/")
    of_readme = of_readme.replace("client_grpc.py", f"client_grpc.py --port {ports[0]}")
    for commands in ("\n".join(printed), of_readme):
        output = "\n".join(output_of("/bin/sh", "-ec", commands, env=ENVIRONMENT, cwd=tmp_path))
        assert '"digit": 1' in output
        assert "predicted" in output
    assert "serving models: ['digits']" in made.log
    assert not re.search(r"version=1 state=AVAILABLE", made.log)


def test_the_lines_of_both_pages_are_the_same() -> None:
    assert lines(OF_README) == {
        "Keras, TensorFlow": readers_models.LINE,
        "scikit-learn": LINES["scikit-learn"],
        "PyTorch": LINES["PyTorch"],
    }
    assert LINES["Keras 3"] == readers_models.LINE


def test_the_readme_leads_from_keras_to_an_answer(typed: Typed) -> None:
    export(readers_models.__file__, typed.folder)
    served_by_the_readme(typed)


@pytest.mark.deployed
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_readme_leads_from_other_libraries_to_an_answer(typed: Typed, library: str) -> None:
    if library == "PyTorch" and find_spec("torch") is None:
        pytest.skip("torch is not installed; see `make drivers`")
    saves = LIBRARIES[library] + LINES[library]
    output_of(sys.executable, "-c", saves, cwd=typed.folder, patience_s=100)
    served_by_the_readme(typed)


def served_by_the_readme(typed: Typed) -> None:
    serve, ask = blocks(OF_README)
    typed.type(serve[1])
    predict, metadata, row, over_grpc = ask[1].splitlines()
    assert ROW in predict
    typed.type(predict)
    assert re.search(r'"predictions": \[.*\d', typed.printed, re.DOTALL)
    over_rest = numbers(typed.printed)
    assert over_rest
    typed.type(metadata)
    assert "signature_def" in typed.printed
    typed.type(f"{row}\n{over_grpc}")
    assert numbers(typed.printed) == pytest.approx(over_rest, rel=1e-6)


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?", text)]


def test_a_model_of_ones_own(typed: Typed) -> None:
    """By docs/start/own-model.md, to its second version."""
    export(readers_models.__file__, typed.folder)
    ((_, check),) = blocks(section(OWN_MODEL, "Check the model"))
    typed.type(check)
    assert "model mine, version 1" in typed.printed
    (_, serve), (_, ask) = blocks(section(OWN_MODEL, "Serve the model"))
    typed.type(serve)
    status, metadata, predict, new_version = ask.splitlines()
    typed.type(f"{status}\n{metadata}\n{predict}")
    for said in ("AVAILABLE", "signature_def", '"predictions"'):
        assert said in typed.printed
    typed.type(new_version)

    def is_served() -> bool:
        typed.type(status)
        return bool(re.search(r'"version": "2",\s+"state": "AVAILABLE"', typed.printed))

    until(is_served)


def test_the_page_leads_an_operator_of_tensorflow_serving(typed: Typed) -> None:
    export(readers_models.__file__, typed.folder)
    page = (START / "from-tensorflow-serving.md").read_text()
    page = re.sub(r"(?<=[ =])/models/", f"{typed.folder}/models/", page)
    typed.page(section(page, "From TensorFlow Serving"))
    typed.page(section(page, "1. Check the models"))
    assert "half_plus_two, version 123" in typed.printed


def test_the_page_leads_an_operator_of_openvino_model_server(typed: Typed) -> None:
    models = [{"config": {"name": "digits", "base_path": str(SAMPLE), "nireq": 2}}]
    config = typed.folder / "models" / "config.json"
    config.write_text(json.dumps({"model_config_list": models}))
    page = (START / "from-openvino-model-server.md").read_text()
    page = page.replace("/models/config.json", str(config))
    typed.page(section(page, "From OpenVINO Model Server"))
    assert '"digits"' in typed.printed
    typed.page(section(page, "1. Check the models"))
    assert "model digits, version 2" in typed.printed
