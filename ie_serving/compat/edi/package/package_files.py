"""A package of IBM EDI: `kernel.py` with `model.json`, and what its kernel is told of it.

The kernel sees a directory of its own with links to the package: some samples write into theirs,
and delete it at the end.
"""

import datetime
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.python.context import LoadContext

DESCRIPTION: Final = "model.json"
KERNEL: Final = "kernel.py"
KERNEL_PATH: Final = "kernel_path"
"""Key by which a `model.json` is EDI's: other libraries write files of this name as well."""
ROUTE: Final = "/dlim/v1/inference/"


def described(directory: Path) -> Mapping[str, Any] | None:
    """Read the description of a package; None where the directory holds none.

    Raises:
        LoadFailed: `model.json` cannot be read.
    """
    file = directory / DESCRIPTION
    if not file.is_file():
        return None
    try:
        found = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise LoadFailed(f"{DESCRIPTION} cannot be read: {error.strerror}") from error
    except ValueError:  # some other library's
        return None
    return found if isinstance(found, Mapping) and KERNEL_PATH in found else None


def kernel_file(description: Mapping[str, Any]) -> str:
    """Name the kernel's file, relative to the package.

    Raises:
        LoadFailed: it would lie elsewhere.
    """
    given = description[KERNEL_PATH]
    path = Path(str(given))
    if not isinstance(given, str) or path.is_absolute() or ".." in path.parts:
        raise LoadFailed(
            f"{DESCRIPTION}: {KERNEL_PATH} is {given!r}; expected a file of the package, such as"
            f' "{KERNEL}"'
        )
    return str(path)


def linked(directory: Path, ctx: LoadContext) -> Path:
    """Make the directory that the kernel sees."""
    made = ctx.scratch_dir / (ctx.name or directory.name).replace("/", "_")
    made.mkdir()
    for each in directory.iterdir():
        (made / each.name).symlink_to(each.resolve())
    return made


def environment(
    description: Mapping[str, Any], package: Path, ctx: LoadContext
) -> Mapping[str, str]:
    """Give the variables of the kernel's environment.

    Raises:
        LoadFailed: `mk_environments` is no list of names with values.
    """
    given = description.get("mk_environments") or []
    try:
        own = {str(each["name"]): str(each["value"]) for each in given}
    except (TypeError, KeyError):
        raise LoadFailed(
            f'{DESCRIPTION}: mk_environments is {given!r}; expected a list of {{"name", "value"}}'
        ) from None
    return {**own, "REDHARE_MODEL_PATH": str(package), "REDHARE_MODEL_NAME": ctx.name}


def description_text(
    description: Mapping[str, Any], directory: Path, package: Path, ctx: LoadContext
) -> str:
    """Write the description as a kernel reads it: the file's, and what EDI adds at a start."""
    now = datetime.datetime.now(datetime.timezone.utc)
    files = [each.stat() for each in directory.rglob("*") if each.is_file()]
    changed = datetime.datetime.fromtimestamp(
        max((each.st_mtime for each in files), default=0.0), datetime.timezone.utc
    )
    added = {
        "uid": str(uuid.uuid4()),
        "size": sum(each.st_size for each in files),
        "create_time": changed.isoformat(timespec="seconds"),
        "last_updated_time": changed.isoformat(timespec="seconds"),
        "started_at": now.isoformat(timespec="seconds"),
        "creator": "ie_serving",
        "service_uri": f"{ROUTE}{ctx.name}",
        "model_path": str(package),
    }
    return json.dumps({**description, **added})
