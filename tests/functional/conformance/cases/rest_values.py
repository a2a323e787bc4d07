"""Values in JSON by dtype, and how numbers are written."""

from tests.functional.conformance.case import Rest, Section
from tests.functional.conformance.cases.rest_predict import bad, ok, predictions, rows

FORMS = "FP16, BF16 and UINT16 are read and written as numbers."
RANGE = "A number outside of an 8 or 16 bit integer's range is refused instead of wrapped."


def kinds(dtype: str, given: str, reply: str, deviation: str = "") -> Rest:
    return ok(
        f"{dtype}: {given}", dtype, rows(f"[{given}]"), predictions(reply), "taken", deviation
    )


def wrong(dtype: str, given: str, kind: str, deviation: str = "") -> Rest:
    return bad(
        f"{dtype}: {given}",
        dtype,
        rows(f"[{given}]"),
        f"Type: {kind} is not of expected type: {dtype}",
        "refused",
        deviation,
    )


DOUBLES = "OpenVINO's CPU plugin computes FP64 in FP32."
NARROW = "OpenVINO's CPU plugin computes 64-bit integers in 32 bits; what does not fit is refused."

VALUES = Section(
    "2.7, 2.8 Values by dtype, and the formats of numbers",
    """\
Floats take any number, integers take integers without point or exponent, DT_BOOL takes `true` and
`false`, DT_STRING takes strings and base64 objects, and nothing takes `null`. A float is written as
`%.6g` if that reads back as the same value, else as `%.9g` (`%.17g` for DT_DOUBLE), with `.0` added
where there is neither point nor exponent.""",
    [
        kinds("float", "1, 2.5, 0.5", "1.0, 2.5, 0.5"),
        kinds("float", "9000000, 999999, 1234567", "9e+06, 999999.0, 1234567.0"),
        kinds("float", "0.00003, 0.0003, 555557.5", "3e-05, 0.0003, 555557.5"),
        kinds("float", "0.3333333333, -0.0", "0.333333343, -0.0"),
        kinds("float", "3.4028234663852886e38", "3.40282347e+38"),
        kinds("float", "16777217", "16777216.0"),
        kinds("float", "1e-45", "1.4013e-45"),
        wrong("float", '"1"', "String"),
        wrong("float", "true", "True"),
        wrong("float", "null", "Null"),
        kinds("double", "0.5, 1e30, 2, NaN", "0.5, 1.0000000150474662e+30, 2.0, NaN", DOUBLES),
        kinds("double", "0.25, 1234567, 1e-5", "0.25, 1234567.0, 9.9999997473787516e-06", DOUBLES),
        kinds("double", "0.3333333333333333", "0.3333333432674408", DOUBLES),
        wrong("double", "false", "False"),
        kinds("half", "1.5, 65504, 0.1", "1.5, 65504.0, 0.0999756", FORMS),
        kinds("bfloat16", "1.5, -2", "1.5, -2.0", FORMS),
        kinds("uint16", "0, 65535", "0, 65535", FORMS),
        kinds("int8", "-128, 127", "-128, 127"),
        kinds("int16", "-32768, 32767", "-32768, 32767"),
        kinds("int32", "-2147483648, 2147483647", "-2147483648, 2147483647"),
        kinds("int64", "-2147483648, 2147483647", "-2147483648, 2147483647"),
        bad(
            "int64: 9223372036854775807",
            "int64",
            rows("[9223372036854775807]"),
            "holds 9223372036854775807; this model computes int64 in 32 bits",
            "taken",
            NARROW,
        ),
        bad(
            "uint32: 4294967295",
            "uint32",
            rows("[4294967295]"),
            "holds 4294967295; this model computes uint32 in 32 bits",
            "taken",
            NARROW,
        ),
        kinds("uint8", "0, 255", "0, 255"),
        kinds("uint32", "0, 2147483647", "0, 2147483647"),
        kinds("uint64", "0, 2147483647", "0, 2147483647"),
        wrong("int32", "1.0", "Number"),
        wrong("int32", "1e2", "Number"),
        wrong("int32", "2147483648", "Number"),
        wrong("int32", "true", "True"),
        wrong("int32", '"1"', "String"),
        wrong("int64", "9223372036854775808", "Number"),
        wrong("int64", "1.5", "Number"),
        wrong("uint32", "-1", "Number"),
        wrong("uint64", "-1", "Number"),
        wrong("int8", "128", "Number", RANGE),
        wrong("uint8", "256", "Number", RANGE),
        wrong("int16", "32768", "Number", RANGE),
        kinds("bool", "true, false", "true, false"),
        wrong("bool", "1", "Number"),
        wrong("bool", '"true"', "String"),
        wrong("string", "1", "Number"),
        wrong("string", "null", "Null"),
        wrong("string", "true", "True"),
    ],
)

SECTIONS = (VALUES,)
