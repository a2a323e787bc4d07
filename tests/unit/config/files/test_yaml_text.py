"""YAML files mean what the same JSON means, and are refused where JSON has no such value."""

import sys
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.files import source
from ie_serving.config.files.yaml_text import yaml_text
from ie_serving.core.values.errors import ConfigError
from tests.tables import named_by

SAME = """
model_config_list:
- config:
    name: a
    base_path: /models/a
    nireq: 2
graphs:
- name: g
  steps:
    s: {model: a, in: request}
    w: {switch: {on: request.language, cases: {en: s, 0: s, true: s}}}
  outputs: {y: w.y}
  inputs: {language: {dtype: string, shape: []}}
"""


def test_a_file_is_told_to_be_yaml_by_its_extension(tmp_path: Path) -> None:
    for name in ("c.yaml", "c.YML"):
        (tmp_path / name).write_text(SAME)
        model, graph = source.read(tmp_path / name).models
        assert (model.name, model.base_path, model.engine.nireq) == ("a", "/models/a", 2)
        assert graph.graph
        assert '"on": "request.language", "cases": {"en": "s", "0": "s", "true": "s"}' in (
            graph.graph.text
        )


@named_by(
    "text",
    ("text", "value"),
    [
        ("a: on", {"a": "on"}),
        ("a: NO", {"a": "NO"}),
        ("a: 12:30:45", {"a": "12:30:45"}),
        ("a: 010", {"a": 10}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: .5", {"a": 0.5}),
        ("a: 2024-01-31", {"a": "2024-01-31"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a:", {"a": None}),
        ("a: ~", {"a": None}),
        ("a: nullable", {"a": "nullable"}),
        ("a: |\n  x = 1\n  y = x\n", {"a": "x = 1\ny = x\n"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ],
)
def test_words_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    assert yaml_text(text, "c.yaml") == value


BOMB = "\n".join(
    ["a: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)


@named_by(
    "text",
    ("text", "fault"),
    [
        ("a: [1", "c.yaml:1:6: not YAML: "),
        ("a: 1\na: 2", 'c.yaml:2:1: not YAML: key "a" stands twice in one object'),
        ("a: .nan", "c.yaml: nan is no value of JSON"),
        ("a: -.inf", "c.yaml: -inf is no value of JSON"),
        ("{[1]: 2}", "c.yaml:1:2: not YAML: [1] is no name of a key"),
        ("1.5: 2", "c.yaml: 1.5 is no name of a key"),
        ("a: !!python/object/apply:os.system [id]", "c.yaml:1:4: not YAML: "),
        ("a: 1\n---\nb: 2", "c.yaml:2:1: not YAML: "),
        ("a: &x [*x]", "c.yaml:1:4: not YAML: found unconstructable recursive node"),
        (BOMB, "c.yaml: more than 10,000 values"),
        ("[" * 600, "c.yaml: lists and objects nest more than 200 deep"),
    ],
)
def test_faults_have_a_place(text: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ie_serving.config.files.yaml_text.MOST_VALUES", 10_000)
    with pytest.raises(ConfigError) as caught:
        yaml_text(text, "c.yaml")
    assert caught.value.faults[0].startswith(fault), caught.value.faults


def test_the_lack_of_the_library_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"pip install '.\[yaml\]'"):
        yaml_text("a: 1", "c.yaml")
