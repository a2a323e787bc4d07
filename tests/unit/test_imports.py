"""Imports point one way, as docs/design.md section 2 draws it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ie_serving"
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

ABOVE = {  # for each part, the parts of ie_serving that it must not import
    "errors": {"*"},
    "tensors": {"*"},
    "requests": {"*"},
    "telemetry": {"*", "!errors"},
    "storage": {"*", "!errors", "!storage", "!telemetry"},
    "engines": {"*", "!errors", "!engines", "!tensors", "!telemetry"},
    "inputs": {"*", "!errors", "!tensors"},
    "models": {"main", "application", "cli", "tfs_cli", "server", "config_watch"},
    "server": {"main", "application", "cli", "tfs_cli"},
}
HOMES = {  # a library, and the only parts that may import it
    "openvino": {"engines/openvino"},
    "grpc": {"server/grpcio_server"},
    "grpc_health": {"server/grpc_health"},
    "grpc_reflection": {"server/grpc_reflection"},
    "hpack": {"server/http2"},
    "falcon": {"server", "application"},
    "httptools": {"server/http1"},
    "gunicorn": {"server/gunicorn_app"},
    "boto3": {"storage/s3"},
    "botocore": {"storage/s3", "storage/s3_errors"},
    "google.cloud": {"storage/gcs"},
    "minio": {"storage/minio"},
    "simdjson": {"server/wire"},
    "tensorflow": set(),
    "tensorflow_serving": set(),
}
BACKENDS = {"s3", "gcs", "minio", "local", "by_url", "mirror", "testing"}


def imported(path: Path) -> Iterator[str]:
    """Full names of what a module imports, wherever in it; typing-only imports too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_no_part_imports_one_above_it(path: Path) -> None:
    part = place(path).split("/")[0]
    rules = ABOVE.get(part, set())
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    for name in imported(path):
        if not name.startswith("ie_serving."):
            continue
        other = name.split(".")[1]
        forbidden = other in rules or ("*" in rules and other not in allowed)
        assert not forbidden, f"{place(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_a_library_is_seen_only_at_home(path: Path) -> None:
    for name in imported(path):
        for library, homes in HOMES.items():
            if name == library or name.startswith(f"{library}."):
                here = place(path)
                assert any(here == h or here.startswith(f"{h}/") for h in homes), (
                    f"{here} imports {name}"
                )


def test_models_know_what_storage_promises_and_no_backend() -> None:
    for path in (PACKAGE / "models").rglob("*.py"):
        for name in imported(path):
            if name.startswith("ie_serving.storage."):
                assert name.split(".")[2] not in BACKENDS, f"{place(path)} imports {name}"
            if name.startswith("ie_serving.engines."):
                assert name.split(".")[2] == "base", f"{place(path)} imports {name}"
