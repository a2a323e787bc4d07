"""OpenVINO's threads stay where a load has put them, and are as many as ever."""

import os
import sys
from pathlib import Path

import pytest

from ie_serving.engines.openvino.runtime import HYBRID
from ie_serving.engines.run.threads import node_limit, threads
from tests.process import output_of

LOADS = """
import os
import threading
import numpy as np
import openvino as ov
import openvino.opset15 as op
from ie_serving.core.runtime.spare_cpu import SPARE_CPU, division
from ie_serving.engines.openvino.compiling.properties import THREADS
from ie_serving.engines.openvino.compiling.threads_choice import compile_cached

def load():
    with SPARE_CPU.left():
        compiled = compile_cached(model, "CPU", {"ENABLE_CPU_PINNING": "false"})
        compiled({0: np.ones((64, 2048), np.float32)})
        known = {thread.native_id for thread in threading.enumerate()}
        native = {int(task) for task in os.listdir("/proc/self/task")} - known
        masks.append({frozenset(os.sched_getaffinity(task)) for task in native})
        threads.append(compiled.get_property(THREADS))

x = op.parameter([64, 2048], np.float32)
product = op.matmul(x, op.constant(np.ones((2048, 2048), np.float32)), False, False)
model = ov.Model([op.result(product)], [x])
masks, threads = [], []
SPARE_CPU.choose(slot=0, workers=1)
SPARE_CPU.open()
for _ in range(2):
    loading = threading.Thread(target=load)
    loading.start()
    loading.join()
whole = frozenset(os.sched_getaffinity(0))
print(masks[0] == {whole}, masks[1] == {division(whole, 0, 1)[1]}, threads[0] == threads[1])
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.skipif(node_limit() is not None or HYBRID.exists(), reason="CPUs of two kinds")
def test_in_a_later_load_they_keep_off_the_cpu_of_the_event_loop() -> None:
    assert output_of(sys.executable, "-c", LOADS)[-1].split() == ["True", "True", "True"]


RANKED = """
import asyncio
import logging
import sys
import threading
from pathlib import Path
import numpy as np
import onnx
from onnx import helper
from ie_serving.core.runtime.spare_cpu import SPARE_CPU
from ie_serving.core.values.tensors import copies
from ie_serving.engines.base import EngineOptions
from ie_serving.engines.openvino.compiling.openvino_engine import OpenVinoEngine
from ie_serving.engines.openvino.options import OpenVinoOptions

SIDE = 1024  # large enough that one thread is not tried: the engine itself counts the CPUs
x = helper.make_tensor_value_info("x", 1, ["n", SIDE, SIDE])
y = helper.make_tensor_value_info("y", 1, None)
weights = onnx.numpy_helper.from_array(np.ones((SIDE, SIDE), np.float32), "w")
nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Squeeze", ["z"], ["y"])]
graph = helper.make_graph(nodes, "g", [x], [y], [weights])
folder = Path(sys.argv[1])
onnx.save(helper.make_model(graph), folder / "model.onnx")
options = EngineOptions().having(OpenVinoOptions(inference_precision="f32"))
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
SPARE_CPU.choose(slot=0, workers=1)
SPARE_CPU.open()

def load():
    print("load")
    made.append(OpenVinoEngine().compile(folder, options))

async def infer(model):
    await model.infer(model.signatures["serving_default"], {"x": np.zeros((1, SIDE, SIDE))}, copies)

made = []
for _ in range(2):
    loading = threading.Thread(target=load)
    loading.start()
    loading.join()
    print("request")
    asyncio.run(infer(made[-1]))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.skipif(node_limit() is not None or HYBRID.exists(), reason="CPUs of two kinds")
def test_a_first_load_that_compiles_nothing_leaves_the_engine_all_cpus(tmp_path: Path) -> None:
    lines = output_of(sys.executable, "-c", RANKED, tmp_path)
    loads, compiled = lines.index("load"), [line for line in lines if "model compiled" in line]
    assert lines[loads + 1] == "request", "the load compiles nothing"
    assert all(f" threads={threads()} " in line for line in compiled)
    assert len(compiled) == 2


TURNS = """
import threading
import time
from ie_serving.core.runtime.spare_cpu import TURN_S, SpareCpu, division

spare = SpareCpu()
spare.choose(slot=0, workers=1)
_, rest = division(spare.usable(), 0, 1)
ended, begun = threading.Event(), []

def load():
    with spare.in_turn():
        begun.append(time.monotonic())
        some.release()
        ended.wait(10)

def loads(count):
    for _ in range(count):
        threading.Thread(target=load).start()
    for _ in range(count):
        assert some.acquire(timeout=10)

some = threading.Semaphore(0)
loads(len(rest) + 1)
print(begun[-1] - begun[0] < TURN_S)  # before the server is ready
ended.set()
ended = threading.Event()
spare.open()
loads(len(rest))
since = time.monotonic()
loads(1)
print(begun[-1] - since >= TURN_S)  # beside others that take long
ended.set()
ended = threading.Event()
since = time.monotonic()
loads(1)
print(begun[-1] - since < TURN_S)
ended.set()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_load_waits_for_its_turn_once_the_server_is_ready_but_not_for_long() -> None:
    assert output_of(sys.executable, "-c", TURNS)[-3:] == ["True", "True", "True"]
