"""Random graphs of integers and of shapes that depend on values, served, against numpy.

`make fuzz` runs it for as long as FUZZ_SECONDS says. Each answer is exact, or the request is
refused; requests of all models are mixed, so that no answer may have anything of another's. A
failure lists the graph and its seed: FUZZ_SEED begins with that one.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ie_serving.core.values.tensors import Array
from tests.functional.fuzzing import SECONDS, marks
from tests.functional.random_graphs.make import RandomGraph
from tests.functional.servers import Server
from tests.functional.storage.serving import several

pytestmark = marks

AT_ONCE = 40
"""Graphs of one server."""
REQUESTS = 12
"""Of each graph, in any order among those of others."""
NOT_SERVED = ("OpenVINO does not compute", "32 bits")
"""What the state of a model says whose integers cannot be exact."""


@contextmanager
def served(base: Path, graphs: list[RandomGraph]) -> Iterator[Server]:
    """Serve each as a model that has its seed for a name."""
    for graph in graphs:
        graph.save(base / str(graph.seed) / "1")
    # In f32: numbers that graphs take by way of reals would be rounded as the device's choice is.
    keys = {
        str(graph.seed): {"base_path": str(base / str(graph.seed)), "inference_precision": "f32"}
        for graph in graphs
    }
    models = several(base / "c.json", keys)
    with Server("ie_serving", *models, "--allow_unavailable_models") as server:
        yield server.ready()


def ask(server: Server, graph: RandomGraph, request: Mapping[str, Array]) -> tuple[int, Any]:
    """Give the code, and the outputs or what was said."""
    body = {"inputs": {name: array.tolist() for name, array in request.items()}}
    reply = server.rest.post(f"/v1/models/{graph.seed}:predict", json=body)
    if reply.status_code != 200:
        return reply.status_code, reply.text
    outputs = reply.json()["outputs"]
    return 200, outputs if len(graph.outputs) > 1 else {"y0": outputs}


def is_served(server: Server, graph: RandomGraph) -> bool:
    text = server.rest.get(f"/v1/models/{graph.seed}").text
    serves = "AVAILABLE" in text
    assert serves or any(cause in text for cause in NOT_SERVED), f"{graph.listing}\n{text}"
    return serves


def compare(server: Server, graph: RandomGraph, chance: random.Random) -> str:
    """Ask once; tell what came of it."""
    request = graph.request(chance)
    expected = graph.expected(request)
    code, found = ask(server, graph, request)
    told = f"{graph.listing}\n{ {n: a.tolist() for n, a in request.items()} }\n{code} {found}"
    assert code in (200, 400), told
    if code == 400:
        return "refused"
    assert not expected.refused, told
    wanted = {name: array.tolist() for name, array in expected.outputs.items()}
    assert not wanted or found == wanted, f"{told}\nwanted {wanted}"
    return "right" if wanted else "open"


def test_random_graphs_are_answered_as_by_numpy(tmp_path: Path) -> None:
    """Every answer is numpy's; no process dies, and no defect is logged."""
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(1 << 32))
    began, counted = time.monotonic(), Counter[str]()
    for first in iter(lambda: seed + counted["graphs"], None):
        if time.monotonic() - began > SECONDS:
            break
        drawn = [RandomGraph(number) for number in range(first, first + AT_ONCE)]
        graphs = [graph for graph in drawn if graph.inputs]
        counted["graphs"] += AT_ONCE
        with served(tmp_path / str(first), graphs) as server:
            pids = server.pids()
            asked = [graph for graph in graphs if is_served(server, graph)] * REQUESTS
            chance = random.Random(first)
            chance.shuffle(asked)
            counted.update(compare(server, graph, chance) for graph in asked)
            assert server.pids() == pids, f"first seed {first}"
            assert "Traceback" not in server.log, f"first seed {first}"
    print(f"seed={seed} {dict(counted)}")
    assert counted["right"] > counted["refused"], dict(counted)
