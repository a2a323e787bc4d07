"""An error says what to do or what was expected, where its text stands in a `raise`."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from ie_serving.core.values import errors
from tests.unit.test_docstrings import tree
from tests.unit.test_imports import MODULES, place

KINDS: Final = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.ServingError)
)
FORMS: Final = re.compile(
    r"; |: [a-z]|: <>|expected |ask again|pip install|must |has to be |needs "
)
"""A cause, then what to do; or what was expected. `<>` is a value."""
TEXTS_OF_TENSORFLOW: Final = re.compile(
    r"engines/savedmodel/host/(kernels_\w+|allowance|tables|tensor_list)$"
    r"|wire/(examples/|json/|tfs/)"
)
"""Modules that answer in the words of TensorFlow or TensorFlow Serving, which clients compare."""
ADVICE: Final = "the value at the end has the advice"
CAUSE: Final = "the value at the end is another error's text, which has the advice"
SETTING: Final = "names the setting that ended the wait"
TENSORFLOW: Final = "TensorFlow Serving's own text"
NONE: Final = "of a load or download that is given up: nothing is to be done"
OTHERS: Final[Mapping[str, str]] = {
    'no model "<>" is configured<>': ADVICE,
    'no version<> of model "<>"<> would be served': "the lines of `check` above it say why",
    "the hooks did not answer within <> ms (timeout_ms of the model)": SETTING,
    "it took longer than its timeout_ms, <>": SETTING,
    'input "<>" <>': CAUSE,
    "image <> <>": CAUSE,
    "the version holds <>": ADVICE,
    "OpenVINO does not compute <> exactly<>": ADVICE,
    "<> computes with a constant that does not fit into 32 bits, in which OpenVINO"
    " computes<>": ADVICE,
    '<> "<>": OpenVINO does not <>': "the caller adds whether onnxruntime may run it",
    "there is no second engine to compare this format with<>": ADVICE,
    'it uses <>model "<>", which does not serve<>': CAUSE,
    "<> <>": CAUSE,
    "1 servable(s) did not become available: {<>, }": TENSORFLOW,
    "Could not find version <> of model <>": TENSORFLOW,
    "Number of warmup records exceeds the maximum (<>) at <>": TENSORFLOW,
    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is"
    " currently supported": TENSORFLOW,
    "<>, which ends programs": "SystemExit of a user's code, whose author knows why",
    "the Open Inference Protocol has no path <>: GET /v2 answers": "names a path that answers",
    "the server is being stopped": NONE,
    "the version is no longer wanted": NONE,
    "the download was broken off": NONE,
}
"""Texts without advice, and why."""


def texts() -> Iterator[tuple[str, str]]:
    """Give module and text of each error that is raised with a text alone."""
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            if getattr(node.exc.func, "id", "") in KINDS and len(node.exc.args) == 1:
                text = written(node.exc.args[0])
                if text:
                    yield place(path), text


def written(node: ast.expr) -> str:
    """Give a text with `<>` for each of its values; empty for what is no text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(written(each) or "<>" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_an_error_says_what_to_do_or_what_was_expected() -> None:
    found = {
        text: module
        for module, text in texts()
        if not FORMS.search(text) and not TEXTS_OF_TENSORFLOW.match(module)
    }
    assert {text: module for text, module in found.items() if text not in OTHERS} == {}
    assert OTHERS.keys() - found.keys() == set()
