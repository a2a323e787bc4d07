"""Tables and variables as TensorFlow fills them: files of many forms, lists, checkpoints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.savedmodel.checkpoint import Checkpoint
from ie_serving.engines.savedmodel.host.host_kernel import Attributes
from ie_serving.engines.savedmodel.host.tables import LookupTable, from_text_file
from ie_serving.wire.protobuf import graph

STRING, LONG, FLOAT = (tf.string, 7), (tf.int64, 9), (tf.float32, 1)
LINE, NUMBER = -2, -1


def read(path: Path, types: tuple[int, int], attributes: Mapping[str, Any]) -> LookupTable:
    initializer, table = graph.NodeDef(op="Initialize"), graph.NodeDef(name="t", op="HashTableV2")
    for name, value in attributes.items():
        if isinstance(value, int):
            initializer.attr[name].i = value
        else:
            initializer.attr[name].s = value.encode()
    table.attr["key_dtype"].type, table.attr["value_dtype"].type = types
    return from_text_file(path, Attributes(initializer), Attributes(table))


def by_tensorflow(path: Path, types: tuple[Any, Any], attributes: Mapping[str, Any]) -> Any:
    key, value = attributes["key_index"], attributes["value_index"]
    rest = {name: attributes[name] for name in attributes.keys() - {"key_index", "value_index"}}
    made = tf.lookup.TextFileInitializer(str(path), types[0], key, types[1], value, **rest)
    return tf.lookup.StaticHashTable(made, tf.zeros([], types[1]))


@pytest.mark.parametrize(
    ("content", "key", "value", "attributes"),
    [
        pytest.param(
            "a\nb\nc\n",
            STRING,
            LONG,
            {"key_index": LINE, "value_index": NUMBER},
            id="numbers of lines",
        ),
        pytest.param(
            "a\nb", LONG, STRING, {"key_index": NUMBER, "value_index": LINE}, id="lines by number"
        ),
        pytest.param(
            "a\r\n \nb\n",
            STRING,
            LONG,
            {"key_index": LINE, "value_index": NUMBER},
            id="lines with blanks",
        ),
        pytest.param(
            "x\t1\ny\t2\n", STRING, LONG, {"key_index": 0, "value_index": 1}, id="two columns"
        ),
        pytest.param(
            "7,x,1.5\n9,y,-2e3\n",
            LONG,
            FLOAT,
            {"key_index": 0, "value_index": 2, "delimiter": ","},
            id="columns of a CSV",
        ),
        pytest.param(
            "a\nb\nc\n",
            STRING,
            LONG,
            {"key_index": LINE, "value_index": NUMBER, "vocab_size": 2},
            id="a size that is given",
        ),
        pytest.param(
            "a\t1\nb\t1\na\t1\n",
            STRING,
            LONG,
            {"key_index": 0, "value_index": 1},
            id="a line twice",
        ),
    ],
)
def test_a_file_is_read_as_tensorflow_reads_it(
    tmp_path: Path, content: str, key: Any, value: Any, attributes: Mapping[str, Any]
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(content.encode())
    theirs = by_tensorflow(path, (key[0], value[0]), attributes)
    keys, values = (tensor.numpy().tolist() for tensor in theirs.export())
    ours = read(path, (key[1], value[1]), attributes)
    assert len(ours) == len(keys)
    asked = np.array(keys, np.object_ if key is STRING else np.int64)
    found = ours.find(asked, np.zeros((), np.object_ if value is STRING else np.float32))
    assert found.tolist() == values


@pytest.mark.parametrize(
    ("content", "value", "attributes", "fault"),
    [
        pytest.param(
            "a\t1\na\t2\n",
            LONG,
            {"key_index": 0, "value_index": 1},
            "different value for same key",
            id="two values of a key",
        ),
        pytest.param(
            "a\n",
            LONG,
            {"key_index": 0, "value_index": 1},
            "line 0 has no column 1",
            id="no such column",
        ),
        pytest.param(
            "a\tx\n", LONG, {"key_index": 0, "value_index": 1}, "a line is no int64", id="no number"
        ),
        pytest.param(
            "a\n\nb\n",
            LONG,
            {"key_index": LINE, "value_index": NUMBER},
            "line 1 is empty",
            id="an empty line",
        ),
        pytest.param(
            "a\n",
            LONG,
            {"key_index": LINE, "value_index": NUMBER, "vocab_size": 2},
            "Invalid vocab_size",
            id="fewer lines than the size",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_as_by_tensorflow(
    tmp_path: Path, content: str, value: Any, attributes: Mapping[str, Any], fault: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_text(content)
    with pytest.raises(tf.errors.OpError):
        by_tensorflow(path, (tf.string, value[0]), attributes)
    with pytest.raises(LoadFailed, match=fault):
        read(path, (7, value[1]), attributes)


def test_a_key_that_the_table_lacks_gives_the_default() -> None:
    table = LookupTable(np.array([1, 2]), np.array([b"x", b"y"], np.object_), "t")
    found = table.find(np.array([[2, 3]]), np.array(b"?", np.object_))
    assert found.tolist() == [[b"y", b"?"]]


def test_variables_are_read_as_they_were_saved(tmp_path: Path) -> None:
    values = {
        "text": tf.constant([[b"a", b""], [b"x" * 300, b"\0"]]),
        "number": tf.constant(2.5),
        "empty": tf.zeros([0, 3], tf.int64),
        "flag": tf.constant([True, False]),
        **{f"many/{at}": tf.fill([at], at) for at in range(300)},
    }
    names = list(values)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "variables"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=list(values.values()),
    )
    checkpoint = Checkpoint(tmp_path / "variables")
    checkpoint.check()
    for name, value in values.items():
        read_back, want = checkpoint.read(name.encode()), value.numpy()
        assert read_back.shape == want.shape
        assert read_back.tolist() == want.tolist()
    with pytest.raises(LoadFailed, match="has no variable 'other'"):
        checkpoint.read(b"other")


@pytest.mark.parametrize(
    ("names", "is_unread"),
    [(("a", "b"), False), ((None, None), True)],
    ids=["named", "without names"],
)
def test_variables_that_share_a_name_are_not_left_to_openvino(
    tmp_path: Path, names: tuple[str | None, ...], is_unread: bool
) -> None:
    """In models of TensorFlow 2.0 to 2.3 it takes one for the other."""
    held = {f"v{at}": tf.Variable(1.0, name=name) for at, name in enumerate(names)}
    tf.train.Checkpoint(**held).write(str(tmp_path / "variables"))
    assert Checkpoint(tmp_path / "variables").is_unread is is_unread


@pytest.mark.parametrize("at", [0, 3, 8, 300])
def test_a_flipped_byte_of_strings_is_found(tmp_path: Path, at: int) -> None:
    """In a length, in the checksum of the lengths, and in the texts."""
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "variables"),
        tensor_names=["text"],
        shape_and_slices=[""],
        tensors=[tf.constant([b"abc", b"", b"x" * 400])],
    )
    data = tmp_path / "variables.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[at] ^= 1
    data.write_bytes(content)
    with pytest.raises(LoadFailed, match=r"-of-00001 is damaged, the variable 'text'"):
        Checkpoint(tmp_path / "variables").check()


def test_a_checkpoint_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "variables"),
        tensor_names=["x"],
        shape_and_slices=[""],
        tensors=[tf.range(9)],
    )
    index = tmp_path / "variables.index"
    index.write_bytes(index.read_bytes()[:-9])
    with pytest.raises(LoadFailed, match=r"variables\.index is damaged.*upload the version again"):
        Checkpoint(tmp_path / "variables")
