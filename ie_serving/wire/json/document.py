"""One parsed document, from either parser: simdjson's lazy objects or Python values.

simdjson parses first, since it is fastest. `rapidjson/document.py` parses documents that simdjson
refuses: it reads TensorFlow Serving's dialect and has the texts of its errors. Of equal keys the
first one counts: at the top level, among inputs and among features.
"""

import simdjson

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.json.buffers import Lazy, parse_strictly
from ie_serving.wire.json.rapidjson.document import JsonValue, parse_document
from ie_serving.wire.json.rapidjson.printing import clean, show

SIGNATURE_NAME = "signature_name"


def parse_object(body: bytes) -> Lazy:
    """Parse to simdjson's object or to a dict, which look up keys in the same way.

    Raises:
        InvalidRequest: no JSON, or no object.
    """
    return object_of(parse_strictly(body), body)


def object_of(document: Lazy, body: bytes) -> Lazy:
    """Give the object of `body`; `document` is the result of `parse_strictly`, or None.

    Raises:
        InvalidRequest: invalid JSON, or no object.
    """
    # The error must be RapidJSON's, with its offset, and the dialect may take unstrict JSON.
    if document is None:
        document = parse_document(body)
    if type(document) is not simdjson.Object and not isinstance(document, dict):
        raise InvalidRequest(f"JSON Value: {show(plain(document))} Is not object")
    return document


def signature_name_of(document: Lazy) -> str:
    """Read `signature_name`, which the document has.

    Raises:
        InvalidRequest: it is not a string.
    """
    name = document[SIGNATURE_NAME]
    if not isinstance(name, str):
        raise InvalidRequest(
            f"JSON Value: {show(plain(document))} not formatted correctly. 'signature_name' key"
            " must be a string value."
        )
    return clean(name)


# The levels bound the walk in Python to where equal keys may matter: rows, and their members. Below
# lie the arrays, which simdjson converts at once.
def plain(value: Lazy, levels: int = 3) -> JsonValue:
    """Turn simdjson's values into Python's.

    Of equal keys the first one counts where an object is `value` itself, or is in up to `levels`
    lists around it. In objects within objects simdjson lets the last one count: read those by their
    key.
    """
    if isinstance(value, simdjson.Object):
        members: dict[str, JsonValue] = {}
        for name, member in value.items():  # a look-up would stop at a zero byte in the name
            if name not in members:
                members[name] = plain(member, levels - 1)
        return members
    if not isinstance(value, simdjson.Array):
        return value
    if levels and len(value) and isinstance(value[0], simdjson.Object):
        return [plain(element, levels - 1) for element in value]
    return value.as_list()
