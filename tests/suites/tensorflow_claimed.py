"""Which operations of TensorFlow are claimed, by OpenVINO's front end and by the host's tables.

The front end has no list of what it converts. So it is given each operation of TensorFlow alone,
without inputs: either it has a rule, which then fails for want of them, or it says that there is
none. Run as a program it asks for the names that it reads, since some rules end the process.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from openvino.frontend import FrontEndManager
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import op_def_registry

from ie_serving.engines.savedmodel.cut_examples import PARSERS
from ie_serving.engines.savedmodel.host.kernels import KERNELS
from ie_serving.engines.savedmodel.replace import REPLACED

NO_RULE = "No conversion rule"


def claimed() -> set[str]:
    """Names of the operations that the front end converts, or this server computes or replaces."""
    names = [name for name in dir(tf.raw_ops) if op_def_registry.get(name) is not None]
    converted, left = set(), names
    while left:
        command = [sys.executable, "-m", __spec__.name]
        told = subprocess.run(
            command, input=" ".join(left), text=True, stdout=subprocess.PIPE, check=False
        ).stdout.split()
        converted |= {name for name in told if not name.startswith("-")}
        converted |= set(left[len(told) :][:1])  # whose rule has ended the process
        left = left[len(told) + 1 :]
    return converted | set(KERNELS) | set(REPLACED) | set(PARSERS)


def _asked(names: list[str]) -> Iterator[str]:
    front_end = FrontEndManager().load_by_framework("tf")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "graph.pb")
        for name in names:
            graph = graph_pb2.GraphDef()
            graph.node.add(name="node", op=name)
            file.write_bytes(graph.SerializeToString())
            try:
                front_end.convert(front_end.load(str(file)))
            except Exception as error:  # OpenVINO has no class of its own for it
                yield f"-{name}" if NO_RULE in str(error) else name
            else:
                yield name


if __name__ == "__main__":
    for _word in _asked(sys.stdin.read().split()):
        print(_word, flush=True)
