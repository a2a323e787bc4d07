"""Classify and Regress over REST."""

from tests.functional.conformance.case import Rest, Section


def rest(
    id: str, verb: str, body: str, rule: str, reply: str | None = None, phrase: str = ""
) -> Rest:
    return Rest(
        id=f"{verb}: {id}",
        rule=rule,
        target=f"/v1/models/scored:{verb}",
        body=body,
        code=400 if reply is None else 200,
        reply=reply,
        phrase=phrase,
    )


def body(signature: str, examples: str, context: str = "") -> str:
    middle = f'"context": {context}, ' if context else ""
    return f'{{"signature_name": "{signature}", {middle}"examples": {examples}}}'


def results(text: str) -> str:
    return f'{{\n    "results": [{text}\n    ]\n}}'


def values_reply(text: str) -> str:
    return f'{{\n    "results": [{text}]\n}}'


OVER_REST = Section(
    "2.9 Classify and Regress over REST",
    """\
`{"signature_name": "...", "context": {...}, "examples": [{...}, ...]}`: an example is an object of
features, a feature is a value or a list. Integers become an int64_list (`true` and `false` 1 and
0), other numbers a float_list, strings and base64 objects a bytes_list; one feature holds one
kind. The reply's key is `results`.""",
    [
        rest(
            "one example",
            "classify",
            body("classify", '[{"points": [0.25, 0.75]}]'),
            "pairs of label and score",
            results('[["left", 0.25], ["right", 0.75]]'),
        ),
        rest(
            "two examples",
            "classify",
            body("classify", '[{"points": [0.25, 0.75]}, {"points": [1.0, 0.0]}]'),
            "a list for each example",
            results('[["left", 0.25], ["right", 0.75]], [["left", 1.0], ["right", 0.0]]'),
        ),
        rest(
            "no labels",
            "classify",
            body("unlabelled", '[{"x": [1.5, 2.0]}]'),
            "no classes: empty labels",
            results('[["", 1.5], ["", 2.0]]'),
        ),
        rest(
            "context",
            "classify",
            body("classify", '[{}, {"points": [1.0, 0.0]}]', '{"points": [0.25, 0.75]}'),
            "the context fills what an example lacks",
            results('[["left", 0.25], ["right", 0.75]], [["left", 1.0], ["right", 0.0]]'),
        ),
        rest(
            "two examples",
            "regress",
            body("regress", '[{"x": [1.5, 2.0]}, {"x": [3.0, 4.0]}]'),
            "a value for each example",
            values_reply("3.5, 7.0"),
        ),
        rest(
            "integers",
            "regress",
            body("regress", '[{"x": [1, 2]}]'),
            "integers are an int64_list",
            values_reply("3.0"),
        ),
        rest(
            "booleans with integers",
            "regress",
            body("regress", '[{"x": [true, 2]}]'),
            "true and false are 1 and 0",
            values_reply("3.0"),
        ),
        *(
            rest(what, verb, sent, rule, phrase=phrase)
            for what, verb, sent, rule, phrase in (
                ("no examples", "classify", "{}", "required", "key 'examples' is expected and was"),
                ("no examples", "regress", "{}", "required", "key 'examples' is expected and was"),
                (
                    "not a list",
                    "classify",
                    '{"examples": {}}',
                    "a list",
                    "Expecting 'examples' value to be an list/array",
                ),
                (
                    "an empty list",
                    "regress",
                    '{"examples": []}',
                    "an example at least",
                    "'examples' value is an empty array",
                ),
                (
                    "a number",
                    "regress",
                    '{"examples": [1]}',
                    "an example is an object",
                    "Example must be JSON object but got JSON Number",
                ),
                (
                    "a context that is a list",
                    "regress",
                    '{"context": [], "examples": [{}]}',
                    "a context is an object",
                    "Example must be JSON object but got JSON Array",
                ),
                (
                    "null",
                    "regress",
                    '{"examples": [{"x": [null]}]}',
                    "kinds of values",
                    "Feature: x has element with unexpected JSON type: Null",
                ),
                (
                    "an object",
                    "regress",
                    '{"examples": [{"x": [{"a": 1}]}]}',
                    "kinds of values",
                    "Feature: x has element with unexpected JSON type: Object",
                ),
                (
                    "a list in a list",
                    "regress",
                    '{"examples": [{"x": [[1]]}]}',
                    "kinds of values",
                    "Feature: x has element with unexpected JSON type: Array",
                ),
                (
                    "integers, then floats",
                    "regress",
                    '{"examples": [{"x": [10, 10.0]}]}',
                    "one kind in a feature",
                    "Unexpected element type in feature: x expecting type: int64",
                ),
                (
                    "floats, then strings",
                    "regress",
                    '{"examples": [{"x": [1.0, "a"]}]}',
                    "one kind in a feature",
                    "Unexpected element type in feature: x expecting type: float",
                ),
                (
                    "strings, then integers",
                    "regress",
                    '{"examples": [{"x": ["a", 1]}]}',
                    "one kind in a feature",
                    "Unexpected element type in feature: x expecting type: bytes",
                ),
                (
                    "beyond int64",
                    "regress",
                    '{"examples": [{"x": [18446744073709551615]}]}',
                    "int64",
                    "Feature: x has uint64_t element. Only int64_t is supported.",
                ),
                (
                    "unknown signature",
                    "classify",
                    body("other", '[{"x": [1.0, 2.0]}]'),
                    "400",
                    "No signature was found with the name: other",
                ),
                (
                    "two values for each example",
                    "regress",
                    body("wide", '[{"x": [1.0, 2.0]}]'),
                    "one value for each example",
                    "Expected output Tensor shape to be either [batch_size] or [batch_size, 1]",
                ),
                ("not JSON", "classify", "{", "JSON first", "Missing a name for object member."),
            )
        ),
        Rest(
            id="regress: examples before model",
            rule="the whole body is parsed before the model is looked up",
            target="/v1/models/absent:regress",
            body='{"examples": [1]}',
            code=400,
            phrase="Example must be JSON object but got JSON Number",
        ),
        Rest(
            id="classify: unknown model",
            rule="no such servable",
            target="/v1/models/absent:classify",
            body='{"examples": [{"x": 1}]}',
            code=404,
            phrase="Servable not found for request: Latest(absent)",
        ),
    ],
)


SECTIONS = (OVER_REST,)
