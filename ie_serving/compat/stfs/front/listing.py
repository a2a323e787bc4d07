"""What simple_tensorflow_serving tells about its models: as JSON, and as a page for people."""

import html
from collections.abc import Iterable, Mapping
from typing import Any

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.tensors import TensorSpec
from ie_serving.models.served import Served
from ie_serving.wire.clients.sample import chosen

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Models</title><style>
body { font-family: sans-serif; margin: 2em } table { border-collapse: collapse }
td, th { border: 1px solid #999; padding: .3em .6em; text-align: left; vertical-align: top }
</style></head><body><h1>Models</h1><table>
<tr><th>model</th><th>platform</th><th>versions</th><th>inputs</th><th>outputs</th></tr>
%s
</table></body></html>
"""


def shown(name: str, served: Served) -> dict[str, Any]:
    """Describe one model; without a version that serves its signature is empty."""
    inputs, outputs = _tensors(name, served)
    return {
        "model_name": name,
        "model_base_path": served.config.base_path,
        "model_version_list": sorted(served.stream.available),
        "model_signature": {
            "inputs": [_tensor(each) for each in inputs],
            "outputs": [_tensor(each) for each in outputs],
        },
        "platform": served.config.platform,
    }


def page(models: Mapping[str, Served]) -> bytes:
    """Write the table of all models."""
    rows = "\n".join(_row(name, models[name]) for name in sorted(models))
    return (_PAGE % rows).encode()


def _tensors(name: str, served: Served) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Give inputs and outputs of the default signature; none of a model without one."""
    servable = served.stream.default
    try:
        found = chosen(name, servable.signatures if servable else {}, "")
    except InvalidRequest:
        return [], []
    return [*found.inputs.values()], [*found.outputs.values()]


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    shape = None if spec.shape is None else list(spec.shape)
    return {"name": spec.name, "dtype": spec.dtype.number, "shape": shape}


def _row(name: str, served: Served) -> str:
    states = (
        f"{each.version}: {each.state.name}{f' ({each.message})' if each.message else ''}"
        for each in served.stream.statuses()
    )
    tensors = (map(str, each) for each in _tensors(name, served))
    columns = ([name], [served.config.platform], states, *tensors)
    return f"<tr>{''.join(map(_cell, columns))}</tr>"


def _cell(lines: Iterable[str]) -> str:
    return f"<td>{'<br>'.join(map(html.escape, lines))}</td>"
