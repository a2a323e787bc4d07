"""Which files a model may read for its tables: those of its version."""

import os
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.frames import Frame, Library
from ie_serving.engines.savedmodel.host.resources import Resources
from ie_serving.wire.protobuf import graph


def words(version: Path, vocabulary: str, asset: str = "") -> list[bytes]:
    """Give the words of a table that a graph fills from the file `vocabulary`.

    Args:
        version: the directory of the version.
        vocabulary: the constant of the graph.
        asset: the file name that stands for this constant in the list of assets, if any.
    """
    with v1.Graph().as_default() as made:
        file = tf.lookup.TextFileInitializer(
            vocabulary,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        table = tf.lookup.StaticHashTable(file, -1)
        (path,) = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
        (filling,) = v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)
        name, path_name = table.resource_handle.op.name, path.name
        definition = graph.GraphDef.FromString(made.as_graph_def().SerializeToString())
    meta_graph = graph.MetaGraphDef(graph_def=definition)
    meta_graph.signature_def["__saved_model_init_op"].outputs["op"].name = filling.name
    if asset:
        meta_graph.asset_file_def.add(filename=asset).tensor_info.name = path_name
    place = Frame(Library(definition), definition).node_output(name)
    keys, _ = Resources(version, meta_graph).value(place).export()
    return sorted(keys.tolist())


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """A version with a vocabulary, behind a link; a file of the host lies beside it."""
    (tmp_path / "stored" / "assets").mkdir(parents=True)
    (tmp_path / "stored" / "assets" / "words.txt").write_text("a\nb\n")
    (tmp_path / "host.txt").write_text("secret\n")
    (tmp_path / "1").symlink_to("stored")
    return tmp_path / "1"


def test_a_file_of_the_version_is_read_by_any_name(version: Path) -> None:
    assert words(version, "anything", asset="words.txt") == [b"a", b"b"]
    assert words(version, str(version / "assets" / "words.txt")) == [b"a", b"b"]
    (version / "assets" / "link.txt").symlink_to("words.txt")
    assert words(version, "anything", asset="link.txt") == [b"a", b"b"]


def test_a_file_of_the_host_is_refused(version: Path) -> None:
    host = version.parent / "host.txt"
    (version / "assets" / "link.txt").symlink_to(host)
    for vocabulary, asset in (
        (str(host), ""),
        (os.path.relpath(host), ""),
        (f"{version}/../host.txt", ""),
        (f"{version}/assets/link.txt", ""),
        ("anything", "link.txt"),
        ("anything", "../../host.txt"),
        ("anything", str(host)),
    ):
        with pytest.raises(LoadFailed, match=r"lies outside of the version: save the model"):
            words(version, vocabulary, asset)


def test_a_path_that_is_none_is_refused(version: Path) -> None:
    (version / "assets" / "circle.txt").symlink_to("circle.txt")
    with pytest.raises(LoadFailed, match="cannot be found"):
        words(version, "a\0b")
    with pytest.raises(LoadFailed, match="cannot be"):
        words(version, "anything", asset="circle.txt")
