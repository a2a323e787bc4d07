"""Each dtype, in and out, in both encodings; and what TensorFlow forgives in a TensorProto."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.functional.conformance.case import Rpc, Section
from tests.functional.conformance.messages import floats, predict, predicted, tensor


@dataclass(frozen=True)
class Sample:
    """Values of one dtype, as each encoding writes them.

    Attributes:
        word: TensorFlow's word, also the model's name.
        field: list field.
        listed: its values.
        packed: the same as raw bytes; none for strings.
        size: how many they are.
    """

    word: str
    field: str
    listed: str
    packed: bytes
    size: int

    @property
    def dtype(self) -> str:
        return f"DT_{self.word.upper()}"

    def in_list(self) -> str:
        return tensor(self.dtype, [self.size], f"{self.field}: [{self.listed}]")

    def in_content(self) -> str:
        octets = "".join(f"\\{byte:03o}" for byte in self.packed)
        return tensor(self.dtype, [self.size], f'tensor_content: "{octets}"')


def pack(kind: str, *values: float) -> bytes:
    return struct.pack(f"<{len(values)}{kind}", *values)


ZERO_BYTE = "OpenVINO would cut a zero byte off the end of a string; it is refused instead."
NARROW = "OpenVINO's CPU plugin computes 64-bit integers in 32 bits; what does not fit is refused."

SAMPLES = (
    Sample("float", "float_val", "1.5, -0.1, inf", pack("f", 1.5, -0.1, float("inf")), 3),
    Sample("double", "double_val", "1.5, -0.25, 65536", pack("d", 1.5, -0.25, 65536), 3),
    Sample("half", "half_val", "15872, 48128, 64511", pack("H", 15872, 48128, 64511), 3),
    Sample("bfloat16", "half_val", "16320, 48640, 32639", pack("H", 16320, 48640, 32639), 3),
    Sample("int8", "int_val", "-128, 0, 127", pack("b", -128, 0, 127), 3),
    Sample("int16", "int_val", "-32768, 0, 32767", pack("h", -32768, 0, 32767), 3),
    Sample("int32", "int_val", "-2147483648, 0, 2147483647", pack("i", -(2**31), 0, 2**31 - 1), 3),
    Sample(
        "int64", "int64_val", "-2147483648, 0, 2147483647", pack("q", -(2**31), 0, 2**31 - 1), 3
    ),
    Sample("uint8", "int_val", "0, 1, 255", pack("B", 0, 1, 255), 3),
    Sample("uint16", "int_val", "0, 1, 65535", pack("H", 0, 1, 65535), 3),
    Sample("uint32", "uint32_val", "0, 1, 2147483647", pack("I", 0, 1, 2**31 - 1), 3),
    Sample("uint64", "uint64_val", "0, 1, 2147483647", pack("Q", 0, 1, 2**31 - 1), 3),
    Sample("bool", "bool_val", "true, false, true", b"\x01\x00\x01", 3),
    Sample("string", "string_val", r'"a", "", "\377\000b"', b"\x01\x00\x03a\xff\x00b", 3),
)


def dtype_cases() -> Iterator[Rpc]:
    for sample in SAMPLES:
        for encoding, sent in (("list", sample.in_list()), ("content", sample.in_content())):
            yield Rpc(
                id=f"{sample.dtype} in {sample.field if encoding == 'list' else 'tensor_content'}",
                rule="every dtype, in both encodings; replies are lists",
                request=predict(sample.word, x=sent),
                reply=predicted(sample.word, y=sample.in_list()),
            )
        empty = tensor(sample.dtype, [0])
        yield Rpc(
            id=f"{sample.dtype}, empty",
            rule="a dimension of 0 is an empty tensor",
            request=predict(sample.word, x=empty),
            reply=predicted(sample.word, y=empty),
        )
        yield Rpc(
            id=f"{sample.dtype}, shape alone",
            rule="no values in a shape that is not empty: zeros, empty strings, false",
            request=predict(sample.word, x=tensor(sample.dtype, [2])),
            reply=predicted(sample.word, y=_zeros(sample)),
        )


def _zeros(sample: Sample) -> str:
    zero = {"bool": "false", "string": '""'}.get(sample.word, "0")
    return tensor(sample.dtype, [2], f"{sample.field}: [{zero}, {zero}]")


DTYPES = Section(
    "1.4 Data types over gRPC",
    """\
