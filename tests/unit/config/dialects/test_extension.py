"""`cpu_extension`: which library is loaded, by flag and by the variable of 2020."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ie_serving.config.dialects import ie_serving
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.openvino.options import OpenVinoOptions

ONE = ("model", "--model_name", "m", "--model_path", "/models/m")


@pytest.fixture(autouse=True)
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make two libraries in the working directory."""
    for name in ("mine.so", "yours.so"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "environ", "name"),
    [
        pytest.param(["--cpu_extension=mine.so"], {}, "mine.so", id="flag"),
        pytest.param([], {"CPU_EXTENSION": "mine.so"}, "mine.so", id="variable"),
        pytest.param(
            ["--cpu_extension=yours.so"],
            {"CPU_EXTENSION": "mine.so"},
            "yours.so",
            id="the flag counts",
        ),
    ],
)
def test_a_library_that_is_there_is_named_by_its_path(
    libraries: Path, argv: list[str], environ: Mapping[str, str], name: str
) -> None:
    (model,) = ie_serving.parse([*ONE, *argv], environ).settings.models
    assert model.engine.of(OpenVinoOptions).cpu_extension == str(libraries / name)


@pytest.mark.parametrize(
    ("argv", "environ", "place"),
    [
        (["--cpu_extension", "/lib/none.so"], {}, "--cpu_extension: "),
        ([], {"CPU_EXTENSION": "/lib/none.so"}, "CPU_EXTENSION: "),
        (["--cpu_extension", "x" * 300], {}, "--cpu_extension: "),
    ],
)
def test_one_that_is_not_is_a_fault(
    argv: list[str], environ: Mapping[str, str], place: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        ie_serving.parse([*ONE, *argv], environ)
    (fault,) = refused.value.faults
    assert fault.startswith(place)
    assert "expected a file that exists" in fault


def test_it_holds_for_every_model_of_a_file(libraries: Path) -> None:
    entry = '{"config": {"name": "m", "base_path": "/models/m"}}'
    (libraries / "config.json").write_text(f'{{"model_config_list": [{entry}]}}')
    command = ["config", "--config_path=config.json"]
    parsed = ie_serving.parse(command, {"CPU_EXTENSION": "mine.so"})
    (model,) = parsed.settings.models
    assert model.engine.of(OpenVinoOptions).cpu_extension == str(libraries / "mine.so")


@pytest.mark.parametrize("path", ["", "/opt/intel/lib/intel64/libcpu_extension_avx2.so"])
def test_the_one_that_openvino_has_built_in_since_is_none(path: str) -> None:
    parsed = ie_serving.parse([*ONE, f"--cpu_extension={path}"], {"CPU_EXTENSION": path})
    (model,) = parsed.settings.models
    assert (parsed.warnings, model.engine.of(OpenVinoOptions).cpu_extension) == ((), "")
