"""The Open Inference Protocol v2 over gRPC."""

from typing import Any

from tests.functional.conformance.case import Rpc, Section

X = 'inputs { name: "x" datatype: "FP32" shape: 1 }'
TYPED_X = 'inputs { name: "x" datatype: "FP32" shape: 1 contents { fp32_contents: 1 } }'
RAW = r'raw_input_contents: "\000\000\200?"'
Y = 'outputs { name: "y" datatype: "FP32" shape: 1 }'
TYPED_Y = 'outputs { name: "y" datatype: "FP32" shape: 1 contents { fp32_contents: 3.5 } }'
RAW_Y = rf'{Y} raw_output_contents: "\000\000`@"'
PLUS = 'model_name: "plus"'
REGION = (
    'parameters { key: "shared_memory_region" value { string_param: "r" } }'
    ' parameters { key: "shared_memory_byte_size" value { int64_param: 4 } }'
)
OFF = "system shared memory is switched off"
NAMES = f'{PLUS} model_version: "2"'


def infer(id: str, rule: str, request: str, reply: str = "", **fields: Any) -> Rpc:
    return Rpc(id=id, rule=rule, method="ModelInfer", request=request, reply=reply, **fields)


def refused(id: str, rule: str, request: str, phrase: str, code: str = "INVALID_ARGUMENT") -> Rpc:
    return infer(id, rule, request, code=code, phrase=phrase)


def described(**changes: str) -> str:
    """The input x as it stands, but for some members."""
    members = {"datatype": '"FP32"', "shape": "1", "contents": "{ fp32_contents: 1 }"} | changes
    rest = " ".join(f"{name}: {value}" for name, value in members.items())
    return f'{PLUS} inputs {{ name: "x" {rest} }}'


def string(rest: str) -> str:
    """A text for the model that gives it back."""
    return f'model_name: "string" inputs {{ name: "x" datatype: "BYTES" shape: 1 {rest} }}'


