"""JSON as TensorFlow Serving reads it."""

from tests.functional.conformance.case import Rest, Section

PLUS = "/v1/models/plus/versions/1:predict"


def read(id: str, body: str | bytes, numbers: str, model: str = "float") -> Rest:
    """A body that is taken; `numbers` is what the reply's list holds."""
    return Rest(
        id=id,
        rule="taken",
        target=f"/v1/models/{model}:predict",
        body=body,
        reply=f'{{\n    "predictions": [{numbers}\n    ]\n}}',
    )


def refused(id: str, body: str | bytes, fault: str) -> Rest:
    return Rest(
        id=id,
        rule="refused",
        target="/v1/models/float:predict",
        body=body,
        code=400,
        phrase=fault if fault.startswith("JSON Value") else f"JSON Parse error: {fault}",
    )


def spelled(value: str) -> str:
    return f'{{"instances": [{value}]}}'


DIALECT = Section(
    "2.6 The JSON dialect",
    """\
Beyond the standard, requests may hold `NaN`, `Inf` and `Infinity`, a byte order mark, bytes that
are not UTF-8 in strings, and anything after the first complete value. A number without point and
exponent is an integer. Of equal keys the first counts. Everything else is refused with the offset
in bytes of the fault.""",
    [
        read("NaN", spelled("NaN"), "NaN"),
        read("-NaN", spelled("-NaN"), "NaN"),
        read("Infinity", spelled("Infinity, -Infinity"), "Infinity, -Infinity"),
        read("Inf", spelled("Inf, -Inf"), "Infinity, -Infinity"),
        read("an integer for a float", spelled("3"), "3.0"),
        read("an exponent", spelled("1e2, 1E-2, 1e+2"), "100.0, 0.01, 100.0"),
        read("minus zero", spelled("-0.0"), "-0.0"),
        read("minus zero as an integer", spelled("-0"), "0.0"),
        read("a large integer", spelled("18446744073709551616"), "1.84467441e+19"),
        read("beyond float", spelled("1e39, -1e39"), "Infinity, -Infinity"),
        read("smaller than float", spelled("1e-50"), "0.0"),
        read("smaller than double", spelled("1e-400"), "0.0"),
        read("white space", ' \n\t\r{ "instances" : [ 1 ,\n2 ] } ', "1.0, 2.0"),
        read("byte order mark", b"\xef\xbb\xbf" + spelled("1").encode(), "1.0"),
        read("text after the value", spelled("1") + "garbage", "1.0"),
        read("brace after the value", spelled("1") + "}", "1.0"),
        read("a second value", spelled("1") + spelled("2"), "1.0"),
        read("equal keys", '{"instances": [1], "instances": [2]}', "1.0"),
        read("unknown keys", '{"other": {"a": [null, true]}, "instances": [1]}', "1.0"),
        read("an escaped key", '{"\\u0069nstances": [1]}', "1.0"),
        read("escapes", spelled(r'"\"\\\/\b\f\n\r\t"'), r'"\"\\/\b\f\n\r\t"', "string"),
        read("a surrogate pair", spelled(r'"\ud83d\ude00"'), '"😀"', "string"),
        read("a zero", spelled(r'"a\u0000b"'), r'"a\u0000b"', "string"),
        read("UTF-8", spelled('"é/€"'), '"é/€"', "string"),
        refused("empty", "", "The document is empty"),
        refused("a space", " ", "The document is empty. at offset: 1"),
        refused("closing brace", "}", "The document is empty. at offset: 0"),
        refused("not JSON", "instances = [1, 2]", "Invalid value. at offset: 0"),
        refused("a brace", "{", "Missing a name for object member. at offset: 1"),
        refused(
            "comma before the brace", '{"a":1,}', "Missing a name for object member. at offset: 7"
        ),
        refused("comma before the bracket", '{"a":[1,2,]}', "Invalid value. at offset: 10"),
        refused(
            "no colon",
            '{"a" 1}',
            "Missing a colon after a name of object member. at offset: 5",
        ),
        refused(
            "no comma in an object",
            '{"a":1 "b":2}',
            "Missing a comma or '}' after an object member. at offset: 7",
        ),
        refused(
            "no comma in a list",
            '{"a":[1 2]}',
            "Missing a comma or ']' after an array element. at offset: 8",
        ),
        refused("a point alone", '{"a":1.}', "Miss fraction part in number. at offset: 7"),
        refused("an exponent alone", '{"a":1e}', "Miss exponent in number. at offset: 7"),
        refused("too big", '{"a":1E400}', "Number too big to be stored in double. at offset: 5"),
        refused(
            "an open string",
            '{"a":"unterminated',
            "Missing a closing quotation mark in string. at offset: 18",
        ),
        refused("single quotes", "{'a':1}", "Missing a name for object member. at offset: 1"),
        refused("a bare key", "{a:1}", "Missing a name for object member. at offset: 1"),
        refused("a comment", '{"a":/**/1}', "Invalid value. at offset: 5"),
        refused("nan", '{"a":nan}', "Invalid value."),
        refused("inf", '{"a":inf}', "Invalid value."),
        refused("True", '{"a":True}', "Invalid value."),
        refused("None", '{"a":None}', "Invalid value."),
        refused("a leading zero", '{"a":01}', "Missing a comma or '}' after an object member."),
        refused("a leading point", '{"a":.5}', "Invalid value. at offset: 5"),
        refused("a leading plus", '{"a":+1}', "Invalid value. at offset: 5"),
        refused("hexadecimal", '{"a":0x1}', "Missing a comma or '}' after an object member."),
        refused("half a surrogate pair", r'{"a":"\ud83d"}', "The surrogate pair in string is"),
        refused("a wrong escape", r'{"a":"\q"}', "Invalid escape character in string."),
        refused("a wrong digit", r'{"a":"\u00g0"}', "Incorrect hex digit after \\\\u escape"),
        refused("a control character", b'{"a":"\x01"}', "Invalid escape character in string."),
        refused("a list", "[1]", "JSON Value: [1] Is not object"),
        refused("a number", "1", "JSON Value: 1 Is not object"),
        refused("a string", '"x"', 'JSON Value: \\"x\\" Is not object'),
        refused("null", "null", "JSON Value: null Is not object"),
        refused("true", "true", "JSON Value: true Is not object"),
    ],
)

SECTIONS = (DIALECT,)
