"""Files that were cut are refused before a library reads them.

XGBoost could take all memory for one, and LightGBM end the process.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.tabular import lightgbm, xgboost
from tests.tables import named_by

UBJSON = (
    b"{L\0\0\0\0\0\0\0\1a[$l#L\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0\2"
    b"i\1b{i\1cSi\2xyi\1d[TFZU\5]}i\1eD01234567}"
)
TREES = (
    b"tree\nversion=v4\ntree_sizes=14 10\n\n"
    b"Tree=0\nabcdef\nTree=1\nx\n\nend of trees\n\nparameters:\n"
)
Check = Callable[[bytes, str], None]


@pytest.mark.parametrize(
    ("check", "content"),
    [
        pytest.param(xgboost.check_whole, UBJSON, id="UBJSON"),
        pytest.param(lightgbm.check_whole, TREES, id="two trees"),
        pytest.param(lightgbm.check_whole, b"tree\nversion=v4\n\nend of trees\n", id="no trees"),
        pytest.param(
            lightgbm.check_whole, b"tree\n\nTree=0\nx\n\nend of trees\n", id="an old version"
        ),
    ],
)
def test_a_whole_file_passes(check: Check, content: bytes) -> None:
    check(content, "m")


@pytest.mark.parametrize(
    ("check", "content", "text"),
    [
        pytest.param(xgboost.check_whole, UBJSON[:-1], r"^m is damaged", id="UBJSON"),
        pytest.param(
            lightgbm.check_whole,
            TREES[: TREES.index(b"end of trees") + 10],
            r'^m was cut, since the line "end of trees" is missing: upload it again$',
            id="trees",
        ),
    ],
)
def test_a_file_that_is_cut_anywhere_is_refused(check: Check, content: bytes, text: str) -> None:
    for length in range(len(content) + 1):
        with pytest.raises(LoadFailed, match=text):
            check(content[:length], "m")


@named_by(
    "text",
    ("check", "content", "text"),
    [
        (xgboost.check_whole, UBJSON + b"Z", "1 bytes follow its end"),
        (xgboost.check_whole, b"{x", "no length at byte 1"),
        (xgboost.check_whole, b"[#i\xff", "a length below 0"),
        (xgboost.check_whole, b"[" * 100_000, "damaged"),
        (xgboost.check_whole, b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "bytes are missing"),
        (lightgbm.check_whole, TREES.replace(b"abc", b""), "tree 1 is not where its head says"),
        (lightgbm.check_whole, TREES.replace(b"\nx", b""), "its trees do not end where its head"),
    ],
)
def test_a_damaged_file_is_told(check: Check, content: bytes, text: str) -> None:
    with pytest.raises(LoadFailed, match=text):
        check(content, "m")


@given(content=st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused(content: bytes) -> None:
    with suppress(LoadFailed):
        xgboost.check_whole(b"{" + content, "m.ubj")


def test_files_of_the_library_are_whole(tmp_path: Path) -> None:
    library = pytest.importorskip("xgboost")
    file = tmp_path / "m.ubj"
    library.XGBClassifier(n_estimators=3).fit([[0.0], [1.0], [2.0]], [0, 1, 0]).save_model(file)
    xgboost.check_whole(file.read_bytes(), file.name)
