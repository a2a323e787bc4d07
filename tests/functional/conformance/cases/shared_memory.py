"""System shared memory of the Open Inference Protocol, switched on."""

import json
from collections.abc import Mapping
from typing import Any

from tests.functional.conformance.case import KEY, SHARED, Place, Rest, Rpc, Section, Triton
from tests.functional.conformance.cases.rest_kserve import INFER

REGISTER, UNREGISTER, STATUS = (
    f"{verb}_system_shared_memory{end}"
    for verb, end in (("register", ""), ("unregister", ""), ("get", "_status"))
)
X = {"name": "x", "shape": [1], "datatype": "FP32"}
SIZE, OFFSET = "shared_memory_byte_size", "shared_memory_offset"
HERE = {"shared_memory_region": "r", SIZE: 4}
BAD = {"code": "INVALID_ARGUMENT", "status": 400}
NONE = {"code": "NOT_FOUND", "status": 404}
NO_CUDA = {"code": "UNIMPLEMENTED", "status": 501}
FIRST, BEHIND = Place("r", 4), Place("r", 4, 8)


def registering(id: str, rule: str, *arguments: str | int, **fields: Any) -> Triton:
    return Triton(id=id, rule=rule, method=REGISTER, arguments=arguments, **fields)


def infer(id: str, rule: str, x: Place = FIRST, y: Place = BEHIND, **fields: Any) -> Triton:
    places = {"inputs": {"x": x}, "outputs": {"y": y}}
    return Triton(id=id, rule=rule, method="infer", arguments=["plus"], **places, **fields)


def odd(id: str, rule: str, phrase: str, given: Mapping[str, object], **more: object) -> Rest:
    """An input with parameters that Triton's client does not send."""
    body = json.dumps({"inputs": [{**X, "parameters": given, **more}]}, separators=(",", ":"))
    return Rest(id=id, rule=rule, target=INFER, body=body, code=400, phrase=phrase, server=SHARED)


def odd_register(id: str, phrase: str, **members: object) -> Rest:
    return Rest(
        id=id,
        rule="members have their types",
        target="/v2/systemsharedmemory/region/s/register",
        body=json.dumps({"key": KEY, "offset": 0, "byte_size": 4, **members}),
        code=400,
        phrase=phrase,
        server=SHARED,
    )


def parameter(name: str, kind: str, value: object) -> str:
    return f'parameters {{ key: "{name}" value {{ {kind}: {value} }} }}'


def odd_rpc(id: str, rule: str, phrase: str, *parameters: str) -> Rpc:
    x = f'inputs {{ name: "x" datatype: "FP32" shape: 1 {" ".join(parameters)} }}'
    return Rpc(
        id=id,
        rule=rule,
        method="ModelInfer",
        request=f'model_name: "plus" {x}',
        code="INVALID_ARGUMENT",
        phrase=phrase,
        server=SHARED,
    )


NAMED = parameter("shared_memory_region", "string_param", '"r"')
NUMBER = f'parameter \\"{SIZE}\\" of input \\"x\\" has to be a number of bytes, 0 or more'

