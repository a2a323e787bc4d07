"""Refuses ONNX models with attributes that OpenVINO's front end for ONNX silently drops.

`OVERLOOKED` names them by operator. `tests/unit/engines/openvino/reading/test_onnx_unread.py`
compares the table with the attributes that the front end reads: a release that reads more fails a
test there.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.onnx_file import MAIN_DOMAIN, Node, Value, nodes, opsets

NEWEST_OPSET = 28
"""Newest version of ONNX's operators that was compared with the front end."""


@dataclass(frozen=True)
class Attribute:
    """An attribute without effect, or with a wrong one."""

    name: str
    harmless: tuple[Value, ...]
    """Values at which the answer is right all the same. Without the attribute it is, too."""

    since: int = 1
    """Version of the domain from which on this is so."""

    beside: str | int | None = None
    """Attribute, or place of an input, without which it has its effect."""

    def refusal(self, node: Node) -> str | None:
        """Say what the front end would drop of `node`; None if nothing."""
        if node.opset < self.since or self.name not in node.attributes:
            return None
        value = node.attributes[self.name]
        if value in self.harmless or not _has(node, self.beside):
            return None
        return f"compute {self.name}={'a value of the caller' if value is None else value}"


@dataclass(frozen=True)
class Input:
    """An input that is not read."""

    name: str
    place: int
    since: int = 1
    needed: bool = True
    """False if the answer may be wrong without the input as well."""

    def refusal(self, node: Node) -> str | None:
        """Say what the front end would drop of `node`; None if nothing."""
        if node.opset < self.since or (self.needed and not _has(node, self.place)):
            return None
        return f"read its input {self.name}"


def _has(node: Node, what: str | int | None) -> bool:
    if isinstance(what, int):
        return node.has(what)
    return what is None or what in node.attributes


_LAYOUT = Attribute("layout", (0,))
_NO_AXES = Attribute("noop_with_empty_axes", (0,))
_AXIS = Attribute("axis", ())
"""Of comparisons and logic of opset 1, which name the axis at which a smaller operand begins."""

OVERLOOKED: Final[Mapping[str, tuple[Attribute | Input, ...]]] = {
    "And": (_AXIS,),
    "Attention": (
        Attribute("left_window_size", (-1,)),
        Attribute("right_window_size", (-1,)),
        # Keys before the first query are counted from the end: wrong unless the keys that are
        # no past are as many as the queries.
        Attribute("is_causal", (0,), beside=4),
    ),
    "ConvTranspose": (
        Attribute("auto_pad", ("NOTSET", "VALID", "SAME_LOWER"), beside="output_shape"),
    ),
    "DFT": (Attribute("onesided", (0,)), Input("axis", 2, since=20, needed=False)),
    "Equal": (_AXIS,),
    "GRU": (_LAYOUT,),
    "Greater": (_AXIS,),
    "LSTM": (_LAYOUT, Attribute("input_forget", (0,)), Input("P", 7)),
    "Less": (_AXIS,),
    "MaxPool": (Attribute("storage_order", (0,)),),
    "Or": (_AXIS,),
    "QuantizeLinear": (Attribute("saturate", (1,)), Attribute("precision", (0, 1))),
    "RNN": (_LAYOUT,),
    "Range": (Attribute("stash_type", (1,)),),
    "ReduceL1": (_NO_AXES,),
    "ReduceL2": (_NO_AXES,),
    "ReduceLogSum": (_NO_AXES,),
    "Resize": (
        Attribute("antialias", (0,)),
        Attribute("exclude_outside", (0,)),
        Attribute("keep_aspect_ratio_policy", ("stretch",)),
    ),
    "RoiAlign": (Attribute("mode", ("avg",)),),
    "SpaceToDepth": (Attribute("mode", ("DCR",)),),
    "Xor": (_AXIS,),
}
"""By operator of ONNX's own domain."""


def refuse_unread(file: Path, converted: Container[str] = ()) -> None:
    """Refuse a model that OpenVINO would compute otherwise than the file says.

    Args:
        file: of the model.
        converted: operators that OpenVINO does not convert itself.

    Raises:
        LoadFailed: naming operator, node and the attribute that would be dropped.
    """
    try:
        imported = opsets(file).get(MAIN_DOMAIN, 1)
        if imported > NEWEST_OPSET:
            raise LoadFailed(
                f"the model is of opset {imported}; the newest known is {NEWEST_OPSET}: "
                "export it for an older one"
            )
        for node in nodes(file):
            if node.kind not in converted:
                _refuse(node)
    except ValueError:
        return  # no ONNX model: OpenVINO says so


def _refuse(node: Node) -> None:
    if node.domain != MAIN_DOMAIN:
        return
    for overlooked in OVERLOOKED.get(node.kind, ()):
        if refusal := overlooked.refusal(node):
            name = node.name or next(filter(None, node.outputs), "")
            raise LoadFailed(f'{node.kind} "{name}": OpenVINO does not {refusal}')
