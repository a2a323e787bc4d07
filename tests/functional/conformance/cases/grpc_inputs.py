"""Predict over gRPC: which inputs, which outputs."""

from tests.functional.conformance.case import Rpc, Section
from tests.functional.conformance.messages import floats, model_spec, predict, predicted, tensor

ONE = floats("1", 1)
CASTS = "Clients of the server of 2020 send other numeric dtypes; a value that survives is cast."
SHAPES = "OpenVINO's ranks are static, so shapes are compared with the signature's."

INPUTS = Section(
    "3.3 Inputs",
    """\
The inputs must be exactly the signature's. One error names every input that is missing, misnamed or
one too many. Shapes are compared with the signature's, `-1` takes any size; missing trailing
dimensions that are declared as 1, and all those of a scalar, are added, and taken off the outputs
again. A SavedModel takes other shapes, too, where TensorFlow's session does. Inputs that an ONNX
file declares, and that change nothing, may be given or left out.""",
    [
        Rpc(
            id="two inputs, two outputs",
            rule="inputs by alias, in any order",
            request=predict("two", b=tensor("DT_INT32", [1], "int_val: 2"), a=ONE),
            reply=predicted(
                "two", sum=floats("3", 1), twice=tensor("DT_INT32", [1], "int_val: [4]")
            ),
        ),
        Rpc(
            id="no inputs",
            rule="the count must match",
            request=predict("plus"),
            code="INVALID_ARGUMENT",
            phrase="input size does not match signature: 0!=1 len({}) != len({x}). "
            "Sent extra: {}. Missing but required: {x}.",
        ),
        Rpc(
            id="one of two inputs",
            rule="the count must match",
            request=predict("two", a=ONE),
            code="INVALID_ARGUMENT",
            phrase="input size does not match signature: 1!=2 len({a}) != len({a,b}). "
            "Sent extra: {}. Missing but required: {b}.",
        ),
        Rpc(
            id="an extra input",
            rule="the count must match",
            request=predict("plus", x=ONE, z=ONE),
            code="INVALID_ARGUMENT",
            phrase="input size does not match signature: 2!=1 len({x,z}) != len({x}). "
            "Sent extra: {z}. Missing but required: {}.",
        ),
        Rpc(
            id="two extra inputs",
            rule="sets are sorted, and separated by commas alone",
            request=predict("plus", z=ONE, x=ONE, q=ONE),
            code="INVALID_ARGUMENT",
            phrase="Sent extra: {q,z}. Missing but required: {}.",
        ),
        Rpc(
            id="a misnamed input",
            rule="an input that the signature does not have",
            request=predict("plus", X=ONE),
            code="INVALID_ARGUMENT",
            phrase="Sent extra: {X}. Missing but required: {x}.",
        ),
        Rpc(
            id="one right, one misnamed",
            rule="an input that the signature does not have",
            request=predict("two", a=ONE, c=ONE),
            code="INVALID_ARGUMENT",
            phrase="Sent extra: {c}. Missing but required: {b}.",
        ),
        Rpc(
            id="strings for numbers",
            rule="the dtype must match",
            request=predict("plus", x=tensor("DT_STRING", [1], 'string_val: "1"')),
            code="INVALID_ARGUMENT",
            phrase="to be float but string is provided",
        ),
        Rpc(
            id="numbers for strings",
            rule="the dtype must match",
            request=predict("text", x=ONE),
            code="INVALID_ARGUMENT",
            phrase="to be string but float is provided",
        ),
        Rpc(
            id="floats for integers",
            rule="the dtype must match",
            request=predict("two", a=ONE, b=ONE),
            code="INVALID_ARGUMENT",
            phrase="to be int32 but float is provided",
        ),
        Rpc(
            id="booleans for numbers",
            rule="the dtype must match",
            request=predict("plus", x=tensor("DT_BOOL", [1], "bool_val: true")),
            code="INVALID_ARGUMENT",
            phrase="to be float but bool is provided",
        ),
        Rpc(
            id="doubles for floats",
            rule="numbers of the same kind",
            request=predict(model_spec("plus", 1), x=tensor("DT_DOUBLE", [1], "double_val: 1")),
            reply=predicted("plus", y=floats("2.5", 1)),
            deviation=CASTS,
        ),
        Rpc(
            id="bytes for floats",
            rule="numbers of the same kind",
            request=predict(model_spec("plus", 1), x=tensor("DT_UINT8", [1], "int_val: 255")),
            reply=predicted("plus", y=floats("129.5", 1)),
            deviation=CASTS,
        ),
        Rpc(
            id="a double beyond float",
            rule="numbers of the same kind",
            request=predict("plus", x=tensor("DT_DOUBLE", [1], "double_val: 1e300")),
            code="INVALID_ARGUMENT",
            phrase="outside the range of float",
            deviation=CASTS,
        ),
        Rpc(
            id="an int64 that fits int32",
            rule="numbers of the same kind",
            request=predict("int32", x=tensor("DT_INT64", [1], "int64_val: -7")),
            reply=predicted("int32", y=tensor("DT_INT32", [1], "int_val: [-7]")),
            deviation=CASTS,
        ),
        Rpc(
            id="an int64 beyond int32",
            rule="numbers of the same kind",
            request=predict("int32", x=tensor("DT_INT64", [1], "int64_val: 2147483648")),
            code="INVALID_ARGUMENT",
            phrase="outside the range of int32",
            deviation=CASTS,
        ),
        Rpc(
            id="a scalar for a vector",
            rule="the shape must fit",
            request=predict("plus", x=floats("1")),
            reply=predicted("plus", 2, y=floats("3.5")),
        ),
        Rpc(
            id="a vector for a column",
            rule="missing trailing dimensions of size 1",
            request=predict("column", x=floats("1, 2", 2)),
            reply=predicted("column", y=floats("1, 2", 2)),
        ),
        Rpc(
            id="a column for a column",
            rule="the shape must fit",
            request=predict("column", x=floats("1, 2", 2, 1)),
            reply=predicted("column", y=floats("1, 2", 2, 1)),
        ),
        Rpc(
            id="three columns for two",
            rule="the shape must fit",
            request=predict("matrix", x=floats("1, 2, 3", 1, 3)),
            code="INVALID_ARGUMENT",
            phrase="[1, 3]",
            deviation=SHAPES,
        ),
        Rpc(
            id="rank 3 for rank 2",
            rule="the shape must fit",
            request=predict("matrix", x=floats("1, 2", 1, 1, 2)),
            code="INVALID_ARGUMENT",
            phrase="[1, 1, 2]",
            deviation=SHAPES,
        ),
        Rpc(
            id="a vector for a scalar",
            rule="the shape must fit",
            request=predict("scalar", x=floats("1, 2", 2)),
            code="INVALID_ARGUMENT",
            phrase="[2]",
            deviation=SHAPES,
        ),
    ],
)

