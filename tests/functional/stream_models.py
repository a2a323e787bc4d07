"""Kernels for the tests of streams, and a configuration of them."""

import json
import os
from pathlib import Path

KERNELS = '''
import asyncio
import os

NUMBERS = {"dtype": "float32", "shape": [-1]}


def metadata():
    return {"inputs": {"x": NUMBERS}, "outputs": {"y": NUMBERS}}


def twice(x):
    return {"y": x * 2}


class Gated:
    """Answers when the gate has let it through."""

    def load(self, ctx):
        self.gate = os.open(ctx.params["gate"], os.O_RDWR)

    metadata = staticmethod(metadata)

    def execute(self, inputs):
        os.read(self.gate, 1)
        return {"y": inputs["x"]}


class Sums:
    """Two replies for each pair of inputs: their sum, and how many pairs there were."""

    metadata = staticmethod(metadata)

    async def stream(self, items, ctx):
        first, pairs = None, 0
        user = float(ctx.headers.get("x-user", 0))
        async for inputs in items:
            if inputs["x"][0] == -1:
                raise ValueError("below 0")
            if inputs["x"][0] == -2:
                yield {"y": "no number"}
            elif first is None:
                first = inputs["x"]
            else:
                pairs += 1
                yield {"y": first + inputs["x"]}
                yield {"y": [pairs + user]}
                first = None
        if first is not None:
            yield {"y": first}


class Early:
    """Replies before it is asked, as it should not."""

    def load(self, ctx):
        self.reply = ctx.params["reply"]

    metadata = staticmethod(metadata)

    async def stream(self, items, ctx):
        yield {"y": self.reply}
        async for inputs in items:
            yield {"y": inputs["x"]}


class Endless:
    """Replies without end, and notes when it is told to stop."""

    def load(self, ctx):
        self.notes = ctx.params["notes"]

    metadata = staticmethod(metadata)

    async def stream(self, items, ctx):
        try:
            async for inputs in items:
                while True:
                    yield {"y": inputs["x"]}
        finally:
            with open(self.notes, "w") as notes:
                notes.write("ended")
'''


NODE = """
import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        for number in range(int(np.asarray(inputs[0])[0])):
            yield [Tensor("y", np.full(1, number, np.float32))]
"""
NUMBERS = {"dtype": "float32", "shape": [-1]}


def write(root: Path) -> Path:
    """Write models, the FIFOs `gate` and `notes`, and give the configuration."""
    (root / "kernels.py").write_text(KERNELS)
    (root / "node.py").write_text(NODE)
    for fifo in ("gate", "notes"):
        os.mkfifo(root / fifo)
    models: dict[str, dict[str, object]] = {
        "twice": {"kernel": "kernels.py:twice"},
        "gated": {"kernel": "kernels.py:Gated", "params": {"gate": str(root / "gate")}},
        "sums": {"kernel": "kernels.py:Sums"},
        "early": {"kernel": "kernels.py:Early", "params": {"reply": [1]}},
        "early_and_wrong": {"kernel": "kernels.py:Early", "params": {"reply": "no number"}},
        "endless": {"kernel": "kernels.py:Endless", "params": {"notes": str(root / "notes")}},
        "node": {
            "kernel": "node.py",
            "params": {"inputs": {"x": NUMBERS}, "outputs": {"y": NUMBERS}},
        },
        "apart": {"kernel": "kernels.py:Sums", "isolation": "process"},
    }
    for name in models:
        (root / name / "1").mkdir(parents=True)
    entries = [{"config": {"name": n, "base_path": n, **own}} for n, own in models.items()]
    file = root / "config.json"
    steps = {
        "once": {"model": "twice", "in": {"x": "request.x"}},
        "again": {"model": "twice", "in": {"x": "once.y"}},
    }
    graph = {"name": "fourfold", "version": 1, "steps": steps, "outputs": {"y": "again.y"}}
    file.write_text(json.dumps({"model_config_list": entries, "graphs": [graph]}))
    return file
