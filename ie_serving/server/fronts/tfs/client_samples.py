"""`gen_json` and `gen_client`: a sample request made from a model's metadata, and client programs.

simple_tensorflow_serving has routes of these names. Here the sample is a body of `:predict`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from ie_serving.core.runtime.threads import in_thread
from ie_serving.core.values.errors import InvalidRequest
from ie_serving.core.values.requests import ModelSpec
from ie_serving.models.version.handle import Servable
from ie_serving.server.fronts.rest.replies import JSON, Page
from ie_serving.server.fronts.tfs.rest_routes import Route
from ie_serving.wire.clients import sample
from ie_serving.wire.clients.sample import text_of

TEXT: Final = "text/plain; charset=utf-8"
LANGUAGE, SIGNATURE = "language", "signature_name"

FindSample = Callable[[Callable[[Servable], sample.JsonPost]], Awaitable[sample.JsonPost]]
"""Applies a function to the version that the request names. Raises ServingError."""


async def page(asked: Route, address: str, ask: FindSample) -> Page:
    """Answer a request to either route.

    Args:
        asked: the route, with its query.
        address: address of this server, as the caller reached it.
        ask: function that takes a sample of the named version, a `FindSample`.

    Raises:
        ServingError: unknown model, language or parameter, or no sample can be made for the model.
    """
    given = parameters(asked)

    def make(servable: Servable) -> sample.JsonPost:
        name, version, label = asked.model.name, asked.model.version, asked.model.label
        model = ModelSpec(name, version, label, given.get(SIGNATURE, ""))
        return sample.predict(sample.checked_url(address), model, servable.signatures)

    return await written(asked, given, await ask(make))


async def written(asked: Route, given: Mapping[str, str], made: sample.JsonPost) -> Page:
    """Write the body of a call, or a program that makes the call.

    Raises:
        InvalidRequest: an unknown language.
    """
    if asked.verb == "gen_json":
        # In a thread: unlike a program, the body spells out all elements.
        text = await in_thread(partial(text_of, made.body))
        return 200, JSON, text.encode()
    program = sample.program(given.get(LANGUAGE, "bash"), made)  # the original's default
    return 200, TEXT, program.encode()


def parameters(asked: Route) -> dict[str, str]:
    """Parse the parameters of the query. Raises: InvalidRequest."""
    given = dict(parse_qsl(asked.query, keep_blank_values=True))
    known = [SIGNATURE] if asked.verb == "gen_json" else [LANGUAGE, SIGNATURE]
    for name in given:
        if name not in known:
            raise InvalidRequest(
                f"{asked.verb} has no parameter {name[:40]!r}; expected {' or '.join(known)}"
            )
    return given
