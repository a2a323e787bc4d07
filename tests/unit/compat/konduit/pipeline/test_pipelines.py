"""Pipelines as Konduit Serving writes them answer as Konduit does."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.app.engine_stack import models_of
from ie_serving.compat.konduit import data
from ie_serving.compat.konduit.pipeline.definition import read
from ie_serving.compat.konduit.pipeline.running import RunningPipeline
from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.core.values.requests import Caller
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.python.context import Context
from ie_serving.wire.image import encoded
from tests.tables import named_by
from tests.unit.compat.konduit.pipeline.pipelines import array, ran

LOGGING = {"@type": "LOGGING", "log": "KEYS_AND_VALUES"}


def python(code: str, inputs: str, outputs: str, **more: Any) -> dict[str, Any]:
    """Write a PythonStep; `inputs` as `a:int b:str`, `outputs` as `c:DOUBLE`."""
    kinds = {"int": "INT64", "float": "DOUBLE", "str": "STRING", "numpy.ndarray": "NDARRAY"}
    of = {kind: name for name, kind in kinds.items()}
    takes = {}
    for each in inputs.split():
        name, _, kind = each.partition(":")
        takes[name] = {"name": name, "pythonType": kind, "type": kinds[kind]}
    gives = {}
    for each in outputs.split():
        name, _, kind = each.partition(":")
        gives[name] = {"name": name, "pythonType": of[kind], "type": kind}
    config = {"pythonCode": code, "ioInputs": takes, "ioOutputs": gives, **more}
    return {"@type": "PYTHON", "pythonConfig": config}


# -- data: the example of Konduit's page about its JSON -----------------------------------------


def test_the_documented_array_is_big_endian() -> None:
    text = '{"myKey": {"@NDArrayType": "FLOAT", "@NDArrayShape": [3],'
    text += ' "@NDArrayDataBase64": "AAAAAD+AAABAAAAA"}}'
    found = data.decode(text.encode())["myKey"]
    assert found.dtype == np.float32
    assert found.tolist() == [0, 1, 2]
    assert json.loads(data.encode({"myKey": found})) == json.loads(text)


@pytest.mark.parametrize(
    "value",
    [
        "myString",
        1.0,
        1,
        True,
        None,
        {"@BytesBase64": "AAEC"},
        {"@ImageFormat": "PNG", "@ImageData": "iVBORw0KGgo="},
        {"myInnerKey": "myInnerValue"},
        ["some", "list", "values"],
        {"@x1": 0.1, "@x2": 0.2, "@y1": 0.1, "@y2": 0.3, "label": "cat", "probability": 0.5},
        {"@Coords": [0.1, 0.2]},
        array(1, 2, kind="INT64", form=">i8"),
        array(1, 0, kind="BOOL", form="?"),
        array(1, 200, kind="UINT8", form="u1"),
    ],
    ids=str,
)
def test_data_come_back_as_they_went(value: Any) -> None:
    assert json.loads(data.encode(data.decode(json.dumps({"k": value}).encode()))) == {"k": value}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param("[1]", "the body is no object", id="a list"),
        pytest.param("{", "the body is no JSON", id="a body that is cut"),
        pytest.param('{"a": {"@BytesBase64": "?"}}', '"a": expected base64', id="no base64"),
        pytest.param(
            '{"a": {"@NDArrayType": "UTF8"}}',
            "@NDArrayType is 'UTF8'; expected one of DOUBLE",
            id="another type",
        ),
        pytest.param(
            json.dumps({"a": {**array(1), "@NDArrayShape": [2]}}),
            "expected as many as",
            id="fewer elements than the shape",
        ),
        pytest.param(
            json.dumps({"a": {**array(1), "@NDArrayShape": [-1]}}),
            "expected as many as",
            id="a negative size",
        ),
    ],
)
def test_a_body_that_is_no_data_is_refused(body: str, fault: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        data.decode(body.encode())
    assert fault in str(caught.value)


# -- sequences and scripts ----------------------------------------------------------------------


def test_a_list_is_a_sequence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ie_serving.kernel")
    steps = [
        LOGGING,
        python("c = a + 2", "a:int", "c:INT64"),
        python("d = c * 2.5", "c:int", "d:DOUBLE"),
    ]
    assert ran(steps, {"a": 1}) == {"d": 7.5}
    assert caplog.messages == ["step 1: a=1"]


def test_each_request_has_variables_of_its_own() -> None:
    code = "n = n + 1 if 'n' in globals() else base; seen = 'kept' in globals(); kept = 1\nr = n"
    step = python(code + " + 100 * seen", "a:int", "r:INT64", importCode="base = 5")
    running = RunningPipeline(read({"steps": [step]}, "pipeline"))
    models = Context(Caller({}, None)).models
    assert [running({"a": 1}, models) for _ in range(2)] == [{"r": 5}, {"r": 5}]


def test_import_code_runs_once() -> None:
    step = python("calls.append(1); r = len(calls)", "a:int", "r:INT64", importCode="calls = []")
    running = RunningPipeline(read({"steps": [step]}, "pipeline"))
    models = Context(Caller({}, None)).models
    assert [running({"a": 1}, models)["r"] for _ in range(2)] == [1, 2]


def test_a_sum_of_an_array_without_dimensions_is_an_array() -> None:
    given = {**array(3), "@NDArrayShape": []}
    step = python("b = a + 2", "a:numpy.ndarray", "b:NDARRAY")
    found = ran([step], {"a": given})["b"]
    assert (found.shape, float(found)) == ((), 5.0)


def test_scripts_take_and_give_lists_and_texts() -> None:
    list_ = {"pythonType": "list", "type": "LIST", "secondaryType": "INT64"}
    config = {
        "pythonCode": "n = [each * 2 for each in ns]; t = str(len(ns))",
        "ioInputs": {"ns": list_},
        "ioOutputs": {"n": list_, "t": {"pythonType": "str"}},
    }
    assert ran([{"@type": "PYTHON", "pythonConfig": config}], {"ns": [1, 2]}) == {
        "n": [2, 4],
        "t": "2",
    }


@pytest.mark.parametrize(
    "declared", [{"pythonType": "bytes", "type": "IMAGE"}, {"pythonType": "image"}]
)
def test_a_picture_is_a_file_of_png(declared: dict[str, str]) -> None:
    config = {
        "pythonCode": "size = len(p); ok = p.startswith(b'\\x89PNG')",
        "ioInputs": {"p": declared},
        "ioOutputs": {"ok": {"pythonType": "bool"}},
    }
    picture = {
        "@ImageFormat": "JPG",
        "@ImageData": base64.b64encode(encoded(np.zeros((2, 2, 3), np.uint8), "jpeg")).decode(),
    }
    assert ran([{"@type": "PYTHON", "pythonConfig": config}], {"p": picture}) == {"ok": True}


ADD = python("c = a + 2", "a:int", "c:INT64")
SAME = python("c = a", "a:numpy.ndarray", "c:NDARRAY")
HALF = python("c = a / 2", "a:float", "c:DOUBLE")


@named_by(
    "fault",
    ("step", "given", "error", "fault"),
    [
        (ADD, {"a": 1, "b": 2}, InvalidRequest, '"b" is no input of the script; ioInputs has a'),
        (ADD, {}, InvalidRequest, 'input "a" is missing; expected it, as ioInputs declares it'),
        (ADD, {"a": "x"}, InvalidRequest, 'input "a" is str; expected int'),
        (SAME, {"a": [{"b": 1}]}, InvalidRequest, 'input "a" is list; expected numpy.ndarray'),
        (HALF, {"a": 10**400}, InvalidRequest, 'input "a" is int; expected float'),
        (python("pass", "a:int", "c:INT64"), {"a": 1}, ServingError, 'sets no variable "c"'),
        (python("c = 'x'", "a:int", "c:INT64"), {"a": 1}, ServingError, "is str, and ioOutputs"),
        (python("1 / 0", "a:int", ""), {"a": 1}, ServingError, "ZeroDivisionError: division"),
        (python("raise SystemExit", "a:int", ""), {"a": 1}, ServingError, "SystemExit"),
    ],
)
def test_a_failure_names_its_step(
    step: dict[str, Any], given: dict[str, Any], error: type[Exception], fault: str
) -> None:
    with pytest.raises(ServingError) as caught:
        ran([LOGGING, step], given)
    assert type(caught.value) is error
    assert str(caught.value).startswith('step "2" (PYTHON): ')
    assert fault in str(caught.value)


# -- graphs: the example of the command line, 1=logging(input),[2_1,2_2]=switch(int,select,1),... --


def switched(switch: dict[str, Any], **more: Any) -> dict[str, Any]:
    drop = {"select": {"pythonType": switch.pop("kind")}, "a": {"pythonType": "int"}}
    gives = {"b": {"pythonType": "int"}}

    def add(number: int, before: str) -> dict[str, Any]:
        config = {"pythonCode": f"b = a + {number}", "ioInputs": drop, "ioOutputs": gives}
        return {"@type": "PYTHON", "@input": before, "pythonConfig": config}

    return {
        "1": {**LOGGING, "@input": "input"},
        "s": {"@type": "SWITCH", "@input": "1", "switchFn": switch},
        "2_1": {"@type": "SWITCH_OUTPUT", "@input": "s", "outputNum": 0},
        "2_2": {"@type": "SWITCH_OUTPUT", "@input": "s", "outputNum": 1},
        "3": add(10, "2_1"),
        "4": add(20, "2_2"),
        "5": {"@type": "ANY", "@input": ["3", "4"]},
        **more,
    }


INT = {"kind": "int", "@type": "INT_SWITCH", "numOutputs": 2, "fieldName": "select"}
TEXT = {**INT, "kind": "str", "@type": "STRING_SWITCH", "map": {"x": 0, "y": 1}}


@pytest.mark.parametrize(
    ("switch", "select", "answer"),
    [
        pytest.param(INT, 0, 11, id="the first by number"),
        pytest.param(INT, 1, 21, id="the second by number"),
        pytest.param(TEXT, "x", 11, id="the first by text"),
        pytest.param(TEXT, "y", 21, id="the second by text"),
    ],
)
def test_a_switch_runs_one_branch(switch: dict[str, Any], select: Any, answer: int) -> None:
    given = {"select": select, "a": 1}
    assert ran(switched(dict(switch)), given, outputStep="5") == {"b": answer}


@pytest.mark.parametrize(
    ("switch", "given", "fault"),
    [
        pytest.param(
            INT,
            {"select": 2, "a": 1},
            "select is 2; expected a number from 0 to 1",
            id="a number beyond the last",
        ),
        pytest.param(
            INT,
            {"a": 1},
            '"select" is missing; expected it, since the switch looks at it',
            id="no selection",
        ),
        pytest.param(
            TEXT, {"select": "z", "a": 1}, "select is 'z'; expected one of x, y", id="another text"
        ),
        pytest.param(
            TEXT, {"select": ["x"], "a": 1}, r"select is \['x'\]; expected one of x, y", id="a list"
        ),
        pytest.param(
            TEXT,
            {"select": {"x": 1}, "a": 1},
            "select is {'x': 1}; expected one of x, y",
            id="an object",
        ),
    ],
)
def test_a_value_without_a_branch_is_refused(
    switch: dict[str, Any], given: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        ran(switched(dict(switch)), given, outputStep="5")


def test_an_output_behind_the_other_branch_is_an_error() -> None:
    with pytest.raises(ServingError, match='no step gives "4" its data'):
        ran(switched(dict(INT)), {"select": 0, "a": 1}, outputStep="4")


def merging(one: str, other: str) -> dict[str, Any]:
    return {
        "x": {**python(f"{one} = a + 1", "a:int", f"{one}:INT64"), "@input": "input"},
        "y": {**python(f"{other} = a + 2", "a:int", f"{other}:INT64"), "@input": "input"},
        "m": {"@type": "MERGE", "@input": ["x", "y"]},
    }


def test_a_merge_joins_data() -> None:
    assert ran(merging("b", "c"), {"a": 1}, outputStep="m") == {"b": 2, "c": 3}
    with pytest.raises(ServingError, match='"b" comes from "y" and from another step'):
        ran(merging("b", "b"), {"a": 1}, outputStep="m")


# -- the version ----------------------------------------------------------------------------------


def version(directory: Path, *steps: dict[str, Any]) -> Path:
    (directory / "konduit.json").write_text(json.dumps({"steps": [*steps]}))
    return directory


async def test_a_pipeline_is_a_model(tmp_path: Path) -> None:
    options = EngineOptions(allow_python=True).having(Surroundings("default"))
    model = every([]).compile(version(tmp_path, ADD), options)
    (signature,) = model.signatures.values()
    body = np.array(b'{"a": 5}', object)
    given = await model.infer(signature, {"data": body}, lambda found: found["data"].item())
    model.close()
    assert json.loads(given) == {"c": 7}


def test_a_pipeline_waits_for_its_models(tmp_path: Path) -> None:
    one, unused = (
        {"@type": "ONNX", "@input": "input", "modelUri": f"{n}.onnx", "model": n} for n in "ab"
    )
    text = json.dumps({"steps": {"one": one, "unused": unused}, "outputStep": "one"})
    (tmp_path / "konduit.json").write_text(text)
    assert models_of(tmp_path) == {"a": frozenset()}
    (tmp_path / "konduit.json").write_text("{")
    assert models_of(tmp_path) == {}
    (tmp_path / "konduit.json").unlink()
    assert models_of(tmp_path) is None


def test_only_scripts_need_consent(tmp_path: Path) -> None:
    every([]).compile(version(tmp_path, LOGGING), EngineOptions()).close()
    with pytest.raises(LoadFailed, match=r"konduit\.json asks to run Python code"):
        every([]).compile(version(tmp_path, LOGGING, ADD), EngineOptions())


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(
            python("c = (", "a:int", ""),
            'step "1" (PYTHON) cannot be loaded: SyntaxError',
            id="a syntax error",
        ),
        pytest.param(
            python("c = 1", "", "", pythonConfigType="JULIA"),
            "pythonConfigType is JULIA",
            id="another language",
        ),
        pytest.param(
            python("c = 1", "", "", importCode="import nothere"),
            "No module named 'nothere'",
            id="an import that fails",
        ),
        pytest.param(
            {"@type": "PYTHON", "pythonConfig": {"ioInputs": {"a": {"pythonType": "set"}}}},
            "pythonType is 'set'; expected numpy.ndarray",
            id="another type",
        ),
    ],
)
def test_faults_of_a_load_name_the_step(tmp_path: Path, step: dict[str, Any], fault: str) -> None:
    with pytest.raises(LoadFailed) as caught:
        every([]).compile(version(tmp_path, step), EngineOptions(allow_python=True))
    assert fault in str(caught.value)
