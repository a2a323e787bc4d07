"""What `check` prints, and its exit code, on the stand-in engine."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ie_serving.commands.check import check
from ie_serving.config.settings import ServerSettings, Settings
from ie_serving.core.values.errors import ConfigError, NoSignatureServed
from ie_serving.models.configuration import ConfiguredGraph, ModelConfig
from ie_serving.models.repository.version_policy import All, Latest, Specific, VersionPolicy
from ie_serving.storage.backends.local import LocalStorage
from tests.stand_in_engine import FILE, StandInEngine


def write(base: Path, version: str, **description: object) -> Path:
    path = base / version / FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(description))
    return path.parent


def checked(
    *bases: Path,
    labels: Mapping[str, int] | None = None,
    policy: VersionPolicy = All(),  # noqa: B008  it cannot change
    traffic: Mapping[str, int] | None = None,
    signature_changes: str = "allow",
    **more: Any,
) -> int:
    models = [
        ModelConfig(
            name=b.name,
            base_path=str(b),
            version_policy=policy,
            version_labels=labels or {},
            traffic=traffic or {},
            signature_changes=signature_changes,
        )
        for b in bases
    ]
    return check(
        Settings(server=ServerSettings(), models=tuple(models)),
        lambda model: StandInEngine(),
        LocalStorage,
        **more,
    )


def test_every_version_and_signature_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    entry = {"method": "regress", "features": {}, "outputs": {"outputs": "y"}}
    directory = write(tmp_path / "m", "2")
    (directory / "signatures.json").write_text(json.dumps({"signatures": {"r": entry}}))
    assert checked(tmp_path / "m") == 0
    assert capsys.readouterr().out.splitlines() == [
        "model m, version 1",
        "  serving_default: served by the stand-in",
        "model m, version 2",
        '  r: served by signatures.json, from "serving_default"',
        "  serving_default: served by the stand-in",
    ]


def test_a_version_that_does_not_load_is_told_with_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="no such operation")
    write(tmp_path / "n", "1").joinpath(FILE).rename(tmp_path / "n" / "1" / "notes.txt")
    (tmp_path / "o").mkdir()
    assert checked(tmp_path / "m", tmp_path / "n", tmp_path / "o", tmp_path / "p") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[2] == "model m, version 2: not served: no such operation"
    assert out[3] == f"model n, version 1: not served: {FILE} is missing"
    assert out[4].endswith(f"it is empty: copy the files of the model into {tmp_path}/o/1")
    assert "no such directory" in out[5]


def test_a_policy_that_names_no_version_that_is_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    assert checked(tmp_path / "m", policy=Specific(frozenset({7, 8}))) == 1
    assert capsys.readouterr().out == (
        f"model m: not served: none of the versions 7, 8 that model_version_policy names is under"
        f" {tmp_path}/m: upload one of them, or name one that is there\n"
    )


def test_versions_that_traffic_names_are_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("3", "4"):
        write(tmp_path / "m", version)
    write(tmp_path / "m", "2", fail="no such operation")
    shares = {"3": 40, "2": 20, "9": 20, "stable": 20}
    labels = {"stable": 4}
    given: Any = {"labels": labels, "policy": Latest(1), "traffic": shares}
    assert checked(tmp_path / "m", **given) == 1
    assert [each for each in capsys.readouterr().out.splitlines() if each[0] != " "] == [
        "model m, version 2: not served: no such operation",
        "model m, version 3",
        "model m, version 4",
        "model m: traffic: version 2 would not be served, and its 20 % go to others",
        "model m: traffic: version 9 would not be served, and its 20 % go to others",
    ]
    checked(tmp_path / "m", as_json=True, **given)
    (model,) = json.loads(capsys.readouterr().out)["models"].values()
    assert [each.partition(":")[0] for each in model["traffic"]] == ["traffic", "traffic"]
    assert checked(tmp_path / "m", labels=labels, traffic={"3": 100, "2": 0}, policy=Latest(1)) == 1
    assert "traffic" not in capsys.readouterr().out


def test_each_of_several_causes_has_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are joined into one line where a status or the log tells them."""
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="signatures.json: no method; no such input; no such output")
    engine = StandInEngine()
    causes = {"first": "it has no such operation; set --some_flag", "second": "not dense"}

    def none_served(directory: Path) -> None:
        if directory.name == "1":
            raise NoSignatureServed("; ".join(causes.values()), causes)

    engine.before_compile = none_served
    model = ModelConfig(name="m", base_path=str(tmp_path / "m"), version_policy=All())
    assert (
        check(
            Settings(server=ServerSettings(), models=(model,)), lambda model: engine, LocalStorage
        )
        == 1
    )
    assert capsys.readouterr().out.splitlines() == [
        "model m, version 1",
        "  first: not served: it has no such operation",
        "    set --some_flag",
        "  second: not served: not dense",
        "model m, version 2: not served: signatures.json: no method",
        "    no such input",
        "    no such output",
    ]


