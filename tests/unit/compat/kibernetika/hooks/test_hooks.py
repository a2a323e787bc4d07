"""Hooks around one model, each written to the letter of the old contract."""

import asyncio
import importlib
import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ie_serving.compat.kibernetika.hooks.context import HookContext
from ie_serving.core.values.codes import code_of
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.requests import CALLER, Caller
from tests.tables import named_by
from tests.unit.compat.kibernetika.hooks.hooked import linear, opened
from tests.unit.engines.asking import answer, strings, told

ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)
Open = Callable[..., Any]

IRIS = """
def init_hook(**params):
    global SCALE
    assert params["model_path"] and params["model_inputs"] == {"x": [-1, 4]}
    SCALE = float(params["scale"])

def preprocess(inputs, ctx, **kwargs):
    ctx.largest = inputs["raw"].max()
    assert kwargs["model_outputs"] == ["y"] and kwargs["scale"] == "10"
    return {"x": inputs["raw"] / SCALE}

def postprocess(outputs, ctx):
    names = ["low", "high"]
    return {"label": [names[int(row.sum() > 5)] for row in outputs["y"]],
            "largest": ctx.largest, "y": outputs["y"]}
"""


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Open]:
    """Opens hooks around y = 2 x + 1."""
    made: list[Any] = []

    def make(code: str, params: "dict[str, Any] | None" = None, **own: Any) -> Any:
        directory = tmp_path / str(len(made))
        linear(directory, 2.0, 1.0)
        made.append(opened(directory, code, params, **own))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def said(model: Any, **inputs: Any) -> str:
    """Ask for what must fail."""
    with pytest.raises(ServingError) as raised:
        await answer(model, **inputs)
    return f"{code_of(raised.value).name}: {raised.value}"


async def test_hooks_scale_inputs_and_name_classes(model: Open) -> None:
    found = await answer(model(IRIS, {"scale": "10"}), raw=ROWS)
    assert np.array_equal(found["y"], np.float32(ROWS / 10.0) * 2 + 1)
    assert found["label"].tolist() == [b"high", b"high"] and found["label"].dtype == object
    assert found["largest"] == 7.0


async def test_inputs_and_outputs_that_hooks_leave_alone_are_described(model: Open) -> None:
    made = model("def preprocess(inputs):\n    return inputs")
    assert told(made) == {"y": "float [-1, 4]"} and made.signatures["serving_default"].takes_any
    made = model("def postprocess(outputs):\n    return outputs")
    assert told(made) == {"x": "float [-1, 4]"} and made.signatures["serving_default"].gives_any
    text = {"dtype": "string", "shape": [-1]}
    made = model(
        f"def metadata():\n    return {{'inputs': {{'t': {text}}}, 'outputs': {{'u': {text}}}}}\n"
        "def process(inputs, ctx):\n    return {'u': [each.upper() for each in inputs['t']]}"
    )
    assert told(made) == {"t": "string [-1]", "u": "string [-1]"}
    assert (await answer(made, t=strings("a")))["u"].tolist() == [b"A"]


async def test_hooks_may_compute_in_place(model: Open) -> None:
    made = model("def preprocess(inputs):\n    inputs['x'] += 1\n    return inputs")
    rows = ROWS.copy()
    rows.flags.writeable = False
    for _ in range(2):  # in a thread, then on the loop
        assert np.array_equal((await answer(made, x=rows))["y"], (ROWS + 1) * 2 + 1)


async def test_process_asks_the_drivers_itself(model: Open) -> None:
    made = await asyncio.to_thread(  # as versions are loaded
        model,
        """
        def init_hook(ctx, **params):
            assert ctx.drivers[0].inputs == {"x": [-1, 4]} and ctx.drivers[0].outputs == ["y"]
            first = ctx.drivers[0].predict({"x": [[0, 0, 0, 0]]})["y"]
            return {"offset": first[0, 0], "factor": int(params["factor"])}

        def process(inputs, ctx, **kwargs):
            once = ctx.drivers[0].predict(inputs)["y"]
            again = ctx.drivers[0].predict({"x": once})["y"]
            return {"again": again * ctx.global_ctx["factor"], "offset": ctx.global_ctx["offset"]}
        """,
        {"factor": "3"},
    )
    found = await answer(made, x=ROWS)
    assert np.array_equal(found["again"], ((ROWS * 2 + 1) * 2 + 1) * 3)
    assert found["offset"] == 1.0


