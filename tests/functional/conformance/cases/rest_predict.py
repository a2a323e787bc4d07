"""Predict bodies in row and column form, and replies to the byte."""

from tests.functional.conformance.case import Rest, Section


def rows(body: str) -> str:
    return f'{{"instances": {body}}}'


def columns(body: str) -> str:
    return f'{{"inputs": {body}}}'


def predictions(text: str) -> str:
    """The reply to rows of one output."""
    return f'{{\n    "predictions": [{text}\n    ]\n}}'


def outputs(text: str) -> str:
    return f'{{\n    "outputs": {text}\n}}'


def ok(id: str, model: str, body: str, reply: str, rule: str, deviation: str = "") -> Rest:
    return Rest(
        id=id,
        rule=rule,
        target=f"/v1/models/{model}:predict",
        body=body,
        reply=reply,
        deviation=deviation,
    )


def bad(id: str, model: str, body: str, phrase: str, rule: str, deviation: str = "") -> Rest:
    return Rest(
        id=id,
        rule=rule,
        target=f"/v1/models/{model}:predict",
        body=body,
        code=400,
        phrase=phrase,
        deviation=deviation,
    )


TWO_OBJECTS = """{
    "predictions": [
        {
            "sum": 3.0,
            "twice": 4
        },
        {
            "sum": 7.0,
            "twice": 8
        }
    ]
}"""
TWO_COLUMNS = """{
    "outputs": {
        "sum": [
            3.0
        ],
        "twice": [
            4
        ]
    }
}"""
TEXTS = """{
    "predictions": [
        {
            "text": "hi",
            "text_bytes": {
                "b64": "aGk="
            }
        }
    ]
}"""
TEXT_COLUMNS = """{
    "outputs": {
        "text": [
            "hi"
        ],
        "text_bytes": [
            {
                "b64": "aGk="
            }
        ]
    }
}"""

ROW = "an element of instances is a row"

