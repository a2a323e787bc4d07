"""Chains of models, as repeated --driver and --model-path make them."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ie_serving.app import engine_stack
from ie_serving.compat.kibernetika.hooks.links import link_of
from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.kernels import CodeSource, HookOptions, KernelOptions
from ie_serving.engines.layer_options import Batching
from ie_serving.engines.layers.sequence_family import Family
from ie_serving.engines.openvino.options import OpenVinoOptions
from ie_serving.engines.tensorflow.fallback import TensorFlowFallback
from ie_serving.telemetry.metrics.batch_metrics import BatchMetrics
from ie_serving.telemetry.metrics.layers import CacheMetrics, SequenceMetrics
from tests.tables import named_by
from tests.unit.compat.kibernetika.hooks.hooked import chained, linear
from tests.unit.engines.asking import answer, told

ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)

BOTH = """
def first(inputs, ctx):
    ctx.order = ["pre0"]
    return {"x": inputs["raw"]}

def between(outputs, ctx):
    ctx.order.append("post0")
    if outputs["y"].sum() == 0:
        ctx.skip_next = True
    return {"x": outputs["y"]}

def second(inputs, ctx):
    ctx.order.append("pre1")
    return {"ml-serving-ignore": True, "n": 0} if hasattr(ctx, "skip_next") else inputs

def last(outputs, ctx):
    return {**outputs, "order": " ".join([*ctx.order, "post1"])}

preprocess = [first, second]
postprocess = [between, last]
"""


async def test_models_and_hooks_run_in_the_order_of_the_chain(tmp_path: Path) -> None:
    pairs = [("openvino", linear(tmp_path / str(n), n + 2.0)) for n in range(2)]
    with closing(chained(tmp_path, BOTH, *pairs)) as made:
        found = await answer(made, raw=ROWS)
        assert np.array_equal(found["y"], ROWS * 2 * 3)
        assert found["order"].item() == b"pre0 post0 pre1 post1"
        found = await answer(made, raw=ROWS * 0)
        assert found["n"] == 0 and "y" not in found
        assert found["order"].item() == b"pre0 post0 pre1 post1"


async def test_a_chain_without_hooks_is_described_by_its_ends(tmp_path: Path) -> None:
    with closing(chained(tmp_path, "", ("openvino", linear(tmp_path / "m", 2.0)))) as made:
        assert told(made) == {"x": "float [-1, 4]", "y": "float [-1, 4]"}
        assert np.array_equal((await answer(made, x=ROWS))["y"], ROWS * 2)


async def test_null_echoes_whatever_comes(tmp_path: Path) -> None:
    with closing(chained(tmp_path, "", ("null", "any"))) as made:
        found = await answer(made, a=np.int8([1]), b=np.array([b"t"], object))
        assert found["a"].tolist() == [1] and found["b"].tolist() == [b"t"]
        assert found["a"].dtype == np.int8


async def test_behind_an_echo_a_hook_writes_to_a_copy(tmp_path: Path) -> None:
    code = "def postprocess(outputs):\n    outputs['x'] += 1\n    return outputs"
    made = chained(tmp_path, code, ("null", "any"))
    rows = ROWS.copy()
    rows.flags.writeable = False
    try:
        for _ in range(2):  # in a thread, then on the loop
            assert np.array_equal((await answer(made, x=rows))["x"], ROWS + 1)
    finally:
        made.close()


@pytest.mark.parametrize("rows", [1, 3])
async def test_a_flexible_batch_takes_any_number_of_rows(tmp_path: Path, rows: int) -> None:
    options = {"flexible_batch_size": "true"}
    made = chained(
        tmp_path, "", ("openvino", linear(tmp_path / "m", 2.0, rows=rows)), options=options
    )
    assert told(made) == {"x": "float [-1, 4]", "y": "float [-1, 4]"}
    try:
        for count in (1, 3, 7):
            x = np.random.default_rng(count).random((count, 4), np.float32)
            assert np.array_equal((await answer(made, x=x))["y"], x * 2)
    finally:
        made.close()


async def test_a_fixed_batch_names_the_option(tmp_path: Path) -> None:
    refused = pytest.raises(ServingError, match=r"batch size 7, .*; the option flexible_batch_size")
    model = linear(tmp_path / "m", 2.0, rows=1)
    with closing(chained(tmp_path, "", ("openvino", model))) as made, refused:
        await answer(made, x=np.ones((7, 4), np.float32))


DECORATED = """
import logging

LOG = logging.getLogger(__name__)

def noisy(inner):
    def decorator(*args):
        LOG.info("Running %s", inner.__name__)
        return inner(*args)
    return decorator

def init_hook(**params):
    LOG.info(params)

@noisy
def before(inputs):
    return {"x": inputs["x"] + 1}

@noisy
def after(outputs, ctx):
    return {"x": outputs["x"] * 2, "models": len(ctx.drivers)}

preprocess = [before, None]
postprocess = [None, after]
"""


async def test_hooks_run_behind_a_decorator_that_hides_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the form in which kibernetika-serving's documentation prints them."""
    caplog.set_level("INFO")
    with closing(chained(tmp_path, DECORATED, ("null", "any"), ("null", "any2"))) as made:
        found = await answer(made, x=ROWS)
        assert np.array_equal(found["x"], (ROWS + 1) * 2) and found["models"] == 2
    assert "Running before" in caplog.text and "Running after" in caplog.text


GENERATORS = """
def faces(outputs):
    for row in outputs["y"]:
        yield {"y": row}

def gathered(answers, ctx):
    import numpy as np
    return {"x": np.stack([each["y"] for each in answers])}

def one(outputs, ctx):
    yield {"z": outputs["y"] + 1}

preprocess = [None, gathered]
postprocess = [faces, one]
"""