@pytest.mark.parametrize(
    "how", ['return {"ml-serving-ignore": True, "n": 0}', 'return ctx.skip({"n": 0})']
)
async def test_a_model_that_is_ignored_is_not_run(model: Open, how: str) -> None:
    made = model(
        f"""
        def preprocess(inputs, ctx):
            {how}

        def postprocess(outputs, ctx):
            assert "ml-serving-ignore" not in outputs
            return {{"n": outputs["n"] + 1}}
        """
    )
    assert (await answer(made, x=ROWS))["n"] == 1  # with these outputs the model would have failed


async def test_an_ignore_that_is_false_is_none(model: Open) -> None:
    made = model("def preprocess(inputs):\n    return {**inputs, 'ml-serving-ignore': False}")
    assert np.array_equal((await answer(made, x=ROWS))["y"], ROWS * 2 + 1)


async def test_each_version_has_a_module_of_its_own(model: Open) -> None:
    code = """
        calls = []
        def postprocess(outputs):
            calls.append(1)
            return {"calls": len(calls)}
        """
    one, other = model(code), model(code)
    assert [(await answer(each, x=ROWS))["calls"] for each in (one, one, other)] == [1, 2, 1]


async def test_parameters_change_without_a_load(model: Open) -> None:
    made = model(
        """
        def init_hook(ctx, **params):
            return params["limit"]
        def update_hook(ctx, **params):
            assert ctx.global_ctx == 1
            return params["limit"]
        def postprocess(outputs, ctx, **kwargs):
            return {"limit": ctx.global_ctx, "told": kwargs["limit"]}
        """,
        {"limit": 1},
    )
    assert (await answer(made, x=ROWS))["limit"] == 1
    made.update({"limit": 2})
    found = await answer(made, x=ROWS)
    assert (found["limit"], found["told"]) == (2, 2)
    with pytest.raises(LoadFailed, match="the model is loaded anew"):
        made.update({"limit": 2, "model_class": "net:Net"})
    assert model("def postprocess(outputs):\n    return outputs").update is None


@named_by(
    "line",
    ("line", "text"),
    [
        (
            "raise RuntimeError('no face')",
            "INTERNAL: hook hooks.py:preprocess failed: RuntimeError: no face",
        ),
        ("return {}[3]", "INTERNAL: hook hooks.py:preprocess failed: KeyError: 3"),
        ("exit(1)", "INTERNAL: hook hooks.py:preprocess failed: SystemExit: 1"),
        ("ctx.fail('invalid_argument', 'no face')", "INVALID_ARGUMENT: no face"),
        ("return 7", "INTERNAL: preprocess of hooks.py returned a int; expected a dict by name"),
        ("return", "INTERNAL: preprocess of hooks.py returned nothing; expected a dict by name"),
        ("return {'z': 1}", "INTERNAL: preprocess gave what"),
        ("return {'x': 1j}", "is no dtype of a tensor"),
    ],
)
async def test_a_failure_is_its_own_requests(model: Open, line: str, text: str) -> None:
    made = model(
        "def preprocess(inputs, ctx):\n    if inputs['x'][0, 0] == 0:\n"
        f"        {line}\n    return inputs"
    )
    for _ in range(2):  # in a thread, then on the loop
        found = await said(made, x=ROWS)
        assert text in found and "Traceback" not in found and "\n" not in found
        assert np.array_equal((await answer(made, x=ROWS + 1))["y"], (ROWS + 1) * 2 + 1)


@named_by(
    "line",
    ("line", "text"),
    [
        ("return {}", "preprocess gave what"),
        ("return {'z': inputs['x']}", "preprocess gave what"),
        ("inputs['x'].shape = (4, 2)", "Obtained shape [4, 2], required shape [-1, 4]"),
        ("inputs['x'].shape = (8,)", "Obtained shape [8], required shape [-1, 4]"),
        ("inputs['x'].dtype = 'S4'", "preprocess gave what"),
    ],
)
async def test_the_return_value_of_a_hook_is_checked_as_it_is_now(
    model: Open, line: str, text: str
) -> None:
    made = model(
        "def preprocess(inputs):\n    if inputs['x'][0, 0] == 0:\n"
        f"        {line}\n    return inputs"
    )
    for _ in range(2):  # in a thread, then on the loop
        found = await said(made, x=ROWS.copy())
        assert found.startswith("INTERNAL: preprocess gave what") and text in found
        assert np.array_equal((await answer(made, x=ROWS + 1))["y"], (ROWS + 1) * 2 + 1)


async def test_arrays_that_a_model_takes_are_cast_behind_hooks(model: Open) -> None:
    made = model("def preprocess(inputs):\n    return inputs")
    for dtype in (np.float32, np.float64, np.uint8, np.float32):
        assert np.array_equal((await answer(made, x=ROWS.astype(dtype)))["y"], ROWS * 2 + 1)
    assert np.array_equal((await answer(made, x=ROWS[0:1]))["y"], ROWS[0:1] * 2 + 1)