SECTIONS = [
    Section(
        title="5.3 Shared memory",
        introduction=(
            "Triton's extension, on a server with `--shared_memory true`. `tritonclient` sends"
            " these rows, both by HTTP and by gRPC, and the answer has both codes; requests that it"
            " does not send are written out. Before each row the region `r` alone is registered"
            f" under the key `{KEY}`, with 16 bytes: the number 1 as FP32, then zeros."
        ),
        cases=(
            registering("a region", "under a name of its own", "s", KEY, 8, 4, regions="rs"),
            registering(
                "a region that is registered already",
                "names are unique",
                *("r", KEY, 16),
                code="ALREADY_EXISTS",
                status=400,
                phrase='region "r" is registered already: unregister it before',
            ),
            registering(
                "a file that there is not",
                "the client makes it before",
                *("s", "/none-of-this-name", 16),
                **NONE,
                phrase='there is no shared memory "/none-of-this-name" in /dev/shm',
            ),
            *(
                registering(
                    id,
                    "a name of a file in /dev/shm",
                    *("s", key, 16),
                    **BAD,
                    phrase=f'key "{key}" has to be the name of a file in /dev/shm',
                )
                for id, key in (
                    ("a file elsewhere", "/../etc/passwd"),
                    ("a file in a directory", "a/b"),
                    ("no key", ""),
                    ("a semaphore", "sem.a"),
                )
            ),
            registering(
                "a region beyond its file",
                "sizes fit",
                *("s", KEY, 16, 4),
                **BAD,
                phrase="region of 16 bytes from offset 4, and",
            ),
            registering(
                "a region of no bytes",
                "sizes are from 1 on",
                *("s", KEY, 0),
                **BAD,
                phrase='"byte_size" of a region has to be a number of bytes from 1',
            ),
            registering(
                "a long name",
                "names have 255 bytes at most",
                *("s" * 256, KEY, 16),
                **BAD,
                phrase="the name of a region has 1 to 255 bytes",
            ),
            odd_register("a key that is no text", 'key \\"7\\" has to be the name', key=7),
            odd_register("an offset below 0", '\\"offset\\" of a region has to be', offset=-1),
            odd_register("a size that is no number", '\\"byte_size\\" of a region', byte_size="4"),
            Triton(id="the regions", rule="all of them", method=STATUS, phrase=KEY),
            Triton(id="one region", rule="by its name", method=STATUS, arguments=["r"], phrase=KEY),
            Triton(
                id="a region that there is not",
                rule="by its name",
                method=STATUS,
                arguments=["s"],
                **NONE,
                phrase='region "s" is not registered as system shared memory',
            ),
            Triton(
                id="a region that is unregistered",
                rule="by its name",
                method=UNREGISTER,
                arguments=["r"],
                regions=(),
            ),
            Triton(
                id="a region that is unregistered twice",
                rule="no error, as in Triton",
                method=UNREGISTER,
                arguments=["s"],
            ),
            Triton(
                id="all that are unregistered",
                rule="no name is given",
                method=UNREGISTER,
                regions=(),
            ),
            infer("input and output", "neither is in the message", written=(1, 0, 3.5)),
            infer(
                "an output over its input",
                "the input has been read before",
                y=Place("r", 4),
                written=(3.5,),
            ),
            infer(
                "an output with room",
                "the size is a maximum",
                y=Place("r", 12, 4),
                written=(1, 3.5),
            ),
            infer(
                "an input in no region",
                "regions are registered",
                x=Place("s", 4),
                **NONE,
                phrase='region "s" is not registered as system shared memory',
            ),
            infer(
                "an output in no region",
                "regions are registered",
                y=Place("s", 4),
                **NONE,
                phrase='region "s" is not registered as system shared memory',
            ),
            infer(
                "an input beyond its region",
                "places are in their regions",
                x=Place("r", 4, 16),
                **BAD,
                phrase='4 bytes from offset 16 are not in region "r", which has 16 bytes',
            ),
            infer(
                "an output beyond its region",
                "places are in their regions",
                y=Place("r", 4, 16),
                **BAD,
                phrase='4 bytes from offset 16 are not in region "r", which has 16 bytes',
            ),
            infer(
                "an input of another size",
                "shape and bytes agree",
                x=Place("r", 8),
                **BAD,
                phrase='input "x" has 8 bytes; FP32 of shape [1] takes 4',
            ),
            infer(
                "an output that is larger than its place",
                "nothing is written",
                y=Place("r", 3, 4),
                **BAD,
                phrase=f'output "y" has 4 bytes (FP32 of shape [1]), and its "{SIZE}" is 3',
                written=(1, 0),
            ),
            odd("values beside a region", "one or the other", "has values, and", HERE, data=[1]),
            odd(
                "raw bytes beside a region",
                "one or the other",
                "has values, and",
                {**HERE, "binary_data_size": 4},
            ),
            odd("a region without a size", "it is needed", NUMBER, {"shared_memory_region": "r"}),
            odd("a size below 0", "a number of bytes", NUMBER, {**HERE, SIZE: -1}),
            odd(
                "an offset that is no number",
                "a number of bytes",
                NUMBER.replace(SIZE, OFFSET),
                {**HERE, OFFSET: True},
            ),
            odd(
                "a region whose name is no text",
                "names are texts",
                'of input \\"x\\" has to be the name of a region',
                {**HERE, "shared_memory_region": 7},
            ),
            Rest(
                id="classes in a region",
                rule="one or the other",
                target=INFER,
                body=json.dumps(
                    {
                        "inputs": [{**X, "data": [1]}],
                        "outputs": [{"name": "y", "parameters": {**HERE, "classification": 1}}],
                    }
                ),
                code=400,
                phrase="classification and shared memory of outputs exclude each other",
                server=SHARED,
            ),
            odd_rpc(
                "a region without a size, by gRPC", "it is needed", NUMBER.replace("\\", ""), NAMED
            ),
            odd_rpc(
                "a size below 0, by gRPC",
                "a number of bytes",
                NUMBER.replace("\\", ""),
                NAMED,
                parameter(SIZE, "int64_param", -1),
            ),
            odd_rpc(
                "contents beside a region, by gRPC",
                "one or the other",
                "has values, and",
                NAMED,
                parameter(SIZE, "int64_param", 4),
                "contents { fp32_contents: 1 }",
            ),
            *(
                Triton(
                    id=f"CUDA memory that is {word}",
                    rule="it is not there",
                    method=f"{method}_cuda_shared_memory{end}",
                    arguments=arguments,
                    **fields,
                )
                for word, method, end, arguments, fields in (
                    ("registered", "register", "", ("s", b"AAAA", 0, 16), NO_CUDA),
                    ("unregistered", "unregister", "", (), {}),
                    ("listed", "get", "_status", (), {}),
                    ("asked for", "get", "_status", ("s",), {**NONE, "phrase": "as CUDA"}),
                )
            ),
            Triton(
                id="the server's metadata",
                rule="the extension is named",
                method="get_server_metadata",
                phrase="system_shared_memory",
            ),
        ),
    ),
]
