"""Files that were cut are refused before XGBoost reads them, which could take all memory."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.tabular.xgboost import check_whole

WHOLE = (
    b"{L\0\0\0\0\0\0\0\1a[$l#L\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0\2"
    b"i\1b{i\1cSi\2xyi\1d[TFZU\5]}i\1eD01234567}"
)


def test_a_whole_file_passes() -> None:
    check_whole(WHOLE, "m.ubj")


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_cut_file_is_refused(length: int) -> None:
    with pytest.raises(LoadFailed, match=r"^m\.ubj is damaged"):
        check_whole(WHOLE[:length], "m.ubj")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (WHOLE + b"Z", "1 bytes follow its end"),
        (b"{x", "no length at byte 1"),
        (b"[#i\xff", "a length below 0"),
        (b"[" * 100_000, "damaged"),
        (b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "bytes are missing"),
    ],
)
def test_what_is_damaged_is_told(content: bytes, text: str) -> None:
    with pytest.raises(LoadFailed, match=text):
        check_whole(content, "m.ubj")


@given(content=st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused(content: bytes) -> None:
    with suppress(LoadFailed):
        check_whole(b"{" + content, "m.ubj")


def test_files_of_the_library_are_whole(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    file = tmp_path / "m.ubj"
    xgboost.XGBClassifier(n_estimators=3).fit([[0.0], [1.0], [2.0]], [0, 1, 0]).save_model(file)
    check_whole(file.read_bytes(), file.name)
