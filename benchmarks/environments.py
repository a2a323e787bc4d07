"""A virtual environment for each server under test, and snapshots of this project to install.

Only the standard library is used here: this runs before anything is installed. Everything lies in
`.venv-bench`, is made when first needed, and is used again while its requirements stay the same.
"""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).parent.parent
ROOT = PROJECT / ".venv-bench"
DRIVER = ("openvino", "numpy", "grpcio", "uvloop", "psutil", "orjson")


def ensure(name: str, requirements: Sequence[str], python: str = sys.executable) -> Path:
    """Give the environment `name` of the interpreter `python` with `requirements` installed."""
    folder = ROOT / name
    marker = folder / "installed"
    wanted = "\n".join(requirements)
    if marker.exists() and marker.read_text() == wanted:
        return folder
    print(f"installing {name}: {', '.join(requirements)}", file=sys.stderr)
    marker.unlink(missing_ok=True)
    if not (folder / "bin" / "pip").exists():
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    _pip(folder, *requirements)
    marker.write_text(wanted)
    return folder


def ensure_project(source: Path, name: str, python: str = sys.executable) -> Path:
    """Give an environment with the project as it is in `source`, made again when that differs."""
    return ensure(name, (f"ie-serving @ {source.as_uri()}",), python)


def packages(environment: Path) -> dict[str, str]:
    """Name the version of every package that is installed in `environment`."""
    lines = subprocess.run(
        [environment / "bin" / "pip", "list", "--format=freeze"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return dict(line.split("==", 1) for line in lines if "==" in line)


def python_libraries(environment: Path) -> str:
    """Name the folder of the `libpython` that the environment's interpreter belongs to."""
    ask = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
    return _output(str(environment / "bin" / "python"), "-c", ask).decode().strip()


def snapshot(revision: str | None) -> Path:
    """Copy the project as of `revision`, or with None the working tree, to its own folder.

    Returns:
        The copy; its folder's name changes with its content.
    """
    archive = _archived(revision) if revision else _working_tree()
    folder = ROOT / "snapshots" / hashlib.sha256(archive).hexdigest()[:12]
    if not folder.exists():
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def _archived(revision: str) -> bytes:
    return _output("git", "archive", revision)


def _working_tree() -> bytes:
    """Archive every file that Git tracks or would track, with times that never change."""
    listed = _output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    present = [
        name for name in sorted(listed.split(b"\0")) if name and (PROJECT / name.decode()).is_file()
    ]
    return subprocess.run(
        ["tar", "-c", "--null", "--files-from=-", "--mtime=@0", "--owner=0", "--group=0"],
        cwd=PROJECT,
        input=b"\0".join(present),
        check=True,
        capture_output=True,
    ).stdout


def _output(*command: str) -> bytes:
    return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True).stdout


def _pip(environment: Path, *arguments: str) -> None:
    command = [environment / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True, cwd=ROOT)
