"""Packages of IBM EDI, written to the letter of its contract, answer as models."""

import asyncio
import base64
import json
import os
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from ie_serving.core.values.errors import InvalidRequest, LoadFailed, ServingError
from ie_serving.core.values.requests import CALLER, Caller
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.drivers import every
from ie_serving.engines.kernels import CodeSource, KernelOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.other_models import Surroundings
from ie_serving.engines.python.kernel_model import KernelModel

ECHO = """
import json
import os
import redhareapiversion
from redhareapi import Kernel

class Echo(Kernel):
    def on_kernel_start(self, kernel_context):
        self.log_info("starts")
        self.ids = kernel_context.get_instance_id(), kernel_context.get_id()
        self.told = json.loads(kernel_context.get_model_description())

    def on_task_invoke(self, task_context):
        count = 0
        while task_context != None:
            count += 1
            data = task_context.get_input_data()
            if data == "raise":
                raise ValueError("told to")
            if data == "type":
                task_context.set_output_data({"a": 1})
            elif data == "fail":
                task_context.fail("no such thing", "NOT_FOUND")
            elif data == "env":
                task_context.set_output_data(json.dumps(
                    {name: os.environ[name] for name in os.environ if name.startswith("REDHARE")}
                    | {"OWN": os.getenv("OWN"), "there": sorted(os.listdir(
                        os.environ["REDHARE_MODEL_PATH"]))}))
            elif data == "told":
                task_context.set_output_data(json.dumps([self.told, *self.ids]))
            elif data == "methods":
                task_context.set_output_data(json.dumps({
                    "version": task_context.get_version(), "id": task_context.get_id(),
                    "uuid": task_context.get_uuid(), "job": task_context.get_job_id(),
                    "session": task_context.get_session_id(),
                    "model": task_context.get_model_name(),
                    "extend": task_context.get_input_data_extend(),
                    "prev": task_context.prev() is None}))
            elif data == "ready":
                task_context.report_ready("is ready")
            elif data != "nothing":
                task_context.set_output_data(data + " of " + str(count))
            following = task_context.next()
            assert following is None or following.prev() is task_context
            task_context = following

    def on_kernel_shutdown(self):
        import shutil
        shutil.rmtree(os.environ["REDHARE_MODEL_PATH"])

if __name__ == "__main__":
    Echo().run()
"""
DESCRIPTION = {
    "name": "echo",
    "tag": "test",
    "schema_version": "1",
    "kernel_path": "kernel.py",
    "weight_path": "./",
    "model_path": "./",
    "runtime": "dlipy3",
    "framework": "PyTorch",
    "readme": "README.md",
    "attributes": [{"key": "k", "value": "v"}],
    "mk_environments": [{"name": "OWN", "value": "mine"}],
}


def package(directory: Path, code: str = ECHO, **keys: Any) -> Path:
    directory.mkdir(parents=True)
    (directory / "kernel.py").write_text(code)
    (directory / "model.json").write_text(json.dumps({**DESCRIPTION, **keys}))
    (directory / "README.md").write_text("# Echo")
    return directory


def options(**keys: Any) -> EngineOptions:
    return EngineOptions(**{"allow_python": True, **keys}).having(Surroundings("echo"))


def compiled(directory: Path, found: EngineOptions | None = None) -> KernelModel:
    model = every([]).compile(directory, found or options())
    assert isinstance(model, KernelModel)
    return model


# For each test: a thread gives back its place on the event loop of its call, and each has its own.
@pytest.fixture
def echo(tmp_path: Path) -> Any:
    model = compiled(package(tmp_path / "echo" / "3"))
    yield model
    model.close()


async def asked(model: KernelModel, body: "str | bytes") -> str:
    (signature,) = model.signatures.values()
    data = np.array(body.encode() if isinstance(body, str) else body, object)
    return await model.infer(
        signature, {"input_data": data}, lambda given: given["output_data"].item().decode()
    )


