"""What is sorted out of a signature before OpenVINO sees it, on a graph that TensorFlow wrote."""

from pathlib import Path

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.file import FILE, MetaGraph, declared, read_graph
from ie_serving.engines.savedmodel.rewrite import (
    Prepared,
    directory_for,
    directory_of_constants,
    prepare,
)
from tests.unit.engines.savedmodel.exports import first_generation, plain_graph


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "1"
    first_generation(path, plain_graph)
    return path


def prepared(path: Path, name: str) -> tuple[MetaGraph, Prepared]:
    meta_graph = read_graph(path)
    return meta_graph, prepare(meta_graph, declared(meta_graph)[name])


def test_a_placeholder_with_a_default_is_fed_and_may_be_left_out(plain: Path) -> None:
    meta_graph, made = prepared(plain, "serving_default")
    assert {name: value.item() for name, value in made.defaults.items()} == {"keep": 0.5}
    with directory_for(plain, meta_graph, made) as copy:
        changed = read_graph(copy)
    ops = {node.name: node.op for node in changed.graph_def.node}
    definition = changed.signature_def["serving_default"]
    fed = {alias: ops[info.name.partition(":")[0]] for alias, info in definition.inputs.items()}
    assert fed == {"x": "Placeholder", "keep": "Placeholder"}


def test_the_default_that_the_signature_declares_wins(plain: Path) -> None:
    _, made = prepared(plain, "declared_default")
    assert made.defaults["keep"].item() == 0.25


def test_an_input_that_no_signature_names_keeps_its_default(plain: Path) -> None:
    _, made = prepared(plain, "without_keep")
    assert (set(made.inputs), made.defaults) == ({"x"}, {})


def test_outputs_of_no_input_are_constants_or_computed_once(plain: Path) -> None:
    meta_graph, made = prepared(plain, "constants")
    assert set(made.outputs) == {"y"}
    assert made.constants["names"].tolist() == [b"a", b"b"]
    assert made.constants["threshold"].item() == 0.25
    assert set(made.computed) == {"held"}
    with directory_of_constants(plain, meta_graph, made) as copy:
        definition = read_graph(copy).signature_def["serving_default"]
    assert [len(definition.inputs), len(definition.outputs)] == [1, 1]


def test_an_output_that_is_an_input_or_its_identity_is_echoed(plain: Path) -> None:
    _, made = prepared(plain, "echo")
    assert (set(made.outputs), made.echoes) == ({"y"}, {"x2": "x", "x3": "x"})


def test_an_input_that_is_checked_is_not_echoed(plain: Path) -> None:
    _, made = prepared(plain, "checked")
    assert (set(made.outputs), made.echoes) == ({"y", "x4"}, {})


def test_a_tensor_that_two_inputs_name_is_refused(plain: Path) -> None:
    meta_graph = read_graph(plain)
    inputs = meta_graph.signature_def["echo"].inputs
    inputs["again"].CopyFrom(inputs["x"])
    with pytest.raises(LoadFailed, match=r"'again' and 'x'|'x' and 'again'"):
        prepare(meta_graph, declared(meta_graph)["echo"])


def test_an_output_of_two_names_is_computed_once(plain: Path) -> None:
    _, made = prepared(plain, "twice")
    assert (set(made.outputs), made.repeats) == ({"y"}, {"z": "y"})


def test_a_graph_that_needs_no_change_is_read_where_it_lies(plain: Path) -> None:
    meta_graph = read_graph(plain)
    definition = meta_graph.signature_def["serving_default"]
    definition.CopyFrom(meta_graph.signature_def["without_keep"])
    made = prepare(meta_graph, declared(meta_graph)["serving_default"])
    with directory_for(plain, meta_graph, made) as source:
        assert source == plain


def test_an_output_of_an_inputs_name_gets_another_in_a_copy(plain: Path) -> None:
    meta_graph = read_graph(plain)
    definition = meta_graph.signature_def["serving_default"]
    definition.CopyFrom(meta_graph.signature_def["without_keep"])
    definition.outputs["x"].CopyFrom(definition.outputs["y"])
    del definition.outputs["y"]
    made = prepare(meta_graph, declared(meta_graph)["serving_default"])
    with directory_for(plain, meta_graph, made) as copy:
        assert (copy / FILE).is_file()
        changed = read_graph(copy).signature_def["serving_default"]
    assert set(changed.inputs).isdisjoint(changed.outputs)


def test_a_tensor_that_the_graph_lacks_is_named(plain: Path) -> None:
    meta_graph = read_graph(plain)
    meta_graph.signature_def["echo"].outputs["y"].name = "absent:0"
    with pytest.raises(LoadFailed, match="refers to a node 'absent'"):
        prepare(meta_graph, declared(meta_graph)["echo"])