async def test_a_hook_may_keep_and_change_outputs(model: Open) -> None:
    made = model(
        """
        KEPT = []
        def postprocess(outputs):
            KEPT.append(outputs["y"])
            outputs["y"] += 100
            return {"y": outputs["y"], "first": KEPT[0]}
        """
    )
    for n in range(3):
        found = await answer(made, x=ROWS + n)
        assert np.array_equal(found["y"], (ROWS + n) * 2 + 101)
        assert np.array_equal(found["first"], ROWS * 2 + 101)


async def test_a_client_is_told_of_its_own_fault(model: Open) -> None:
    made = model("def postprocess(outputs):\n    return outputs")
    assert (await said(made, z=ROWS)).startswith("INVALID_ARGUMENT: input size does not match")


async def test_modules_that_published_hooks_import_exist(model: Open) -> None:
    made = model(
        """
        from ml_serving.drivers import driver
        from ml_serving.utils.helpers import get_param

        def ask(drv: driver.ServingDriver, x):
            return drv.predict({"x": x})["y"]

        def process(inputs, ctx):
            texts = {"style": get_param(inputs, "style", None), "size": get_param(inputs, "n", 4),
                     "t": get_param(inputs, "t"),
                     "raw": get_param(inputs, "t", raw_bytes=True).hex()}
            return {"y": ask(ctx.driver, inputs["x"]), **{k: str(v) for k, v in texts.items()}}, ctx
        """
    )
    for _ in range(2):
        found = await answer(made, x=ROWS, t=strings("ab"))
        assert np.array_equal(found["y"], ROWS * 2 + 1)
        texts = [found[name].item() for name in ("style", "size", "raw", "t")]
        assert texts == [b"None", b"4", b"6162", b"ab"]


async def test_a_hook_that_asks_another_server_stays_off_the_event_loop(model: Open) -> None:
    """However short it was: the other server may hang."""
    code = """
        import threading
        from ml_serving.utils import helpers
        def process(inputs, ctx):
            if "at" in inputs:
                return helpers.predict_grpc(inputs, inputs["at"])
            return {"main": threading.current_thread() is threading.main_thread()}
        """
    made = model(code)
    for _ in range(5):
        assert not (await answer(made, x=ROWS))["main"]


async def test_tensors_are_named_by_number(model: Open) -> None:
    """As drivers of PyTorch and TensorFlow Lite numbered them."""
    made = model(
        """
        def process(inputs, ctx):
            found = ctx.driver.predict({"0": inputs["x"]})
            assert list(found) == ["y"] and "0" not in found
            try:
                found["1"]
            except KeyError:
                return {"text": found["0"], "number": ctx.driver.predict({0: inputs["x"]})[0]}
        """
    )
    found = await answer(made, x=ROWS)
    assert np.array_equal(found["text"], ROWS * 2 + 1)
    assert np.array_equal(found["number"], ROWS * 2 + 1)


async def test_a_model_that_a_hook_asks_wrongly_is_the_hooks_fault(
    model: Open, caplog: pytest.LogCaptureFixture
) -> None:
    made = model("def process(inputs, ctx):\n    return ctx.drivers[0].predict({'no': [1.0]})")
    text = await said(made, x=ROWS)
    assert text.startswith("INTERNAL: hook") and "failed: InvalidRequest: input size" in text
    (record,) = [each for each in caplog.records if "kernel failed" in each.message]
    assert record.exc_info


async def test_a_hook_that_hangs_is_given_up(model: Open) -> None:
    code = "import threading\ndef process(inputs, ctx):\n    threading.Event().wait()"
    text = "DEADLINE_EXCEEDED: the hooks did not answer within 50 ms (timeout_ms of the model)"
    assert await said(model(code, timeout_ms=50), x=ROWS) == text


WHERE = """
import threading
def postprocess(outputs):
    return {"thread": threading.get_ident()}
"""


async def test_short_hooks_move_to_the_event_loop(model: Open) -> None:
    made = model(WHERE)
    found = [int((await answer(made, x=ROWS))["thread"]) for _ in range(3)]
    here = threading.get_ident()
    assert found[0] != here and found[1:] == [here, here]


@pytest.mark.parametrize(
    ("code", "own"),
    [
        pytest.param(WHERE, {"execution": "async"}, id="as it is told"),
        pytest.param(f"{WHERE}\ndef other(m):\n    m.predict({{}})", {}, id="it may ask models"),
    ],
)
async def test_other_hooks_stay_in_threads(model: Open, code: str, own: dict[str, Any]) -> None:
    made = model(code, **own)
    found = [int((await answer(made, x=ROWS))["thread"]) for _ in range(3)]
    assert threading.get_ident() not in found