async def test_the_reply_is_what_the_task_was_given(echo: KernelModel) -> None:
    assert await asked(echo, '{"a": "ä"}') == '{"a": "ä"} of 1'
    assert await asked(echo, "ready") == "is ready"


async def test_a_task_has_the_methods_of_the_contract(echo: KernelModel) -> None:
    CALLER.set(Caller({"x-request-id": "r1"}, None))
    assert json.loads(await asked(echo, "methods")) == {
        **dict.fromkeys(("id", "uuid", "job", "session"), "r1"),
        "version": "3",
        "model": "echo",
        "extend": "methods",
        "prev": True,
    }


async def test_the_kernel_is_told_of_its_package(echo: KernelModel) -> None:
    told, *ids = json.loads(await asked(echo, "told"))
    instance = ids[0]
    assert ids == [instance] * 2 and re.fullmatch(r"echo-3-\d+", instance)
    assert {name: told[name] for name in DESCRIPTION if name != "model_path"} == {
        name: value for name, value in DESCRIPTION.items() if name != "model_path"
    }
    added = {"uid", "size", "create_time", "last_updated_time", "started_at", "creator"}
    assert told.keys() - DESCRIPTION.keys() == {*added, "service_uri"}
    times = [told[name] for name in ("create_time", "last_updated_time", "started_at")]
    assert times == sorted(times) and all(type(each) is int for each in times)
    assert time.time() - 600 < times[0]  # seconds, as its documents print them
    assert told["service_uri"] == "/dlim/v1/inference/echo"
    env = json.loads(await asked(echo, "env"))
    assert env == {
        "REDHARE_MODEL_PATH": told["model_path"],
        "REDHARE_MODEL_NAME": "echo",
        "REDHARE_MODEL_CREATOR": told["creator"],
        "OWN": "mine",
        "there": ["README.md", "kernel.py", "model.json"],
    }
    assert not any(name.startswith("REDHARE") for name in os.environ)


IRIS = """
import base64
import json
import os
import joblib
import numpy as np
import redhareapiversion
from redhareapi import Kernel

class IrisKernel(Kernel):
    def on_kernel_start(self, kernel_context):
        try:
            Kernel.log_info("kernel id: " + kernel_context.get_instance_id())
            model_desc = json.loads(kernel_context.get_model_description())
            self.model = joblib.load(os.path.join(model_desc["model_path"], "iris.joblib"))
        except Exception as e:
            Kernel.log_error(f"Failed due to {e}")

    def on_task_invoke(self, task_context):
        try:
            while task_context != None:
                req = json.loads(task_context.get_input_data())
                if "data_value" in req:
                    rows = np.array([each["value"] for each in req["data_value"]])
                    keys = [each["key"] for each in req["data_value"]]
                    found = self.model.predict_proba(rows).tolist()
                    reply = {"predictions": [{"keys": keys, "results": {"probs": found}}]}
                else:
                    raw = base64.b64decode(req["inputs"][0]["data"])
                    rows = np.frombuffer(raw, "<f8").reshape(req["inputs"][0]["shape"])
                    found = self.model.predict_proba(rows)
                    reply = {"id": req["id"], "outputs": [{
                        "name": "output0", "datatype": "FP32",
                        "shape": list(found.shape), "data": found.ravel().tolist()}]}
                task_context.set_output_data(json.dumps(reply))
                task_context = task_context.next()
        except Exception as e:
            Kernel.log_error(f"Failed due to {e}")

    def on_kernel_shutdown(self):
        pass

if __name__ == "__main__":
    IrisKernel().run()
"""
"""As its samples are written: weights beside the kernel, and JSON as the kernel likes it."""