ROW_FORM = Section(
    "2.7 Row form",
    """\
`{"signature_name": "...", "instances": [...]}`: one element for each row of the batch, so every
input has the shape `[rows] + shape of an element`. An element is an object that names every input,
or, when there is one input only, its value. The first element decides which. A shape is taken from
the first element at each depth, and all others must agree.""",
    [
        ok("values", "plus/versions/1", rows("[1.0, 2.0, 5.0]"), predictions("2.5, 3.0, 4.5"), ROW),
        ok("objects", "float", rows('[{"x": 1}, {"x": 2}]'), predictions("1.0, 2.0"), ROW),
        ok("lists", "matrix", rows("[[1, 2], [3, 4]]"), predictions("[1.0, 2.0], [3.0, 4.0]"), ROW),
        ok("one row", "matrix", rows("[[1, 2]]"), predictions("[1.0, 2.0]"), ROW),
        ok(
            "deeper lists",
            "cube",
            rows("[[[1], [2]]]"),
            predictions("[[1.0], [2.0]]"),
            ROW,
        ),
        ok("empty rows", "cube", rows("[[[]], [[]]]"), predictions("[[]], [[]]"), ROW),
        ok(
            "two inputs, two outputs",
            "two",
            rows('[{"a": 1, "b": 2}, {"b": 4, "a": 3}]'),
            TWO_OBJECTS,
            "every input by name, every output by name",
        ),
        ok(
            "signature named",
            "float",
            '{"signature_name": "serving_default", "instances": [1]}',
            predictions("1.0"),
            "the signature",
        ),
        ok(
            "signature empty",
            "float",
            '{"signature_name": "", "instances": [1]}',
            predictions("1.0"),
            "an empty name is the default",
        ),
        ok("strings", "string", rows('["a", ""]'), predictions('"a", ""'), ROW),
        ok(
            "base64",
            "string",
            rows('[{"b64": "aGk="}, {"b64": "aGk"}]'),
            predictions('"hi", "hi"'),
            "padding is optional",
        ),
        ok(
            "text and base64",
            "string",
            rows('["a", {"b64": "aGk="}]'),
            predictions('"a", "hi"'),
            "a base64 object is a string",
        ),
        ok(
            "outputs called _bytes",
            "text",
            rows('["hi"]'),
            TEXTS,
            "a string output whose name ends in _bytes is base64",
        ),
        bad("no key", "float", "{}", "Missing 'inputs' or 'instances' key", "one of both"),
        bad(
            "both keys",
            "float",
            '{"instances": [1], "inputs": [1]}',
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
            "one of both",
        ),
        bad(
            "not a list", "float", rows("1"), "Expecting 'instances' to be an list/array", "a list"
        ),
        bad("an empty list", "float", rows("[]"), "No values in 'instances' array", "a list"),
        bad(
            "unknown signature",
            "float",
            '{"signature_name": "s", "instances": [1]}',
            'Serving signature name: \\"s\\" not found in signature def',
            "400 here, FAILED_PRECONDITION over gRPC",
        ),
        bad(
            "signature as a number",
            "float",
            '{"signature_name": 5, "instances": [1]}',
            "not formatted correctly. 'signature_name' key must be a string value.",
            "a string",
        ),
        bad(
            "values for two inputs",
            "two",
            rows("[1]"),
            "instances is a plain list, but expecting list of objects as multiple input tensors"
            " required as per tensorinfo_map",
            "every input by name",
        ),
        bad(
            "an object, then a value",
            "float",
            rows('[{"x": 1}, 2]'),
            "Expecting object but got list at item 1 of input list",
            "the first element decides",
        ),
        bad(
            "a value, then an object",
            "float",
            rows('[1, {"x": 2}]'),
            "Expecting value/list but got object at item 1 of input list",
            "the first element decides",
        ),
        bad(
            "a missing name",
            "two",
            rows('[{"a": 1}]'),
            "Failed to process element: 0 of 'instances' list. JSON object: ",
            "every input by name",
        ),
        bad(
            "a missing name, in full",
            "two",
            rows('[{"a": 1, "b": 1}, {"a": 1}]'),
            "keys must be equal to: a,b",
            "every input by name",
        ),
        bad(
            "an unknown name",
            "float",
            rows('[{"z": 1}]'),
            "Failed to process element: 0 key: z of 'instances' list. Error: INVALID_ARGUMENT:"
            " JSON object: does not have named input: z",
            "every input by name",
        ),
        bad(
            "a wrong value",
            "float",
            rows('[1, "a"]'),
            "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value:"
            ' \\"a\\" Type: String is not of expected type: float',
            "the error names the element",
        ),
        bad(
            "a wrong value by name",
            "two",
            rows('[{"a": "x", "b": 1}]'),
            "Failed to process element: 0 key: a of 'instances' list. Error: INVALID_ARGUMENT: ",
            "the error names the element and the key",
        ),
        bad(
            "rows of two sizes",
            "matrix",
            rows("[[1, 2], [3]]"),
            "Expecting tensor size: 2 but got: 1",
            "rows have one shape",
        ),
        bad(
            "rows of two shapes",
            "cube",
            rows("[[[1, 2]], [[1], [2]]]"),
            "Expecting shape [1,2] but got: [2,1]",
            "rows have one shape",
        ),
        bad(
            "a ragged row",
            "cube",
            rows("[[[1, 2], [3]]]"),
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
            "a row has one shape",
        ),
        bad(
            "a value where a list is due",
            "cube",
            rows("[[[1, 2], 3]]"),
            "found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
            "a row has one shape",
        ),
        bad(
            "a list where a value is due",
            "matrix",
            rows("[[1, [2]]]"),
            "Encountered list at unexpected level: 1 expected < 1",
            "a row has one shape",
        ),
        bad(
            "an output of rank 0",
            "sum",
            rows("[1, 2]"),
            "Tensor name: y has no shape information ",
            "every output has rows",
        ),
        bad(
            "outputs of two batch sizes",
            "uneven",
            rows("[1, 2]"),
            "has inconsistent batch size: ",
            "every output has as many rows",
        ),
    ],
)

COLUMN = "the value's nesting is the shape"