Each model here returns its input. A tensor's values stand in the list of its dtype, or as
little-endian bytes in `tensor_content`; both are read. Replies have lists, fully expanded, unless
the server was started with `--enable_serialization_as_tensor_content`. DT_HALF and DT_BFLOAT16 are
bit patterns in `half_val`. The `tensor_content` of DT_STRING is all lengths as varints, then all
bytes.""",
    list(dtype_cases()),
)

FORGIVEN = Section(
    "1.4 Faults of a TensorProto that are forgiven, and those that are not",
    """\
TensorFlow repeats the last value of a list that is too short, drops what is too much, and does not
look into the list of another dtype. So does this server.""",
    [
        Rpc(
            id="one value for four",
            rule="the last value is repeated",
            request=predict("float", x=floats("7", 4)),
            reply=predicted("float", y=floats("7, 7, 7, 7", 4)),
        ),
        Rpc(
            id="two values for four",
            rule="the last value is repeated",
            request=predict("float", x=floats("1, 2", 4)),
            reply=predicted("float", y=floats("1, 2, 2, 2", 4)),
        ),
        Rpc(
            id="one string for three",
            rule="the last value is repeated",
            request=predict("string", x=tensor("DT_STRING", [3], 'string_val: "a"')),
            reply=predicted("string", y=tensor("DT_STRING", [3], 'string_val: ["a", "a", "a"]')),
        ),
        Rpc(
            id="three values for two",
            rule="surplus values are dropped",
            request=predict("float", x=floats("1, 2, 3", 2)),
            reply=predicted("float", y=floats("1, 2", 2)),
        ),
        Rpc(
            id="values for none",
            rule="surplus values are dropped",
            request=predict("float", x=floats("1, 2, 3", 0)),
            reply=predicted("float", y=floats("", 0)),
        ),
        Rpc(
            id="values in the list of another dtype",
            rule="they are not looked at",
            request=predict("float", x=tensor("DT_FLOAT", [2], "int_val: [1, 2]")),
            reply=predicted("float", y=floats("0, 0", 2)),
        ),
        Rpc(
            id="content and list",
            rule="tensor_content wins",
            request=predict(
                "float", x=tensor("DT_FLOAT", [1], r'tensor_content: "\000\000\200?" float_val: 9')
            ),
            reply=predicted("float", y=floats("1", 1)),
        ),
        Rpc(
            id="int8 beyond its range",
            rule="values wrap to the dtype's width",
            request=predict("int8", x=tensor("DT_INT8", [2], "int_val: [128, -129]")),
            reply=predicted("int8", y=tensor("DT_INT8", [2], "int_val: [-128, 127]")),
        ),
        Rpc(
            id="uint8 beyond its range",
            rule="values wrap to the dtype's width",
            request=predict("uint8", x=tensor("DT_UINT8", [2], "int_val: [256, -1]")),
            reply=predicted("uint8", y=tensor("DT_UINT8", [2], "int_val: [0, 255]")),
        ),
        Rpc(
            id="int16 beyond its range",
            rule="values wrap to the dtype's width",
            request=predict("int16", x=tensor("DT_INT16", [1], "int_val: 32768")),
            reply=predicted("int16", y=tensor("DT_INT16", [1], "int_val: [-32768]")),
        ),
        Rpc(
            id="half with high bits",
            rule="the low 16 bits count",
            request=predict("half", x=tensor("DT_HALF", [1], "half_val: 81408")),
            reply=predicted("half", y=tensor("DT_HALF", [1], "half_val: [15872]")),
        ),
        Rpc(
            id="no shape",
            rule="a missing shape is rank 0",
            request=predict("scalar", x="dtype: DT_FLOAT float_val: 4"),
            reply=predicted("scalar", y=floats("4")),
        ),
        Rpc(
            id="rank 0",
            rule="a scalar in, a scalar out",
            request=predict("scalar", x=floats("4")),
            reply=predicted("scalar", y=floats("4")),
        ),
        Rpc(
            id="rank 0 without a value",
            rule="no value is zero",
            request=predict("scalar", x=floats("")),
            reply=predicted("scalar", y=floats("0")),
        ),
        Rpc(
            id="rank 0 out",
            rule="a reply always has tensor_shape",
            request=predict("sum", x=floats("1, 2, 3", 3)),
            reply=predicted("sum", y=floats("6")),
        ),
        Rpc(
            id="rank 0 out of nothing",
            rule="an empty tensor is a value like any other",
            request=predict("sum", x=floats("", 0)),
            reply=predicted("sum", y=floats("0")),
        ),
        Rpc(
            id="empty in the middle",
            rule="a dimension of 0 is an empty tensor",
            request=predict("cube", x=floats("", 2, 0, 3)),
            reply=predicted("cube", y=floats("", 2, 0, 3)),
        ),
        Rpc(
            id="rank 3",
            rule="values in row-major order",
            request=predict("cube", x=floats("1, 2, 3, 4", 2, 1, 2)),
            reply=predicted("cube", y=floats("1, 2, 3, 4", 2, 1, 2)),
        ),
        Rpc(
            id="named dimensions",
            rule="names of dimensions have no effect",
            request=predict(
                "float",
                x='dtype: DT_FLOAT tensor_shape { dim { size: 1 name: "n" } } float_val: 1',
            ),
            reply=predicted("float", y=floats("1", 1)),
        ),
        Rpc(
            id="not a number",
            rule="every bit pattern is a value",
            request=predict("float", x=floats("nan, -inf, -0.0", 3)),
            reply=predicted("float", y=floats("nan, -inf, -0.0", 3)),
        ),
        *(
            Rpc(
                id=name,
                rule="a TensorProto that cannot be parsed",
                request=predict("float", x=sent),
                code="INVALID_ARGUMENT",
                phrase="tensor parsing error: x",
            )
            for name, sent in (
                ("negative dimension", floats("1", -1)),
                ("unknown rank", "dtype: DT_FLOAT tensor_shape { unknown_rank: true }"),
                ("no dtype", "tensor_shape { dim { size: 1 } } float_val: 1"),
                ("three bytes", tensor("DT_FLOAT", [1], 'tensor_content: "abc"')),
                ("five bytes", tensor("DT_FLOAT", [1], 'tensor_content: "abcde"')),
                ("bytes for none", tensor("DT_FLOAT", [0], 'tensor_content: "abcd"')),
                ("complex numbers", tensor("DT_COMPLEX64", [1], "scomplex_val: [1, 2]")),
                ("quantized numbers", tensor("DT_QINT8", [1], "int_val: 1")),
                ("a reference", tensor("DT_FLOAT_REF", [1], "float_val: 1")),
                ("a terabyte of zeros", tensor("DT_FLOAT", [2**38])),
                ("more than memory addresses", tensor("DT_FLOAT", [2**40, 2**40])),
            )
        ),
        Rpc(
            id="a string that ends in a zero byte",
            rule="strings are any bytes",
            request=predict("string", x=tensor("DT_STRING", [1], r'string_val: "a\000"')),
            code="INVALID_ARGUMENT",
            phrase="ends with a zero byte",
            deviation=ZERO_BYTE,
        ),
        *(
            Rpc(
                id=f"{word} beyond 32 bits",
                rule="every value of the dtype",
                request=predict(
                    word, x=tensor(f"DT_{word.upper()}", [1], f"{word}_val: 1099511627776")
                ),
                code="INVALID_ARGUMENT",
                phrase=f"this model computes {word} in 32 bits",
                deviation=NARROW,
            )
            for word in ("int64", "uint64")
        ),
        Rpc(
            id="string lengths that lie",
            rule="a TensorProto that cannot be parsed",
            request=predict("string", x=tensor("DT_STRING", [2], r'tensor_content: "\001\011a"')),
            code="INVALID_ARGUMENT",
            phrase="tensor parsing error: x",
        ),
    ],
)

SECTIONS = (DTYPES, FORGIVEN)