async def test_a_kernel_of_scikit_learn_answers_in_both_forms_of_the_samples(
    tmp_path: Path,
) -> None:
    rows, species = load_iris(return_X_y=True)
    classifier = LogisticRegression(max_iter=1000).fit(rows, species)
    joblib.dump(classifier, package(tmp_path / "1", IRIS, name="iris") / "iris.joblib")
    some = rows[::50]
    tensor = {"name": "x", "shape": [3, 4], "datatype": "BYTES"}
    tensor["data"] = base64.b64encode(some.tobytes()).decode()
    pairs = [{"key": str(at), "value": [*row]} for at, row in enumerate(some)]
    with closing(compiled(tmp_path / "1")) as model:
        reply = json.loads(await asked(model, json.dumps({"id": 1, "inputs": [tensor]})))
        other = json.loads(await asked(model, json.dumps({"data_value": pairs, "attributes": []})))
    (output,) = reply["outputs"]
    assert (reply["id"], output["shape"]) == (1, [3, 3])
    expected = classifier.predict_proba(some)
    np.testing.assert_allclose(np.reshape(output["data"], (3, 3)), expected, rtol=1e-6)
    (prediction,) = other["predictions"]
    assert prediction["keys"] == ["0", "1", "2"]
    np.testing.assert_allclose(prediction["results"]["probs"], expected, rtol=1e-6)


async def test_a_task_that_fails_fails_alone(tmp_path: Path) -> None:
    found = (
        options()
        .having(Batching(max_batch_size=8))
        .having(KernelOptions(source=CodeSource(file="kernel.py")))
    )
    model = compiled(package(tmp_path / "1"), found)
    bodies = ["a", "raise", "fail", "nothing", "type", b"\xff", "b"]
    # The first runs alone; those behind it wait for their turn together.
    given = await asyncio.gather(*(asked(model, each) for each in bodies), return_exceptions=True)
    model.close()
    assert given[0] == "a of 1"
    assert given[-1] == "b of 1"  # tried again without those that raise
    told = [f"{type(each).__name__}: {each}" for each in given[1:-1]]
    assert told == [
        "ServingError: kernel Echo failed: ValueError: told to",
        "NotFound: no such thing",
        "ServingError: kernel Echo left this task without a reply: on_task_invoke has to call"
        " set_output_data for each task of the chain; whatever it caught itself, its log may say",
        "ServingError: kernel Echo failed: TypeError: set_output_data takes a text, and dict was"
        " given: write it as JSON, by json.dumps",
        "InvalidRequest: the body is no text in UTF-8: 'utf-8' codec can't decode byte 0xff in"
        " position 0: invalid start byte",
    ]
    assert isinstance(given[5], InvalidRequest)
    assert isinstance(given[3], ServingError)


async def test_calls_that_wait_are_one_chain(tmp_path: Path) -> None:
    found = (
        options()
        .having(Batching(max_batch_size=8))
        .having(KernelOptions(source=CodeSource(file="kernel.py")))
    )
    model = compiled(package(tmp_path / "1"), found)
    given = await asyncio.gather(*(asked(model, each) for each in "abcde"))
    model.close()
    assert sorted(given) == ["a of 1", "b of 1", "c of 2", "d of 3", "e of 4"]


async def test_a_kernel_in_a_thread_has_variables_of_its_own(tmp_path: Path) -> None:
    place = KernelOptions(source=CodeSource(file="kernel.py"), isolation="thread")
    model = compiled(package(tmp_path / "3"), options().having(place))
    env = json.loads(await asked(model, "env"))
    answer = await asked(model, "a")
    model.close()
    assert (env["REDHARE_MODEL_NAME"], env["OWN"], answer) == ("echo", "mine", "a of 1")
    assert "OWN" not in os.environ


WRITING = """
import json, os, subprocess
from redhareapi import Kernel

class Notes(Kernel):
    def on_kernel_start(self, kernel_context):
        told = json.loads(kernel_context.get_model_description())
        assert told["attributes"] == [] and told["mk_environments"] == []
        os.environ["SET_HERE"] = "seen"
        os.chdir(told["model_path"])
        with open("notes.txt", "a") as file:
            file.write(" more")

    def on_task_invoke(self, task):
        child = subprocess.run(["sh", "-c", "echo $SET_HERE $TASK_JOB_ID $MSD_POD_NAME"],
                               capture_output=True, text=True).stdout.split()
        task.set_output_data(json.dumps([open("notes.txt").read(), *child]))

    def on_kernel_shutdown(self):
        Kernel.log_info("told when it shuts down")
"""


