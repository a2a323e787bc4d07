"""Whether a file of UBJSON is whole, as far as its lengths say it.

XGBoost reads on behind the end of a file that was cut: it may take minutes and all memory to find
out. Source: the UBJSON specification, draft 12; big-endian, as XGBoost writes it.
"""

from ie_serving.core.values.errors import LoadFailed

SIZES = {
    **dict.fromkeys(b"ZNTF", 0),
    **dict.fromkeys(b"iUC", 1),
    **dict.fromkeys(b"I", 2),
    **dict.fromkeys(b"ld", 4),
    **dict.fromkeys(b"LD", 8),
}
"""Bytes of a value by its marker."""
INTEGERS = b"iUIlL"


def check_whole(content: bytes, file: str) -> None:
    """Refuse what ends before its lengths say so. Raises: LoadFailed."""
    try:
        end = _UbjsonReader(content).value(0)
    except (IndexError, ValueError, RecursionError) as error:
        raise LoadFailed(f"{file} is damaged or was cut: {error or 'nested too deeply'}") from error
    if end != len(content):
        raise LoadFailed(f"{file} is damaged: {len(content) - end} bytes follow its end")


class _UbjsonReader:
    """Finds where each value ends. Raises: IndexError, ValueError."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def value(self, at: int) -> int:
        """Give the end of the value whose marker is at `at`."""
        marker = self._content[at]
        if marker in SIZES:
            return self._within(at + 1 + SIZES[marker])
        if marker in b"SH":
            return self._text(at + 1)
        if marker in b"[{":
            return self._container(at + 1, keys=marker == ord("{"))
        raise ValueError(f"no value begins at byte {at}")

    def _container(self, at: int, *, keys: bool) -> int:
        kind = self._content[at + 1] if self._content[at] == ord("$") else None
        at += 0 if kind is None else 2
        if self._content[at] == ord("#"):
            count, at = self._integer(at + 1)
            # Arrays of one type hold nearly all of a model: they are passed over in one step.
            if kind in SIZES and not keys:
                return self._within(at + count * SIZES[kind])
            for _ in range(count):
                at = self.value(self._text(at) if keys else at)
            return at
        close = ord("}" if keys else "]")
        while self._content[at] != close:
            at = self.value(self._text(at) if keys else at)
        return at + 1

    def _text(self, at: int) -> int:
        length, start = self._integer(at)
        return self._within(start + length)

    def _integer(self, at: int) -> tuple[int, int]:
        marker = self._content[at]
        if marker not in INTEGERS:
            raise ValueError(f"no length at byte {at}")
        end = self._within(at + 1 + SIZES[marker])
        number = int.from_bytes(self._content[at + 1 : end], "big", signed=marker != ord("U"))
        if number < 0:
            raise ValueError(f"a length below 0 at byte {at}")
        return number, end

    def _within(self, end: int) -> int:
        if end > len(self._content):
            raise ValueError(f"{end - len(self._content)} bytes are missing at its end")
        return end