SECTIONS = [
    Section(
        title="5.2 Inference, metadata and repository over gRPC",
        introduction=(
            "`inference.GRPCInferenceService`, as KServe, Triton and OpenVINO Model Server have it."
        ),
        cases=(
            infer(
                "raw contents",
                "raw requests are answered raw",
                f"{PLUS} {X} {RAW}",
                f"{NAMES} {RAW_Y}",
            ),
            infer(
                "typed contents", "and typed ones typed", f"{PLUS} {TYPED_X}", f"{NAMES} {TYPED_Y}"
            ),
            infer(
                "an id",
                "the reply repeats it",
                f'{PLUS} id: "a" {TYPED_X}',
                f'{NAMES} id: "a" {TYPED_Y}',
            ),
            infer("a version", "versions are strings", f"{NAMES} {TYPED_X}", f"{NAMES} {TYPED_Y}"),
            infer(
                "a label",
                "a version that is no number is a label",
                f'{PLUS} model_version: "stable" {TYPED_X}',
                phrase='model_name: "plus"',
            ),
            infer(
                "a requested output",
                "named outputs alone come",
                f'{PLUS} {TYPED_X} outputs {{ name: "y" }}',
                f"{NAMES} {TYPED_Y}",
            ),
            infer(
                "an unknown parameter",
                "parameters are hints",
                f'{PLUS} parameters {{ key: "priority" value {{ int64_param: 1 }} }} {TYPED_X}',
                f"{NAMES} {TYPED_Y}",
            ),
            infer(
                "texts",
                "BYTES are bytes",
                string("contents { bytes_contents: 'a' }"),
                phrase='datatype: "BYTES" shape: 1 contents { bytes_contents: "a" }',
            ),
            infer(
                "raw texts",
                "each is its length, then itself",
                rf'{string("")} raw_input_contents: "\001\000\000\000a"',
                phrase=r'raw_output_contents: "\001\000\000\000a"',
            ),
            infer(
                "an output of half precision",
                "FP16 is raw, and with it the whole reply",
                f"{PLUS} {TYPED_X}".replace("plus", "half"),
                phrase='datatype: "FP16" shape: 1 } raw_output_contents:',
            ),
            refused(
                "a raw text that is cut short",
                "lengths and bytes agree",
                rf'{string("")} raw_input_contents: "\005\000\000\000a"',
                'input "x" has 5 bytes; expected 1 elements of BYTES',
            ),
            refused(
                "an unknown model",
                "models by name",
                'model_name: "none"',
                "Latest(none)",
                "NOT_FOUND",
            ),
            refused("no model", "models by name", X, "set model_name to a served model"),
            refused(
                "an unknown output",
                "outputs by name",
                f'{PLUS} {TYPED_X} outputs {{ name: "z" }}',
                "output tensor alias not found in signature: z",
            ),
            refused("no input", "every input is needed", PLUS, "Missing but required: {x}"),
            refused(
                "an input twice",
                "each input once",
                f"{PLUS} {TYPED_X} {TYPED_X}",
                'input "x" is there more than once',
            ),
            refused(
                "raw and typed contents",
                "raw contents are all or nothing",
                f"{PLUS} {TYPED_X} {RAW}",
                "has both contents and raw_input_contents",
            ),
            refused(
                "fewer raw contents than inputs",
                "raw contents are all or nothing",
                f"{PLUS} {X} {X} {RAW}",
                "raw_input_contents has 1 entries, and there are 2 inputs",
            ),
            refused(
                "raw contents of another size",
                "shape and bytes agree",
                rf'{PLUS} {X} raw_input_contents: "\000"',
                'input "x" has 1 bytes; FP32 of shape [1] takes 4',
            ),
            refused(
                "more values than the shape has",
                "shape and values agree",
                described(shape="2"),
                'input "x" has 1 values in fp32_contents; FP32 of shape [2] takes 2',
            ),
            refused(
                "a negative dimension",
                "the actual size",
                described(shape="-1"),
                'input "x" has shape [-1]: each dimension has to be the actual size',
            ),
            refused(
                "an unknown datatype",
                "datatypes of the protocol",
                described(datatype='"FLOAT"'),
                'has datatype "FLOAT"; expected one of FP32',
            ),
            refused(
                "values in another list",
                "each datatype has its list",
                described(contents="{ fp64_contents: 1 }"),
                "has values in fp64_contents; those of FP32 belong in fp32_contents",
            ),
            refused(
                "typed contents of FP16",
                "FP16 is raw",
                described(datatype='"FP16"'),
                "send it in raw_input_contents",
            ),
            Rpc(
                id="metadata",
                rule="versions that answer; -1 is any size",
                method="ModelMetadata",
                request='name: "plus"',
                phrase='inputs { name: "x" datatype: "FP32" shape: -1 }',
            ),
            Rpc(
                id="a model that is ready",
                rule="some version answers",
                method="ModelReady",
                request='name: "plus"',
                reply="ready: true",
            ),
            Rpc(
                id="a model that there is not",
                rule="it is not ready, as in Triton",
                method="ModelReady",
                request='name: "none"',
                reply="",
                phrase="",
            ),
            Rpc(
                id="the index of the repository",
                rule="every version with its state",
                method="RepositoryIndex",
                request="ready: true",
                phrase='models { name: "plus" version: "2" state: "READY" }',
            ),
            Rpc(
                id="a load",
                rule="Triton's, in poll mode",
                method="RepositoryModelLoad",
                request='model_name: "plus"',
                code="UNAVAILABLE",
                phrase="the model control mode is poll, not explicit",
            ),
            Rpc(
                id="an unload",
                rule="Triton's, in poll mode",
                method="RepositoryModelUnload",
                request='model_name: "plus"',
                code="UNAVAILABLE",
                phrase="the model control mode is poll, not explicit",
            ),
            *(
                Rpc(
                    id=id,
                    rule="Triton's extension, which is off by default",
                    method=f"SystemSharedMemory{method}",
                    request='name: "r"',
                    code="UNIMPLEMENTED",
                    phrase=OFF,
                )
                for id, method in (
                    ("the regions of shared memory", "Status"),
                    ("a region that is registered", "Register"),
                    ("a region that is unregistered", "Unregister"),
                )
            ),
            refused(
                "an input in shared memory",
                "Triton's extension, which is off by default",
                f'{PLUS} inputs {{ name: "x" datatype: "FP32" shape: 1 {REGION} }}',
                OFF,
                "UNIMPLEMENTED",
            ),
            refused(
                "an output in shared memory",
                "Triton's extension, which is off by default",
                f'{PLUS} {TYPED_X} outputs {{ name: "y" {REGION} }}',
                OFF,
                "UNIMPLEMENTED",
            ),
            Rpc(
                id="a method that is not served",
                rule="as an unknown method",
                method="inference.GRPCInferenceService/CudaSharedMemoryRegister",
                request="",
                code="UNIMPLEMENTED",
            ),
        ),
    ),
]
