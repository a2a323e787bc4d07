"""Requests that cost a server much, each the largest or oddest of its kind.

`docs/reference/attacks.md` has them.
"""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from gzip import compress as gzip_of
from pathlib import Path

import numpy as np
import openvino.opset15 as op
from hpack import Encoder
from hyperframe.frame import ContinuationFrame, HeadersFrame, SettingsFrame

from ie_serving.core.values.tensors import DataType
from tests.functional import payloads
from tests.functional.payloads import MEGABYTE, ROW, send
from tests.functional.servers import SAMPLE, Server
from tests.functional.storage.serving import several
from tests.process import COMMANDS, PATIENCE_S
from tests.unit.engines.openvino.models import parameter, result, save, unary
from tests.unit.wire.protobuf.nesting import nested

PREDICT = "PredictionService/Predict"
RELOAD = "ModelService/HandleReloadConfigRequest"


def serve(base: Path, *flags: str, within: tuple[str, ...] = ()) -> Server:
    """Start a server of the sample, and of a model whose request asks for a range of numbers.

    Args:
        base: folder for its models.
        flags: more of them.
        within: a command that runs the one behind it.
    """
    x = parameter("x", [1], DataType.INT32)
    zero, one = (op.constant(np.array(value, np.int32)) for value in (0, 1))
    stop = op.gather(x, zero, zero)
    save(base / "range" / "1", [result("y", op.range(zero, stop, one, "f32"))], [x])
    unary(base / "picture" / "1", [-1, 64, 64, 3], DataType.FP32, op.relu)
    paths = {name: str(base / name) for name in ("range", "picture")}
    models = several(base / "c.json", {"digits": str(SAMPLE), **paths})
    command = (str(COMMANDS / "ie_serving"), *models, *flags)
    return Server(*within, *command, executed=True)


def post(server: Server, body: bytes, model: str = "digits", **headers: str) -> None:
    server.rest.post(f"/v1/models/{model}:predict", content=body, headers=headers)


def rest(body: Callable[[], bytes], **headers: str) -> Callable[[Server], None]:
    return lambda server: post(server, body(), **headers)


def rpc(
    method: str, payload: Callable[[], bytes], *, gzip: bool = False
) -> Callable[[Server], None]:
    def ask(server: Server) -> None:
        send(server, method, payload(), gzip=gzip)

    return ask


def long_headers(size: int, fields: int) -> Callable[[Server], None]:
    """Headers of one call, in many fields that change the table."""

    def ask(server: Server) -> None:
        encoder = Encoder()
        names = [(f"x-{i:05}", "v" * (size // fields)) for i in range(fields)]
        block = bytes(encoder.encode(names, huffman=True))
        parts = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SettingsFrame(0).serialize()]
        parts.append(HeadersFrame(1, block[:16_000]).serialize())
        rest = [block[at : at + 16_000] for at in range(16_000, len(block), 16_000)]
        parts += [ContinuationFrame(1, piece).serialize() for piece in rest]
        parts.append(ContinuationFrame(1, b"", flags=["END_HEADERS"]).serialize())
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as client:
            client.settimeout(1.0)
            with suppress(OSError):
                client.sendall(b"".join(parts))
                while client.recv(1 << 16):
                    pass

    return ask


def many_inputs(server: Server) -> None:
    """Of the Open Inference Protocol, the last of them twice."""
    each = b'{"name": "%d", "shape": [1], "datatype": "FP32", "data": [1]}'
    inputs = b", ".join([each % min(number, 29_999) for number in range(30_001)])
    server.rest.post("/v2/models/digits/infer", content=b'{"inputs": [%b]}' % inputs)


def short_headers(server: Server) -> None:
    """8,000 of them in a request's head, all of one name."""
    with socket.create_connection(("127.0.0.1", server.rest_port), PATIENCE_S) as client:
        client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n%b\r\n" % (b"a: bc\r\n" * 8000))
        with suppress(OSError):
            while client.recv(1 << 16):
                pass


def long_reply(server: Server) -> None:
    post(server, json.dumps({"inputs": {"x": [1_000_000]}}).encode(), "range")


REQUESTS: dict[str, Callable[[Server], None]] = {
    "many models": rpc(RELOAD, lambda: payloads.models(1_500_000), gzip=True),
    "nameless models": rpc(RELOAD, lambda: payloads.models(9_999)),
    "64 MB from 41 bytes": rpc(PREDICT, lambda: payloads.filled(64 * MEGABYTE // 4)),
    "gzip over gRPC": rpc(PREDICT, lambda: nested(2, content=bytes(200 * MEGABYTE)), gzip=True),
    "25 MB of tensors": rpc(PREDICT, lambda: payloads.packed(100_000)),
    "13 MB of values": rpc(PREDICT, lambda: payloads.listed(50_000)),
    "a million strings": rpc(PREDICT, lambda: payloads.strings(1_000_000)),
    "a million images": rpc(PREDICT, lambda: payloads.images(*[b""] * 1_000_000)),
    "30 megapixels of PNG": rpc(PREDICT, lambda: payloads.picture("PNG", 5_000, 6_000)),
    "30 megapixels of JPEG": rpc(PREDICT, lambda: payloads.picture("JPEG", 5_000, 6_000)),
    "16 megapixels of WebP": rpc(PREDICT, lambda: payloads.picture("WEBP", 4_096, 4_096)),
    "20,000 examples": rpc("PredictionService/Classify", lambda: payloads.examples(20_000)),
    "gzip over REST": rest(
        lambda: gzip_of(b'{"instances": [' + b"[NaN]," * 100_000), **{"Content-Encoding": "gzip"}
    ),
    "levels of JSON": rest(lambda: b'{"instances": ' + b"[" * 500_000),
    "20 MB of JSON": rest(lambda: b'{"instances": [%s]}' % b",".join([str(ROW).encode()] * 60_000)),
    "JSON that is not strict": rest(lambda: b'{"instances": [%s]}' % b",".join([b"NaN"] * 100_000)),
    "many keys": rest(
        lambda: b'{"inputs": {%s}}' % b",".join(b'"%d": 1' % i for i in range(300_000))
    ),
    "many inputs": many_inputs,
    "8,000 short headers": short_headers,
    "2,000 fields of a call": long_headers(4_000, 2_000),
    "60 KB of headers": long_headers(60_000, 600),
    "90 KB of headers": long_headers(90_000, 30),
    "a million numbers in a reply": long_reply,
}
