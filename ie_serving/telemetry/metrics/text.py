"""Writes the text format of Prometheus, version 0.0.4: families of samples."""

from collections.abc import Collection, Iterable, Iterator, Mapping

CONTENT_TYPE = "text/plain"
"""As in TensorFlow Serving."""


def family(name: str, kind: str, meaning: str, samples: Iterable[str]) -> Iterator[str]:
    """Yield a family with its meaning; nothing if it has no samples.

    Args:
        name: of the metric.
        kind: `counter`, `gauge` or `histogram`.
        meaning: one line for readers of the page.
        samples: their lines.
    """
    # Not collected into a list: of a thousand models that would block the event loop too long.
    for number, line in enumerate(samples):
        if not number:
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
        yield line


def counters(
    name: str, meaning: str, label: str, found: Iterable[tuple[str, Mapping[str, int]]]
) -> Iterator[str]:
    """Yield a family of counters that differ in one label.

    Args:
        name: of the metric.
        meaning: one line for readers of the page.
        label: its name; its values are the server's own words, which need no escape.
        found: the samples' other labels, as `written` returns them, and their numbers by the value
            of `label`.
    """
    samples = (
        f'{name}{{{common},{label}="{value}"}} {number}'
        for common, numbers in found
        # Counts may change between two lines of the page.
        for value, number in list(numbers.items())
    )
    yield from family(name, "counter", meaning, samples)


def sample(name: str, value: float, /, **labels: str) -> str:
    """Write one sample."""
    return f"{name}{{{written(**labels)}}} {value:.15g}" if labels else f"{name} {value:.15g}"


def written(**labels: str) -> str:
    """Write labels."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def chosen(page: bytes, families: Collection[str]) -> bytes:
    """Return the lines of the families whose names begin with one of `families`."""
    begins = tuple(each.encode() for each in families)
    lines = page.splitlines(keepends=True)
    return b"".join(line for line in lines if _name(line).startswith(begins))


def _name(line: bytes) -> bytes:
    return line[len(b"# TYPE ") :] if line.startswith(b"# ") else line


def escape(value: str) -> str:
    """Escape a label value. TF Serving leaves newlines, which break its page; we escape them."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