async def test_the_context_knows_the_caller(model: Open) -> None:
    made = model(
        """
        def postprocess(outputs, ctx):
            ctx.headers["x-user"]
            return {"who": f"{ctx.request_id} {ctx.headers['x-user']}", "left": ctx.deadline > 0}
        """
    )
    CALLER.set(Caller({"x-request-id": "r1", "x-user": "ann"}, 5.0))
    found = await answer(made, x=ROWS)
    assert (found["who"].item(), found["left"].item()) == (b"r1 ann", True)


def test_a_deadline_counts_from_the_request_not_from_when_it_is_asked() -> None:
    before = time.time()
    ctx = HookContext([], None, Caller({}, 5.0))
    after = time.time()
    assert before + 5 <= ctx.deadline <= after + 5


def test_nothing_runs_without_consent(tmp_path: Path) -> None:
    linear(tmp_path, 2.0)
    with pytest.raises(LoadFailed, match=r"hooks hooks\.py ask to run Python code"):
        opened(tmp_path, "raise SystemExit", allow_python=False)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(
            "import nothing_of_this_name",
            "hooks.py cannot be loaded: ModuleNotFoundError",
            id="no such module",
        ),
        pytest.param(
            "def init_hook(**p):\n    raise ValueError('no labels')\ndef process(x): ...",
            "ValueError: no labels",
            id="an init_hook that fails",
        ),
        pytest.param(
            "from ml_serving.utils import video\ndef process(x): ...",
            "cannot import name 'video'",
            id="no such name",
        ),
        pytest.param(
            "import ml_serving.video\ndef process(x): ...",
            "of ml_serving the server has ml_serving, ",
            id="no such module of theirs",
        ),
    ],
)
def test_a_fault_in_hooks_is_told_at_load(tmp_path: Path, code: str, text: str) -> None:
    linear(tmp_path, 2.0)
    with pytest.raises(LoadFailed) as raised:
        opened(tmp_path, code)
    assert text in str(raised.value)


IMAGES = """
import ml_serving.utils.helpers as by_name
from ml_serving.drivers import driver
from ml_serving.utils import helpers
from ml_serving.utils.helpers import boolean_string, get_param

assert by_name is helpers and helpers.get_param is get_param

def init_hook(ctx, **params):
    assert boolean_string(params["bgr"]) and not boolean_string("False")
    drv = driver.load_driver("openvino")
    spare = drv().load_model(params["second"])
    assert spare.outputs == ["y"]
    spare.release()
    model = drv(postprocess=lambda found: {"sum": found["y"].sum()})
    return model.load_model(params["second"], device="CPU", flexible_batch_size=True)

def process(inputs, ctx, **kwargs):
    image, is_stream = helpers.load_image(inputs, "image", rgb=False)
    image[0, 0] = image[0, 0]  # authors draw into images
    second = ctx.global_ctx
    assert (second.driver_name, second.inputs, second.outputs) == ("openvino", {"x": [1, 4]}, ["y"])
    three = second.predict({"x": [[1, 2, 3, 4]] * 3})["y"]
    return {"pixel": image[0, 0], "is_stream": is_stream, "y": three,
            "sum": second.predict_hooks({"x": [[1, 1, 1, 1]]})["sum"],
            "name": get_param(inputs, "name"), "none": get_param(inputs, "no") is None,
            "raw": get_param(inputs, "name", raw_bytes=True)}
"""


async def test_the_modules_that_hooks_import_are_there_for_them(
    model: Open, tmp_path: Path
) -> None:
    second = linear(tmp_path / "second", 3.0, rows=1)
    made = model(IMAGES, {"bgr": "True", "second": str(second)})
    file = io.BytesIO()
    Image.new("RGB", (3, 2), (10, 20, 30)).save(file, "PNG")
    found = await answer(made, image=np.array([file.getvalue()], object), name=strings("cat"))
    assert found["pixel"].tolist() == [30, 20, 10] and not found["is_stream"]
    assert np.array_equal(found["y"], np.float32([[3, 6, 9, 12]] * 3))
    assert (found["sum"], found["name"], found["raw"]) == (12.0, b"cat", b"cat")
    found = await answer(made, image=np.zeros((2, 3, 3), np.uint8), name=strings("cat"))
    assert found["is_stream"]
    assert "no PNG" not in await said(made, image=strings("text"), name=strings("cat"))
    assert await said(made, name=strings("cat")) == (
        'INVALID_ARGUMENT: the request has no input "image": send an image there'
    )
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ml_serving")


def test_without_hooks_nothing_of_them_is_imported() -> None:
    script = "import sys, ie_serving.app.application; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert not [name for name in done.stdout.split() if "ie_serving.compat" in name]
