"""A package of IBM EDI: a kernel with `model.json`, and the part of it that the kernel gets.

The kernel sees a copy of the package: a deployment of its own, into which some samples write, and
which some delete at the end.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.python.context import LoadContext

DESCRIPTION: Final = "model.json"
KERNEL_PATH: Final = "kernel_path"
"""Key by which a `model.json` is EDI's: other libraries write files of this name as well."""
ROUTE: Final = "/dlim/v1/inference/"
CREATOR: Final = "ie_serving"


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


def kernel_file(directory: Path, description: Mapping[str, Any]) -> str:
    """Name the kernel's file, relative to the package.

    Raises:
        LoadFailed: it lies elsewhere, or is not there.
    """
    given = description[KERNEL_PATH]
    path = Path(str(given))
    if not isinstance(given, str) or path.is_absolute() or ".." in path.parts:
        raise LoadFailed(
            f"{DESCRIPTION}: {KERNEL_PATH} is {given!r}; expected a file of the package, such as"
            ' "kernel.py"'
        )
    if not (directory / path).is_file():
        raise LoadFailed(
            f"{DESCRIPTION} names {path}, which is not in the package"
            ": add the file, or correct the path"
        )
    return str(path)


def copied(directory: Path, ctx: LoadContext) -> Path:
    """Copy the package for the kernel, which may write to all of it."""
    made = ctx.scratch_dir / (ctx.name or directory.name).replace("/", "_")
    shutil.copytree(directory, made, copy_function=_copy)
    return made


def _copy(source: str, target: str) -> None:
    shutil.copy(source, target)
    os.chmod(target, os.stat(target).st_mode | 0o200)


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
    instance = instance_id(ctx)
    return {
        **own,
        "REDHARE_MODEL_PATH": str(package),
        "REDHARE_MODEL_NAME": ctx.name,
        "REDHARE_MODEL_CREATOR": CREATOR,
        "MSD_POD_NAME": instance,
        "TASK_JOB_ID": instance.rpartition("-")[2],
    }


def instance_id(ctx: LoadContext) -> str:
    """Name this kernel among all: a further process of it has another name."""
    return f"{ctx.name}-{ctx.version}-{os.getpid()}"


def description_text(
    description: Mapping[str, Any], directory: Path, package: Path, ctx: LoadContext
) -> str:
    """Write the description as a kernel reads it: the file's, and what EDI adds at a start."""
    files = [each.stat() for each in directory.rglob("*") if each.is_file()]
    changed = int(max((each.st_mtime for each in files), default=0.0))
    added = {
        "uid": str(uuid.uuid4()),
        "size": sum(each.st_size for each in files),
        "create_time": changed,
        "last_updated_time": changed,
        "started_at": int(time.time()),
        "creator": CREATOR,
        "service_uri": f"{ROUTE}{ctx.name}",
        "model_path": str(package),
    }
    return json.dumps({"attributes": [], "mk_environments": [], **description, **added})
