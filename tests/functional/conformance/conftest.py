"""The servers that the rows are sent to."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.functional.conformance import models
from tests.functional.conformance.case import CONTROLLED, OPTIONS, PLAIN, ROOT, SHARED
from tests.functional.conformance.regions import Region
from tests.functional.servers import Server
from tests.unit.engines.openvino import stateful_models

pytest.register_assert_rewrite("tests.functional.conformance.client")

CONFIG = """
model_config_list {
  config {
    name: "plus", base_path: "/models/plus", model_platform: "tensorflow",
    model_version_policy { all {} },
    version_labels { key: "stable" value: 1 }
    version_labels { key: "canary" value: 2 }
    version_labels { key: "a b" value: 1 }
    version_labels { key: "future" value: 9 }
  }
  config {
    name: "broken", base_path: "/models/broken", model_platform: "tensorflow",
    model_version_policy { all {} }
  }
  MODELS
}
"""
MODEL = 'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" }}\n'
PLUS = f"""
model_config_list: {{
  config: {{
    name: 'plus'
    base_path: '{ROOT}/plus'
    model_platform: 'tensorflow'
    model_version_policy: {{ all: {{}} }}
  }}
}}
"""
MONITORING = 'prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }'


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    models.make(root)
    return root


@pytest.fixture(scope="session")
def servers(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Server]]:
    files = tmp_path_factory.mktemp("configuration")
    with ExitStack() as stack:
        started = {
            PLAIN: _plain(repository, files),
            OPTIONS: _with_options(repository, files),
            SHARED: _with_shared_memory(repository, files),
            CONTROLLED: _controlled(repository, files),
        }
        for server in started.values():
            stack.callback(server.close)
        yield {name: server.ready() for name, server in started.items()}


def _plain(repository: Path, files: Path) -> Server:
    others = (path for path in sorted(repository.iterdir()) if f"{ROOT}/{path.name}" not in CONFIG)
    entries = "  ".join(MODEL.format(name=path.name, path=path) for path in others)
    config, monitoring = files / "models.config", files / "monitoring.config"
    config.write_text(placed(CONFIG, repository).replace("MODELS", entries))
    monitoring.write_text(MONITORING)
    return Server(
        "tensorflow_model_server",
        f"--model_config_file={config}",
        f"--monitoring_config_file={monitoring}",
        "--allow_version_labels_for_unavailable_models",
    )


def _with_options(repository: Path, files: Path) -> Server:
    config = files / "plus.config"
    config.write_text(placed(PLUS, repository))
    return Server(
        "tensorflow_model_server",
        f"--model_config_file={config}",
        "--rest_api_enable_cors_support=true",
        "--enable_serialization_as_tensor_content",
        "--enable_signature_method_name_check",
    )


def _with_shared_memory(repository: Path, files: Path) -> Server:
    entries = [{"name": name, "base_path": str(repository / name)} for name in ("plus", "string")]
    return _configured(files / "shared.json", entries, "--shared_memory=true")


def _controlled(repository: Path, files: Path) -> Server:
    """Start a server in explicit mode, beside the others' models with one that keeps sums."""
    stateful_models.accumulator(files / "total" / "1")
    entries = [
        *({"name": name, "base_path": str(repository / name)} for name in ("plus", "float")),
        {"name": "broken", "base_path": str(repository / "broken")},
        {"name": "total", "base_path": str(files / "total"), "stateful": True},
    ]
    return _configured(files / "controlled.json", entries, "--model_control_mode=explicit")


def _configured(file: Path, entries: Sequence[Mapping[str, object]], flag: str) -> Server:
    file.write_text(json.dumps({"model_config_list": [{"config": each} for each in entries]}))
    return Server("ie_serving", "config", f"--config_path={file}", flag)


@pytest.fixture(scope="session")
def region() -> Iterator[Region]:
    with closing(Region()) as region:
        yield region


def placed(text: str, repository: Path) -> str:
    """Put the repository's directory where a row says `ROOT`."""
    return text.replace(ROOT, str(repository))