async def test_a_package_is_a_deployment_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It may write to its files; variables and working directory are the process's."""
    directory = tmp_path / "1"
    directory.mkdir()
    (directory / "ping.py").write_text(WRITING)
    (directory / "notes.txt").write_text("some")
    (directory / "notes.txt").chmod(0o444)
    (directory / "model.json").write_text('{"name": "n", "kernel_path": "ping.py"}')
    here = Path.cwd()
    for _ in range(2):  # nothing is left of the first one
        with closing(compiled(directory)) as model:
            notes, seen, job, pod = json.loads(await asked(model, "{}"))
            assert (notes, seen, pod) == ("some more", "seen", f"echo-1-{job}")
    assert (directory / "notes.txt").read_text() == "some" and Path.cwd() == here
    assert capfd.readouterr().err.count("INFO - told when it shuts down") == 2


def test_a_shutdown_that_deletes_the_package_deletes_links(tmp_path: Path) -> None:
    directory = package(tmp_path / "1")
    compiled(directory).close()
    assert sorted(each.name for each in directory.iterdir()) == [
        "README.md",
        "kernel.py",
        "model.json",
    ]


def test_a_package_wins_over_the_weights_in_it(tmp_path: Path) -> None:
    directory = package(tmp_path / "1")
    (directory / "weights.ubj").write_bytes(b"{L")
    compiled(directory).close()


def test_another_model_json_makes_no_package(tmp_path: Path) -> None:
    directory = package(tmp_path / "1")
    (directory / "model.json").write_text('{"learner": {}}')
    found = options(driver="python").having(KernelOptions(source=CodeSource(file="kernel.py")))
    with pytest.raises(LoadFailed, match="No module named 'redhareapiversion'"):
        compiled(directory, found)


IMPORTS = "from redhareapi import Kernel\n"


@pytest.mark.parametrize(
    ("code", "keys", "fault"),
    [
        pytest.param(
            IMPORTS, {}, "expected one class made of redhareapi.Kernel; it has none", id="no class"
        ),
        pytest.param(
            f"{IMPORTS}class A(Kernel): pass\nclass B(Kernel): pass",
            {},
            "expected one class made of redhareapi.Kernel; it has A, B",
            id="two classes",
        ),
        pytest.param(
            ECHO,
            {"kernel_path": "../x.py"},
            'expected a file of the package, such as "kernel.py"',
            id="a path outside of the package",
        ),
        pytest.param(
            ECHO,
            {"kernel_path": "x.py"},
            "model.json names x.py, which is not in the package",
            id="no such file",
        ),
        pytest.param(
            ECHO,
            {"mk_environments": ["a"]},
            'expected a list of {"name", "value"}',
            id="variables that are no list",
        ),
        pytest.param(
            f"{IMPORTS}class A(Kernel):\n  def on_kernel_start(self, c): raise OSError('weights')",
            {},
            "OSError: weights",
            id="a start that fails",
        ),
    ],
)
def test_a_package_that_cannot_be_run_fails_its_load(
    tmp_path: Path, code: str, keys: dict[str, Any], fault: str
) -> None:
    place = KernelOptions(source=CodeSource(file="kernel.py"), isolation="thread")
    with pytest.raises(LoadFailed) as caught:
        compiled(package(tmp_path / "1", code, **keys), options().having(place))
    assert fault in str(caught.value)


def test_nothing_is_run_without_consent(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match=r"kernel kernel\.py asks to run Python code"):
        compiled(package(tmp_path / "1"), options(allow_python=False))