def test_the_models_that_were_compiled_are_freed(tmp_path: Path) -> None:
    write(tmp_path / "m", "1")
    engine = StandInEngine()
    model = ModelConfig(name="m", base_path=str(tmp_path / "m"))
    assert (
        check(
            Settings(server=ServerSettings(), models=(model,)), lambda model: engine, LocalStorage
        )
        == 0
    )
    assert [each.closed for each in engine.models] == [True]


def test_a_label_whose_version_does_not_load_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="no such operation")
    assert checked(tmp_path / "m", labels={"stable": 1, "canary": 2, "next": 9}) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "model m: label canary: version 2 would not be served",
        "model m: label next: version 9 would not be served",
    ]


def test_a_version_that_a_label_alone_keeps_is_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("1", "2", "3"):
        write(tmp_path / "m", version)
    model = ModelConfig(
        name="m",
        base_path=str(tmp_path / "m"),
        version_policy=Latest(),
        version_labels={"stable": 1},
    )
    settings = Settings(server=ServerSettings(), models=(model,))
    assert check(settings, lambda model: StandInEngine(), LocalStorage) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("model")]
    assert told == ["model m, version 1", "model m, version 3"]


def test_parts_that_the_server_reads_at_its_start_are_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ConfigError(["keys:3: no such right", "keys:4: no such right"])

    write(tmp_path / "m", "1")
    assert checked(tmp_path / "m", at_start=broken) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "server: keys:3: no such right",
        "server: keys:4: no such right",
        "model m, version 1",
    ]


def test_programs_are_told_the_same_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="no such operation")
    assert checked(tmp_path / "m", labels={"next": 9}, as_json=True) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "ok": False,
        "server": [],
        "models": {
            "m": {
                "versions": [
                    {
                        "version": 1,
                        "served": {"serving_default": "the stand-in"},
                        "left_out": {},
                        "fault": "",
                        "ok": True,
                    },
                    {
                        "version": 2,
                        "served": {},
                        "left_out": {},
                        "fault": "no such operation",
                        "ok": False,
                    },
                ],
                "labels": ["label next: version 9 would not be served"],
                "traffic": [],
                "signature_changes": [],
            }
        },
    }


def test_graphs_are_held_against_their_models_wherever_they_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the file or in a directory, before their models or after them."""
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", fail="no such operation")
    definition = {"steps": {"a": {"model": "m", "in": {"x": "request.x"}}}, "outputs": {"y": "a.y"}}
    lacking = {**definition, "steps": {"a": {"model": "m", "version": 2, "in": {"x": "request.x"}}}}
    odd = {**definition, "outputs": {"y": "a.z"}}
    (tmp_path / "g" / "1").mkdir(parents=True)
    (tmp_path / "g" / "1" / "graph.json").write_text(json.dumps(definition))
    models = (
        ModelConfig(name="g", base_path=str(tmp_path / "g")),
        ModelConfig(name="m", base_path=str(tmp_path / "m"), version_policy=All()),
        ModelConfig(name="lacking", base_path="", graph=ConfiguredGraph(text=json.dumps(lacking))),
        ModelConfig(name="odd", base_path="", graph=ConfiguredGraph(text=json.dumps(odd))),
    )
    settings = Settings(server=ServerSettings(), models=models)
    assert check(settings, lambda model: StandInEngine(), LocalStorage) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[:5] == [
        "model m, version 1",
        "  serving_default: served by the stand-in",
        "model m, version 2: not served: no such operation",
        "model g, version 1",
        "  serving_default: served by a graph of 1 steps: a",
    ]
    assert 'no version 2 of model "m" would be served' in told[5]
    assert told[6].startswith("model odd, version 1: not served: ")
    assert '"z"' in told[6]


def test_a_key_without_effect_is_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "m", "1")
    assert checked(tmp_path / "m", without_effect=["colour: unknown key, ignored"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "server: colour: unknown key, ignored"


@pytest.mark.parametrize(("setting", "code"), [("allow", 0), ("refuse", 1)])
def test_a_version_that_breaks_clients_of_the_one_below_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, code: int
) -> None:
    write(tmp_path / "m", "1")
    write(tmp_path / "m", "2", dtype="INT64")
    assert checked(tmp_path / "m", signature_changes=setting) == code
    told = 'model m: version 2: clients of version 1 would fail: signature "serving_default": input'
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("setting", "pairs"), [("allow", [(2, 1), (4, 3)]), ("refuse", [(2, 1), (3, 1)])]
)
def test_a_version_is_compared_with_the_one_that_serves_before_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    setting: str,
    pairs: list[tuple[int, int]],
) -> None:
    for version, dtype in enumerate(("FP32", "INT64", "INT64", "FP32"), 1):
        write(tmp_path / "m", str(version), dtype=dtype)
    checked(tmp_path / "m", signature_changes=setting)
    told = re.findall(r"version (\d): clients of version (\d) would", capsys.readouterr().out)
    assert [(int(after), int(before)) for after, before in told] == pairs
