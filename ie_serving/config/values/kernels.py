"""Where a kernel stands: `FILE[:NAME]`."""

from pathlib import PurePosixPath

from ie_serving.config.values.faults import fault
from ie_serving.engines.kernels import Place


def place(value: object, where: str) -> Place:
    """Read a file of Python, and what of it is the kernel."""
    given = value.strip() if isinstance(value, str) else ""
    file, _, name = given.partition(":")
    path = PurePosixPath(file)
    if path.suffix != ".py" or ".." in path.parts or (":" in given and not name.isidentifier()):
        raise fault(where, value, "FILE.py or FILE.py:NAME, NAME a class, function or object in it")
    return Place(file=file, name=name)
