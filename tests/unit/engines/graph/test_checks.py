"""What is wrong with a graph is said at load, all of it, each fault with its step."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ie_serving.core.values.errors import ConfigError, LoadFailed
from ie_serving.core.values.image_form import ImageForm
from ie_serving.engines.graph.engine import FILE, models_of
from ie_serving.engines.graph.reading import read_text
from tests.unit.engines.asking import told
from tests.unit.engines.graph.shelf import Model, Shelf, plus


def shelf() -> Shelf:
    words = Model("text:s[-1]", "n:i[-1]", lambda text: {"n": text})
    image = Model("data:f[1,3,8,8]", "boxes:f[1,4] n:f[1]", lambda data: {"boxes": data})
    square = Model("x:f[4,4]", "y:f[4,4]", lambda x: {"y": x})
    echo = Model("x:s[-1]", "y:s[-1]", lambda x: {"y": x})
    return Shelf(add=plus(1), echo=echo, words=words, image=image, square=square)


def refused(directory: Path, steps: object, **rest: object) -> str:
    with pytest.raises(LoadFailed) as caught:
        shelf().graph(directory, steps, **rest)
    return str(caught.value)


def one(**step: object) -> dict[str, Any]:
    return {"last": {"model": "add", "in": {"x": "request.x"}, **step}}


def two(first: str, second: str, **last: object) -> dict[str, Any]:
    """Steps of two models that are asked the same, and one that joins them."""
    models = {"a": first, "b": second}
    return {n: {"model": each, "in": "request"} for n, each in models.items()} | {"last": last}


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        pytest.param([], "graph.json.steps: expected steps", id="no steps"),
        pytest.param({"last": {}}, 'graph.json.steps.last: expected .* "model"', id="no kind"),
        pytest.param({"last": 3}, "graph.json.steps.last: expected an object", id="no object"),
        pytest.param(
            {"last": {"use": "resise", "in": "request"}},
            "steps.last.use: 'resise' given; expected one of decode_image, .*mean \"resize\"",
            id="no built-in step",
        ),
        pytest.param(
            {"last": {"use": "resize", "in": "request", "with": {"hight": 3, "width": 0}}},
            "steps.last.with.hight: no such option; expected one of height, width, fit; did you"
            ' mean "height"\\?; .*with.height: missing; .*with.width: 0 given; expected a whole',
            id="options",
        ),
        pytest.param(
            {"last": {"kernel": "a.so", "in": "request"}},
            "steps.last.kernel: 'a.so' given; expected FILE.py",
            id="a library",
        ),
        pytest.param(
            {"last": {"use": "json", "model": "add"}},
            "exactly one of .*; it has model and use",
            id="two kinds",
        ),
        pytest.param(one(gather="a"), 'steps.last.gather: "a" has no entries', id="gather"),
        pytest.param(one(levels=2), "steps.last.levels: 2 given; expected 1 to 8", id="levels"),
        pytest.param(one(entries=4), "steps.last.entries: 4 given", id="entries"),
        pytest.param(
            one(**{"for_each": "request.x", "in": {"x": "item"}, "entries": [4, 4]}),
            r"steps.last.entries: \[4, 4\] given",
            id="more entries than levels",
        ),
        pytest.param(one(keep=True), "steps.last.keep: only a step of a list", id="keep"),
        pytest.param(one(cache_ms="x"), "steps.last.cache_ms: 'x' given", id="a cache"),
        pytest.param(
            one(modle="x"), 'steps.last.modle: unknown key; .*did you mean "model"', id="a key"
        ),
        pytest.param({"a.b": one()["last"]}, "steps.a.b: no name for a step", id="a name"),
        pytest.param({"last": {"model": "add"}}, 'steps.last.in: .*"in": "request"', id="no in"),
        pytest.param(
            one(**{"in": {"x": "scale"}}),
            "steps.last.in.x: 'scale' given; .*\"step.item\"",
            id="in",
        ),
        pytest.param(
            one(**{"in": {"x": "lst.y"}}), 'steps.last: no step "lst"; .*"last"', id="a step"
        ),
        pytest.param(one(version="new"), "steps.last.version: 'new' given", id="a version"),
        pytest.param(one(timeout_ms=-1), "steps.last.timeout_ms: -1 given", id="a time"),
        pytest.param(one(retries=11), "steps.last.retries: 11 given; .* 0 to 10", id="retries"),
        pytest.param(one(when="x >"), "steps.last.when: 'x >' given", id="when"),
        pytest.param(one(for_each="request.x"), "steps.last.for_each: no input takes", id="item"),
        pytest.param(
            one(**{"in": {"x": "item"}}), "steps.last.in.x: 'item' given; for_each", id="no items"
        ),
        pytest.param(
            {
                "a": {"model": "add", "in": {"x": "last.y"}},
                "last": {"model": "add", "in": {"x": "a.y"}},
            },
            "steps.a: needs itself: a -> last -> a",
            id="a circle",
        ),
        pytest.param(
            {**one(), "idle": one()["last"]}, "steps.idle: no output needs it", id="unused"
        ),
        pytest.param({"last": {"switch": {}}}, "steps.last.switch: expected", id="switch"),
        pytest.param(
            {**one(), "last": {"switch": {"weights": {"last": -1}}}},
            "steps.last.switch.weights: expected shares",
            id="weights",
        ),
        pytest.param({"last": {"merge": []}}, "steps.last.merge: expected a list", id="merge"),
        pytest.param(
            {"last": {"merge": ["a"], "combine": "sum"}}, "one of mean, max", id="combine"
        ),
        pytest.param(
            [one()["last"], {"name": "add", "model": "add"}],
            r'steps\[1\].name: "add" is the name of an earlier',
            id="a name twice",
        ),
    ],
)
def test_a_step_that_is_written_wrongly_is_told(tmp_path: Path, steps: object, text: str) -> None:
    assert re.search(text, refused(tmp_path, steps))


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        pytest.param(one(model="ad"), 'step "last": no model ad', id="no model"),
        pytest.param(one(signature_name="s"), 'step "last": .*no signature "s"', id="signature"),
        pytest.param(
            one(**{"in": {"y": "request.x"}}),
            'step "last": model "add" has no input "y": "x" float .*nothing fills input "x"',
            id="an input",
        ),
        pytest.param(
            one(outputs={"y": "z"}), 'step "last": outputs: .*no output "z"; it has y', id="output"
        ),
        pytest.param(
            {**one(), "first": {"model": "words", "in": "request"}}
            | one(**{"in": {"x": "first.m"}}),
            'step "last": in.x: step "first" has no item "m"; it gives n',
            id="an item",
        ),
        pytest.param(
            {"first": {"model": "add", "in": "request"}}
            | {"last": {"model": "words", "in": {"text": "first.y"}, "outputs": {"y": "n"}}},
            'step "last": in.text: first.y is .*float.* and .*string.* dtypes do not go together',
            id="a dtype",
        ),
        pytest.param(
            {"first": {"model": "image", "in": "request"}}
            | one(model="square", **{"in": {"x": "first.boxes"}}),
            'step "last": in.x: first.boxes is .*shapes do not go together',
            id="a shape",
        ),
        pytest.param(
            {"first": {"model": "words", "in": {"text": "request.x"}}} | one(when="first.n"),
            'step "last": in.x: request.x is "text" string .* elsewhere, and "x" float',
            id="an input of the request",
        ),
        pytest.param(
            one(when="request.go"), "when: no model takes request.go; declare it", id="undeclared"
        ),
        pytest.param(
            one(when="max(request.x) == 'q'"),
            "step \"last\": when: max.* is a number, and 'q' is text",
            id="a text for a number",
        ),
        pytest.param(
            {"first": {"model": "echo", "in": "request"}} | one(when="first.y < 2"),
            'step "last": when: .*first.y is text, and 2 is a number',
            id="a number for a text",
        ),
        pytest.param(
            {"first": {"model": "echo", "in": "request"}} | one(when="rows(first.y) == 'a'"),
            "when: .*rows.first.y. is a number, and 'a' is text",
            id="a text for a number of rows",
        ),
        pytest.param(
            two("add", "add", merge=["a", "b"]),
            'step "last": merge: "y" is an item of several steps; say "on_conflict"',
            id="a conflict",
        ),
        pytest.param(
            two("echo", "echo", merge=["a", "b"], combine="mean"),
            'step "last": combine: item "y" is text, which has no mean; take "max"',
            id="a mean of texts",
        ),
        pytest.param(
            two("add", "words", any=["a", "b"]),
            'step "last": a, b: they have no item in common',
            id="nothing in common",
        ),
        pytest.param(
            one(fallback="b") | {"b": {"model": "words", "in": "request"}},
            'step "last": fallback "b" has no item "y"',
            id="a fallback",
        ),
    ],
)
def test_a_step_that_does_not_fit_its_model_is_told(
    tmp_path: Path, steps: object, text: str
) -> None:
    assert re.search(text, refused(tmp_path, steps))


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    steps = {"a": {"model": "nil", "in": "request"}, "last": {"model": "none", "in": "request"}}
    text = refused(tmp_path, steps, outputs={"y": "last.y", "z": "a.y"})
    assert text == 'step "a": no model nil; step "last": no model none'


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        pytest.param(
            {"outputs": {}},
            "graph.json.outputs: expected an object",
            id="outputs that are no object",
        ),
        pytest.param(
            {"outputs": {"y": "lost.y"}}, 'outputs.y: no step "lost"', id="an output of no step"
        ),
        pytest.param(
            {"outputs": {"y": "last.z"}},
            'output y: step "last" has no item "z"; it gives y',
            id="an output of no item",
        ),
        pytest.param(
            {"output": {}},
            'graph.json.output: unknown key; .*did you mean "outputs"',
            id="a key that is misspelt",
        ),
        pytest.param(
            {"inputs": {"x": {"dtype": "flat"}}},
            "graph.json.inputs.x.dtype: 'flat' given",
            id="another dtype",
        ),
        pytest.param(
            {"inputs": {"x": {"dtype": "string"}}},
            'step "last": in.x: request.x is "x" string',
            id="texts for numbers",
        ),
    ],
)
def test_a_fault_beside_the_steps_is_told(
    tmp_path: Path, rest: dict[str, object], text: str
) -> None:
    assert re.search(text, refused(tmp_path, one(), **rest))


def test_an_input_is_what_every_step_can_take(tmp_path: Path) -> None:
    open_ = Model("x:f[-1,4]", "y:f[-1,4]", lambda x: {"y": x})
    models = Shelf(a=open_, b=Model("x:f[2,-1]", "z:f[2]", lambda x: {"z": x}))
    steps = {"a": {"model": "a", "in": "request"}, "b": {"model": "b", "in": "request"}}
    graph = models.graph(tmp_path, steps, outputs={"y": "a.y", "z": "b.z", "same": "request.x"})
    assert told(graph)["x"] == "float [2, 4]"
    assert told(graph)["same"] == "float [2, 4]"


def test_images_are_for_the_model_to_decode(tmp_path: Path) -> None:
    """By its own settings: of two that differ, neither's would be right for both."""
    models = shelf()
    forms = [ImageForm("NCHW", ((1, 1), (3, 3), (8, 8), (8, 8)), each) for each in ("RGB", "BGR")]
    for name, form in zip(("rgb", "bgr"), forms, strict=True):
        model = Model("data:f[1,3,8,8]", "y:f[1]", lambda data: {"y": [0]})
        default = model.signatures["serving_default"]
        spec = replace(default.inputs["data"], image=form)
        model.signatures = {"serving_default": replace(default, inputs={"data": spec})}
        models.put(name, model)
    steps = {name: {"model": name, "in": "request"} for name in ("rgb", "bgr")}

    def taken(outputs: dict[str, str], *names: str) -> ImageForm | None:
        graph = models.graph(tmp_path, {name: steps[name] for name in names}, outputs=outputs)
        form: ImageForm | None = graph.signatures["serving_default"].inputs["data"].image
        return form

    assert taken({"y": "rgb.y"}, "rgb") == forms[0]
    assert taken({"y": "rgb.y", "z": "bgr.y"}, "rgb", "bgr") is None
    assert taken({"y": "rgb.y", "same": "request.data"}, "rgb") is None


def test_a_version_that_is_no_graph_is_another_engines(tmp_path: Path) -> None:
    assert models_of(tmp_path) is None
    (tmp_path / FILE).write_text("{")
    assert models_of(tmp_path) == {}
    steps = [{"model": "a"}, {"model": "b", "version": 3}, {"model": "b", "name": "c"}]
    (tmp_path / FILE).write_text(json.dumps({"steps": steps, "outputs": {"y": "c.y"}}))
    assert models_of(tmp_path) == {"a": frozenset(), "b": {3}}


def test_a_file_that_is_no_graph_is_named() -> None:
    for text, cause in (("{", "not JSON"), ('{"steps": ' + "[" * 100_000, "too deep")):
        with pytest.raises(ConfigError, match=f"graph.json: .*{cause}"):
            read_text(text, "graph.json")
