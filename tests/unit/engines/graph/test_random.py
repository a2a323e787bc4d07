"""Random graphs give what a plain reading of their definition gives, whatever runs beside what."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import ServingError
from tests.unit.engines.graph.shelf import Model, Shelf, ask, failing, plus, times

Steps = dict[str, dict[str, Any]]


def models() -> Shelf:
    both = Model("a:f[-1] b:f[-1]", "y:f[-1]", lambda a, b: {"y": a + b})
    return Shelf(add=plus(1), double=times(2), both=both, broken=failing(ServingError("broken")))


@st.composite
def graphs(draw: st.DrawFn) -> Steps:
    """Draw steps that take items of earlier ones; every one gives `y`, one number."""
    steps: Steps = {}
    for at in range(draw(st.integers(1, 9))):
        refs = st.sampled_from(["request.x", *(f"{name}.y" for name in steps)])
        names = st.sampled_from([*steps]) if steps else st.nothing()
        kinds = ["add", "double", "both", "broken", *(["switch", "any", "max"] if steps else [])]
        kind = draw(st.sampled_from(kinds))
        if kind == "switch":
            cases = {"1": draw(names), "2": draw(names)}
            step: dict[str, Any] = {"switch": {"on": "request.n", "cases": cases}}
        elif kind == "any":
            step = {"any": draw(st.lists(names, min_size=1, max_size=3))}
        elif kind == "max":
            step = {"merge": draw(st.lists(names, min_size=1, max_size=3)), "combine": "max"}
        else:
            inputs = ("a", "b") if kind == "both" else ("x",)
            step = {"model": kind, "in": {name: draw(refs) for name in inputs}}
        if draw(st.integers(0, 3)) == 0:
            step["when"] = f"max({draw(refs)}) > {draw(st.integers(0, 4))}"
        if steps and draw(st.integers(0, 3)) == 0:
            step["fallback"] = draw(names)
        steps[f"s{at}"] = step
    return steps


class Failed(Exception):
    """A step has failed."""


def read(steps: Steps, name: str, x: float, n: int) -> float | None:
    """Give what a step gives; None where it is skipped."""
    step = steps[name]
    try:
        return plain(steps, step, x, n)
    except Failed:
        if "fallback" not in step:
            raise
        return read(steps, step["fallback"], x, n)


def plain(steps: Steps, step: dict[str, Any], x: float, n: int) -> float | None:
    def value(ref: str) -> float | None:
        return x if ref == "request.x" else read(steps, ref.partition(".")[0], x, n)

    if "when" in step:
        ref, _, least = step["when"].removeprefix("max(").partition(") > ")
        tested = value(ref)
        if tested is None or not tested > float(least):
            return None
    if "switch" in step:
        return read(steps, step["switch"]["cases"][str(n)], x, n)
    if "any" in step:
        found = (read(steps, each, x, n) for each in step["any"])
        return next((each for each in found if each is not None), None)
    if "merge" in step:
        several = [read(steps, each, x, n) for each in step["merge"]]
        return max((each for each in several if each is not None), default=None)
    taken = [value(ref) for ref in step["in"].values()]
    if None in taken:
        return None
    if step["model"] == "broken":
        raise Failed
    added = sum(each for each in taken if each is not None)
    return {"add": added + 1, "double": added * 2, "both": added}[step["model"]]


@given(graphs(), st.integers(0, 3), st.integers(1, 2))
async def test_random_graphs_give_what_their_definition_says(steps: Steps, x: int, n: int) -> None:
    name = [*steps][-1]
    needed = {name: steps[name]}
    ahead = [name]
    while ahead:  # what no output needs is refused at load
        text = str(steps[ahead.pop()])
        for other in [
            each
            for each in steps
            if f"'{each}'" in text or f"'{each}." in text or f"({each}." in text
        ]:
            if other not in needed:
                needed[other] = steps[other]
                ahead.append(other)
    inputs = {"x": {"dtype": "float", "shape": [-1]}, "n": {"dtype": "int64", "shape": []}}
    with tempfile.TemporaryDirectory() as directory:
        shelf = models()
        graph = shelf.graph(Path(directory), needed, outputs={"y": f"{name}.y"}, inputs=inputs)
        try:
            wanted = read(steps, name, float(x), n)
        except Failed:
            wanted = float("nan")
        try:
            (found,) = (await ask(graph, x=np.float32([x]), n=n)).values()
        except ServingError:
            found = [float("nan")]
    np.testing.assert_equal(found, [] if wanted is None else [wanted])
    assert all(servable.holders == 0 for servable in shelf.servables.values())
