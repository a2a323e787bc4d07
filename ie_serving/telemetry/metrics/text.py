"""The text form of Prometheus, version 0.0.4: families of samples."""

from collections.abc import Iterable, Iterator, Mapping

CONTENT_TYPE = "text/plain"
"""As in TensorFlow Serving."""


def family(name: str, kind: str, meaning: str, samples: Iterable[str]) -> Iterator[str]:
    """Yield a family with what it means; nothing where it has no samples.

    Args:
        name: of the metric.
        kind: `counter`, `gauge` or `histogram`.
        meaning: one line for whoever reads the page.
        samples: their lines.
    """
    # Not as a list: of a thousand models it is more than the event loop can make in one go.
    for number, line in enumerate(samples):
        if not number:
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
        yield line


def counters(
    name: str, meaning: str, label: str, found: Iterable[tuple[str, Mapping[str, int]]]
) -> Iterator[str]:
    """Yield a family of counters that one label tells apart.

    Args:
        name: of the metric.
        meaning: one line for whoever reads the page.
        label: its name; its values are the server's own words, which need no escape.
        found: what the samples have in common besides, as `written` gives it, and their numbers by
            the value of `label`.
    """
    samples = (
        f'{name}{{{common},{label}="{value}"}} {number}'
        for common, numbers in found
        # What is counted may change between two lines of the page.
        for value, number in list(numbers.items())
    )
    yield from family(name, "counter", meaning, samples)


def sample(name: str, value: float, /, **labels: str) -> str:
    """Write one sample."""
    return f"{name}{{{written(**labels)}}} {value:.15g}" if labels else f"{name} {value:.15g}"


def written(**labels: str) -> str:
    """Write labels."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())


def escape(value: str) -> str:
    """Escape a label value. TF Serving leaves newlines, which breaks the page; they are escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