async def test_each_item_that_a_generator_yields_goes_to_the_next_hook(tmp_path: Path) -> None:
    pairs = [("openvino", linear(tmp_path / str(n), 2.0)) for n in range(2)]
    with closing(chained(tmp_path, GENERATORS, *pairs)) as made:
        for _ in range(3):  # in a thread, then on the event loop
            assert np.array_equal((await answer(made, x=ROWS))["z"], ROWS * 4 + 1)


READERS = """
def words(outputs, ctx):
    for row in outputs["y"]:
        yield {"x": row.reshape(1, 4)}

def sentence(answers, ctx):
    return {"sums": [float(each["y"].sum()) for each in answers]}

preprocess = [None, None]
postprocess = [words, sentence]
"""


@pytest.mark.parametrize("driver", ["openvino", "null"])
async def test_a_model_runs_for_each_thing_that_a_generator_yields(
    tmp_path: Path, driver: str
) -> None:
    pairs = [("openvino", linear(tmp_path / str(n), 2.0)) for n in range(2)]
    code = READERS if driver == "openvino" else READERS.replace('{"x": row', '{"y": row')
    made = chained(tmp_path, code, pairs[0], (driver, pairs[1][1]))
    factor = 4 if driver == "openvino" else 2
    try:
        for rows in (ROWS, ROWS, ROWS[:1], ROWS[:0]):
            found = await answer(made, x=rows)
            assert found["sums"].tolist() == (rows.sum(1) * factor).tolist()
    finally:
        made.close()


async def test_a_client_gets_one_answer_of_a_generator(tmp_path: Path) -> None:
    code = "def postprocess(outputs):\n    yield from ({'y': row} for row in outputs['y'])"
    with closing(chained(tmp_path, code, ("openvino", linear(tmp_path / "m", 2.0)))) as made:
        assert np.array_equal((await answer(made, x=ROWS[:1]))["y"], ROWS[0] * 2)
        with pytest.raises(ServingError, match="postprocess yielded 2 answers, and no hook"):
            await answer(made, x=ROWS)


@named_by(
    "given",
    ("given", "device", "warned"),
    [
        ("CPU", "CPU", ""),
        ("GPU,CPU", "HETERO:GPU,CPU", ""),
        ("MYRIAD", "CPU", "OpenVINO has no MYRIAD any more; using CPU"),
        ("FPGA,CPU", "CPU", "OpenVINO has no FPGA any more; using CPU"),
        ("HETERO:FPGA,GPU,CPU", "HETERO:GPU,CPU", "OpenVINO has no FPGA any more; using GPU,CPU"),
    ],
)
def test_devices_of_before_become_those_of_now(given: str, device: str, warned: str) -> None:
    link, warnings = link_of("openvino", "m.xml", {"device": given}, EngineOptions())
    assert link.options.of(OpenVinoOptions).target_device == device
    assert warned in "".join(warnings) and bool(warned) == bool(warnings)


async def test_weights_may_lie_apart(tmp_path: Path) -> None:
    file = linear(tmp_path / "m", 2.0)
    weights = (tmp_path / "m/model.bin").rename(tmp_path / "w.bin")
    with closing(
        chained(tmp_path, "", ("openvino", file), options={"model_weights": str(weights)})
    ) as made:
        assert np.array_equal((await answer(made, x=ROWS))["y"], ROWS * 2)


@pytest.mark.parametrize(
    ("driver", "options", "text"),
    [
        ("tensorflw", {}, "no driver 'tensorflw'; expected one of "),
        ("openvino", {"flexible_batch_size": "maybe"}, "flexible_batch_size=maybe: expected true"),
        ("pytorch", {"inputs": "{x"}, "inputs: expected JSON, got '{x'"),
    ],
)
def test_wrong_options_are_refused(driver: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(LoadFailed) as raised:
        link_of(driver, "m", options, EngineOptions())
    assert text in str(raised.value)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="no such file or directory: correct the path"):
        chained(tmp_path, "", ("openvino", tmp_path / "no.xml"))


class Batches(BatchMetrics):
    """Notes the rows of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def batch(self, reason: str, rows: int, waited_us: Sequence[float]) -> None:
        self.rows.append(rows)


async def test_requests_share_a_batch_behind_their_hooks(tmp_path: Path) -> None:
    linear(tmp_path, 2.0)
    (tmp_path / "hooks.py").write_text(
        "import threading\n"
        "together = threading.Barrier(16, timeout=30)\n"
        "def preprocess(inputs):\n"
        "    together.wait()\n"
        "    return {'x': inputs['raw']}"
    )
    batches = Batches()
    drivers = engine_stack.drivers(TensorFlowFallback())
    options = EngineOptions(allow_python=True, execution="async")
    hooks, kernel = (
        HookOptions(source=CodeSource(file="hooks.py")),
        KernelOptions(max_concurrency=16),
    )
    for own in (hooks, kernel, Batching(max_batch_size=8)):
        options = options.having(own)
    family = Family("m", SequenceMetrics())
    engine = engine_stack.layered(drivers, options, batches, family, CacheMetrics())
    made: Any = await asyncio.to_thread(engine.compile, tmp_path, options)
    try:
        batches.rows.clear()
        found = await asyncio.gather(*(answer(made, raw=[[n] * 4]) for n in range(16)))
        assert [each["y"].tolist() for each in found] == [[[2.0 * n] * 4] for n in range(16)]
        assert max(batches.rows) > 1  # the first one found the model idle, and went alone
    finally:
        made.close()