COLUMN_FORM = Section(
    "2.7 Column form",
    """\
`{"signature_name": "...", "inputs": ...}`: whole tensors, by name when there are several. A value's
own nesting is its shape. Names that are not inputs are ignored.""",
    [
        ok("a list", "float", columns("[1]"), outputs("[\n        1.0\n    ]"), COLUMN),
        ok(
            "a named list", "float", columns('{"x": [1]}'), outputs("[\n        1.0\n    ]"), COLUMN
        ),
        ok("an empty list", "float", columns("[]"), outputs("[]"), COLUMN),
        ok("a scalar", "scalar", columns("4"), outputs("4.0"), COLUMN),
        ok("a named scalar", "scalar", columns('{"x": 4}'), outputs("4.0"), COLUMN),
        ok("rank 0 out", "sum", columns("[1, 2]"), outputs("3.0"), "no output needs rows"),
        ok(
            "two inputs",
            "two",
            columns('{"a": [1], "b": [2]}'),
            TWO_COLUMNS,
            "every input by name, every output by name",
        ),
        ok(
            "an unknown name beside",
            "float",
            columns('{"x": [1], "z": [null]}'),
            outputs("[\n        1.0\n    ]"),
            "names that are not inputs are ignored",
        ),
        ok(
            "batch sizes that differ",
            "uneven",
            columns("[1]"),
            '{\n    "outputs": {\n        "once": [\n            1.0\n        ],\n'
            '        "twice": [\n            1.0,\n            1.0\n        ]\n    }\n}',
            "no output needs rows",
        ),
        ok(
            "base64",
            "string",
            columns('[{"b64": "aGk="}]'),
            outputs('[\n        "hi"\n    ]'),
            COLUMN,
        ),
        ok(
            "outputs called _bytes",
            "text",
            columns('["hi"]'),
            TEXT_COLUMNS,
            "a string output whose name ends in _bytes is base64",
        ),
        ok(
            "more than 200 numbers",
            "float",
            columns(f"[{', '.join(['0.1'] * 201)}]"),
            f'{{"outputs":[{",".join(["0.1"] * 201)}]}}',
            "one value a line",
            "Compact, with the shortest digits that read back as the same values, for speed.",
        ),
        bad(
            "a missing name",
            "two",
            columns('{"a": [1]}'),
            "Missing named input: b in 'inputs' object.",
            "every input by name",
        ),
        bad(
            "a misspelled name",
            "float",
            columns('{"X": [1]}'),
            "Missing named input: x in 'inputs' object.",
            "every input by name",
        ),
        bad(
            "a list for two inputs",
            "two",
            columns("[1]"),
            "inputs is a plain value/list, but expecting an object as multiple input tensors"
            " required as per tensorinfo_map",
            "every input by name",
        ),
        bad("null", "float", columns("null"), "Type: Null is not of expected type: float", COLUMN),
        bad(
            "a ragged list",
            "matrix",
            columns("[[1, 2], [3]]"),
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
            COLUMN,
        ),
        bad(
            "a list, then a value",
            "matrix",
            columns("[[1, 2], 3]"),
            "found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
            COLUMN,
        ),
        bad(
            "a value, then a list",
            "float",
            columns("[1, [2]]"),
            "Encountered list at unexpected level: 1 expected < 1",
            COLUMN,
        ),
        bad(
            "url-safe base64",
            "string",
            columns('[{"b64": "_-8="}]'),
            "Unable to base64 decode",
            "standard base64",
        ),
        bad(
            "no base64",
            "string",
            columns('[{"b64": "a"}]'),
            "Unable to base64 decode",
            "standard base64",
        ),
        bad(
            "base64 as a number",
            "string",
            columns('[{"b64": 1}]'),
            "not formatted correctly for base64 data",
            "exactly one key b64, with a string",
        ),
        bad(
            "an object with another key",
            "string",
            rows('[["a", {"c": "aGk="}]]'),
            "not formatted correctly for base64 data",
            "exactly one key b64, with a string",
        ),
    ],
)

SECTIONS = (ROW_FORM, COLUMN_FORM)
