"""Counts the messages within a request before protobuf makes them.

protobuf holds the interpreter lock while it parses, so the event loop stops, in whichever thread
the parsing runs. An empty nested message takes two bytes on the wire, and protobuf some 50 ns and
100 bytes of memory for each: 100 MB of them cost seconds and gigabytes. The walk here takes about
ten times as long, but releases the lock every millisecond, and stops at the limit.

The walk counts everything that protobuf accepts: also values of ten bytes, and groups, which
protobuf skips. It does not report malformed bytes: the walk of such a message ends there, as
protobuf's parsing does; messages before are counted, since protobuf would make them first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.wire.protobuf.fields import (
    DELIMITED,
    GROUP,
    GROUP_END,
    LEAST_TAG,
    VARINT,
    Encoded,
    UnusualField,
    extent,
    read_varint,
)

COUNTED: Final = 256 << 10
"""Bytes of a request from which its messages are counted. Below, whatever it holds is parsed within
10 ms, and takes 13 MB."""
PARSED: Final = 100
"""Bytes of memory that protobuf takes for a message, without its content."""
MOST_MESSAGES: Final = 2 << 20
"""Messages that one request may hold: Examples, their features and lists, models, tasks, tensors.
They are parsed within about 100 ms."""
MOST_FIELDS: Final = 2 * MOST_MESSAGES
"""Fields that are looked at. Lists of numbers are packed by every client, and then are one each."""

_DEEPER: Final = {GROUP: 1, GROUP_END: -1}
_TYPE_MESSAGE: Final = 11
"""`FieldDescriptor.TYPE_MESSAGE`."""


def check_count(
    payload: memoryview,
    descriptor: Any,  # noqa: ANN401  of the private pool
    messages: int = MOST_MESSAGES,
    fields: int = MOST_FIELDS,
) -> int:
    """Count the messages of a request, and refuse it when it holds too many.

    Args:
        payload: payload of the request.
        descriptor: descriptor of its message.
        messages: most messages in it, at any depth.
        fields: most fields in it.

    Raises:
        InvalidRequest: it holds more.
    """
    return _check([payload], descriptor, messages, fields)


def check_sum(payloads: Sequence[bytes], descriptor: Any) -> None:  # noqa: ANN401
    """Refuse serialized messages of one request that are large and hold too many together.

    Raises:
        InvalidRequest: they hold more than one request may hold.
    """
    if sum(map(len, payloads)) >= COUNTED:
        _check(payloads, descriptor, MOST_MESSAGES, MOST_FIELDS)


def _check(payloads: Iterable[Encoded], descriptor: Any, messages: int, fields: int) -> int:  # noqa: ANN401
    left = _RemainingCounts(messages, fields)
    try:
        for payload in payloads:
            _count(memoryview(payload), descriptor, left)
    except _TooManyMessages:
        raise InvalidRequest(
            f"the request holds more than {messages} messages (Examples, features, models, tasks,"
            f" tensors) or {fields} fields: send it in parts"
        ) from None
    return messages - left.messages


def _count(payload: memoryview, descriptor: Any, left: "_RemainingCounts") -> None:  # noqa: ANN401
    pending = [(0, len(payload), descriptor)]
    while pending:
        start, stop, kind = pending.pop()
        try:
            _walk(payload[start:stop], start, _messages_of(kind), left, pending)
        except (UnusualField, IndexError):
            continue  # with the other pending messages


class _TooManyMessages(Exception):
    """The bound is reached."""


@dataclass(slots=True)
class _RemainingCounts:
    """How many messages and fields may still come."""

    messages: int
    fields: int


def _walk(
    view: memoryview,
    start: int,
    inner: dict[int, Any],
    left: _RemainingCounts,
    pending: list[tuple[int, int, Any]],
) -> None:
    """Walk the fields of one message, and put those that hold messages into `pending`.

    None of our messages has a group, so protobuf keeps a group as unknown bytes: its fields are
    walked, and hold no messages.
    """
    at, stop, depth = 0, len(view), 0
    while at < stop:
        left.fields -= 1
        tag, value = view[at], at + 1
        if tag >= 0x80:
            tag, value = read_varint(view, at)
        # The usual fields, short ones, without the calls.
        if tag & 7 == DELIMITED and view[value] < 0x80:
            value, after = value + 1, value + 1 + view[value]
        elif tag & 7 == VARINT and view[value] < 0x80:
            after = value + 1
        elif tag & 7 in _DEEPER:
            after, depth = value, depth + _DEEPER[tag & 7]
        else:
            value, after = extent(view, tag & 7, value)
        if after > stop or tag < LEAST_TAG or depth < 0:
            raise UnusualField
        if tag & 7 == DELIMITED and tag >> 3 in inner and not depth:
            left.messages -= 1
            if after > value:
                pending.append((start + value, start + after, inner[tag >> 3]))
        if left.messages < 0 or left.fields < 0:
            raise _TooManyMessages
        at = after


def _messages_of(kind: Any) -> dict[int, Any]:  # noqa: ANN401
    """Give the fields of a message that hold messages, by number; remembered for each type."""
    known = _INNER.get(kind.full_name)
    if known is None:
        known = _INNER[kind.full_name] = {
            field.number: field.message_type for field in kind.fields if field.type == _TYPE_MESSAGE
        }
    return known


_INNER: Final[dict[str, dict[int, Any]]] = {}
