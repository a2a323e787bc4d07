"""How the files of models end, and how other forms of models become one that is served."""

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

OF_OPENVINO = frozenset({".xml", ".onnx", ".tflite", ".pdmodel", ".pb"})
OF_OTHERS = frozenset(
    {
        *(".skops", ".joblib", ".pkl", ".pickle"),
        *(".json", ".ubj", ".bst", ".txt", ".cbm", ".pmml"),
        *(".pt2", ".pt", ".pth", ".torchscript", ".jit", ".ptl", ".ts"),
    }
)
SUFFIXES = OF_OPENVINO | OF_OTHERS
"""Suffixes of a model's file, for any driver; a repository's directory does not."""
_KERAS = (".keras", ".h5", ".hdf5")
_ARCHIVES = {
    ".zip": "unzip {file} -d {version}",
    ".tar": "tar -xf {file} -C {version}",
    ".tgz": "tar -xf {file} -C {version}",
    ".gz": "tar -xf {file} -C {version}",
}
"""The command that unpacks each kind into the directory of a version."""
_NEARLY_URL = re.compile(r"(?:.*/)?(s3|gs|az|azfs|minio):?/([^/].*)")
"""A path that was meant as a URL: `s3//bucket/m` becomes one below the working directory."""


def another_form(files: Iterable[str], base: str, version: str) -> str:
    """Name a file that can become a model, and how; empty where none can.

    Args:
        files: paths relative to `base`.
        base: path or URL of the files.
        version: directory for the model.
    """
    for name in sorted(files):
        suffix = PurePosixPath(name).suffix.lower()
        if suffix in _KERAS:
            source = f"keras.models.load_model({f'{base}/{name}'!r})"
            return (
                f"found {name}, a file of Keras: export it in Python: {source}.export({version!r})"
            )
        if suffix in _ARCHIVES:
            file, into = shlex.quote(f"{base}/{name}"), shlex.quote(version)
            unpack = _ARCHIVES[suffix].format(file=file, version=into)
            how = command(f"mkdir -p {into} && {unpack}", version)
            return f"found {name}, an archive: unpack it: {how}"
    return ""


def command(command: str, version: str) -> str:
    """Give a shell's command for a local directory, and words for one in a store."""
    return f"upload its files below {version}/" if "://" in version else command


def meant_url(path: str) -> str:
    """Name the URL that a path without its `://` was meant as; empty for other paths."""
    found = _NEARLY_URL.fullmatch(path)
    return f"{found[1]}://{found[2]}" if found else ""
