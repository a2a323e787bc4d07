"""The HTTP API of simple_tensorflow_serving, beside TensorFlow Serving's on the same port.

Source: its documentation and code, version 0.8.2. Errors have the codes of TensorFlow Serving's
REST API, where the original answers 200, 400 or 500.
"""

import dataclasses
import html
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ie_serving.compat.stfs.front import ALIVE, ASK, MODEL, MODELS, PAGE
from ie_serving.compat.stfs.front.post_body import encode, parse
from ie_serving.core.runtime.budget import BUDGET, Lease
from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import InferRequest
from ie_serving.core.values.tensors import Signature, TensorSpec
from ie_serving.inference.interface import Api, Encode
from ie_serving.models.served_models import ServedModel
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.other_servers import OtherFront, RestParts
from ie_serving.server.fronts.rest.body import read_body
from ie_serving.server.fronts.rest.replies import HTML, JSON, Page, preflight
from ie_serving.server.fronts.tfs.client_samples import TEXT, parameters, written
from ie_serving.server.fronts.tfs.rest_interface import LARGE_BODY
from ie_serving.server.fronts.tfs.rest_routes import GENERATED, Route
from ie_serving.server.transport.http1.body import Octets
from ie_serving.server.transport.http1.messages import Reply, Request
from ie_serving.wire.clients import sample
from ie_serving.wire.clients.sample import chosen, inlined, inputs
from ie_serving.wire.form import is_form

OPEN_SIZE: Final = 2
"""Size of an open dimension in generated requests, as in the original."""


class StfsFront(OtherFront[Route]):
    """Answers what simple_tensorflow_serving answers."""

    def __init__(self, parts: RestParts) -> None:
        super().__init__(parts)
        self._served = served = parts.served
        self._scheme = "https" if parts.secure else "http"
        self._interface = dataclasses.replace(
            parts.interface, encoders=self._encoders, check_large=lambda form, outputs: None
        )
        self._pages: Mapping[str, Callable[[Route, Request], Page | Awaitable[Page]]] = {
            ALIVE: lambda *_: (200, TEXT, b"healthy"),
            PAGE: lambda *_: (200, HTML, page(served.entries)),
            MODELS: self._list,
            MODEL: self._one,
            **dict.fromkeys(GENERATED, self._generated),
            "preflight": lambda _, request: preflight(_field(request, b"origin")),
        }

    async def _reply(self, request: Request, found: Route) -> Reply:
        began = time.perf_counter()
        if found.verb == ASK:
            page: Page = 200, JSON, await self._infer(request, began)
        else:
            made = self._pages[found.verb](found, request)
            page = made if isinstance(made, tuple) else await made
        return Reply(page[0], ((b"content-type", page[1].encode()),), page[2])

    async def _infer(self, request: Request, began: float) -> Octets:
        held = Lease(BUDGET)  # until the reply is made
        with self._plane.counting_refusals("", self._interface, Api.PREDICT):
            body = await read_body(request, self._server.max_message_bytes, held)
            kind = request.head.fields.get(b"content-type", b"")
            is_large = is_form(kind) or len(body) >= LARGE_BODY
            work = partial(parse, body, kind)
            found = await in_thread(work) if is_large else work()
        size = max(len(body), LARGE_BODY) if is_large else len(body)
        model = found.model
        inputs = InferRequest(model, model.signature, found.decode, size, None, (), request.head)
        return await self._plane.predict(inputs, self._interface, began)

    def _encoders(
        self, servable: Servable, signature: Signature, outputs: Sequence[str]
    ) -> Mapping[object, Encode[Octets]]:
        specs = {alias: signature.outputs[alias] for alias in outputs}
        platform = self._served.entry(servable.name).config.platform
        return {None: partial(encode, specs=specs, platform=platform)}

    def _list(self, _: Route, __: Request) -> Page:
        models = self._served.entries
        return _json([shown(name, models[name]) for name in sorted(models)])

    def _one(self, found: Route, _: Request) -> Page:
        name = found.model.name
        return _json(shown(name, self._served.entry(name)))

    async def _generated(self, found: Route, request: Request) -> Page:
        given = parameters(found)
        make = partial(self._sample_request, found, given, _field(request, b"host"))
        began = time.perf_counter()
        made = await self._plane.metadata(found.model, self._interface, began, make)
        return await written(found, given, made)

    def _sample_request(
        self, found: Route, given: Mapping[str, str], host: str, servable: Servable
    ) -> sample.JsonPost:
        model, name = found.model, given.get("signature_name", "")
        signature = chosen(model.name, servable.signatures, name)
        data = inputs(signature.inputs, open_size=OPEN_SIZE)
        beside: dict[str, object] = {}
        if found.verb != "gen_json":  # that is for people, who add what they need
            beside |= {"model_name": model.name}
            beside |= {"signature_name": name} if name else {}
            beside |= {} if model.version is None else {"model_version": model.version}
        start = json.dumps({**beside, "data": None}).removesuffix("null}")
        url = sample.checked_url(f"{self._scheme}://{host}")
        return sample.JsonPost(f"{url}/", inlined([start, *data, "}"]))


def _field(request: Request, name: bytes) -> str:
    return request.head.fields.get(name, b"").decode("latin-1")


def _json(value: object) -> Page:
    return 200, JSON, json.dumps(value).encode()


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Models</title><style>
body { font-family: sans-serif; margin: 2em } table { border-collapse: collapse }
td, th { border: 1px solid #999; padding: .3em .6em; text-align: left; vertical-align: top }
</style></head><body><h1>Models</h1><table>
<tr><th>model</th><th>platform</th><th>versions</th><th>inputs</th><th>outputs</th></tr>
%s
</table></body></html>
"""


def shown(name: str, served: ServedModel) -> dict[str, Any]:
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


def page(models: Mapping[str, ServedModel]) -> bytes:
    """Write the table of all models."""
    rows = "\n".join(_row(name, models[name]) for name in sorted(models))
    return (_PAGE % rows).encode()


def _tensors(name: str, served: ServedModel) -> tuple[list[TensorSpec], list[TensorSpec]]:
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


def _row(name: str, served: ServedModel) -> str:
    states = (
        f"{each.version}: {each.state.name}{f' ({each.message})' if each.message else ''}"
        for each in served.stream.statuses()
    )
    tensors = (map(str, each) for each in _tensors(name, served))
    columns = ([name], [served.config.platform], states, *tensors)
    return f"<tr>{''.join(map(_cell, columns))}</tr>"


def _cell(lines: Iterable[str]) -> str:
    return f"<td>{'<br>'.join(map(html.escape, lines))}</td>"
