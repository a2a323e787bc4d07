"""Messages that are written field by field: what no generated class would write."""

from ie_serving.wire.protobuf.fields import delimited


def nested(*numbers: int, content: bytes) -> bytes:
    """Write content as the field of a field; the outermost number comes first."""
    for number in reversed(numbers):
        content = delimited(number, content)
    return content
