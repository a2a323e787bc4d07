"""OpenVINO's threads stay where a load has put them, and are as many as ever."""

import os
import sys

import pytest

from ie_serving.engines.openvino.runtime import HYBRID
from ie_serving.engines.run.threads import node_limit
from tests.process import output_of

LOADS = """
import os
import threading
import numpy as np
import openvino as ov
import openvino.opset15 as op
from ie_serving.core.runtime.spare_cpu import SPARE_CPU, division
from ie_serving.engines.openvino.compiling.properties import THREADS
from ie_serving.engines.openvino.runtime import core

def load():
    with SPARE_CPU.left(compiles=True):
        compiled = core().compile_model(model, "CPU", {"ENABLE_CPU_PINNING": "false"})
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