FILTER = Section(
    "3.4 output_filter",
    """\
Over gRPC a request may name the outputs that it wants. Over REST it cannot.""",
    [
        Rpc(
            id="one output",
            rule="only the outputs that are named",
            request=predict(
                "two", 'output_filter: "twice"', a=ONE, b=tensor("DT_INT32", [1], "int_val: 2")
            ),
            reply=predicted("two", twice=tensor("DT_INT32", [1], "int_val: [4]")),
        ),
        Rpc(
            id="both outputs",
            rule="only the outputs that are named",
            request=predict(
                "two",
                'output_filter: ["twice", "sum"]',
                a=ONE,
                b=tensor("DT_INT32", [1], "int_val: 2"),
            ),
            reply=predicted(
                "two", sum=floats("3", 1), twice=tensor("DT_INT32", [1], "int_val: [4]")
            ),
        ),
        Rpc(
            id="unknown output",
            rule="an alias that the signature does not have",
            request=predict("plus", 'output_filter: "z"', x=ONE),
            code="INVALID_ARGUMENT",
            phrase="output tensor alias not found in signature: z Outputs expected to be in the"
            " set {y}.",
        ),
        Rpc(
            id="unknown output of two",
            rule="an alias that the signature does not have",
            request=predict(
                "two", 'output_filter: "y"', a=ONE, b=tensor("DT_INT32", [1], "int_val: 2")
            ),
            code="INVALID_ARGUMENT",
            phrase="Outputs expected to be in the set {sum,twice}.",
        ),
        Rpc(
            id="an output twice",
            rule="each output once",
            request=predict("plus", 'output_filter: ["y", "y"]', x=ONE),
            code="INVALID_ARGUMENT",
            phrase="duplicate output tensor alias: y",
        ),
        Rpc(
            id="an empty name",
            rule="an alias that the signature does not have",
            request=predict("plus", 'output_filter: ""', x=ONE),
            code="INVALID_ARGUMENT",
            phrase="output tensor alias not found in signature: ",
        ),
    ],
)

SECTIONS = (INPUTS, FILTER)
