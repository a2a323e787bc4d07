"""Files that were cut are refused before LightGBM reads them, which could end the process."""

import pytest

from ie_serving.core.values.errors import LoadFailed
from ie_serving.engines.tabular.lightgbm import check_whole

WHOLE = (
    b"tree\nversion=v4\ntree_sizes=14 10\n\n"
    b"Tree=0\nabcdef\nTree=1\nx\n\nend of trees\n\nparameters:\n"
)


@pytest.mark.parametrize(
    "content",
    [WHOLE, b"tree\nversion=v4\n\nend of trees\n", b"tree\n\nTree=0\nx\n\nend of trees\n"],
    ids=["two trees", "none", "of an old version"],
)
def test_a_whole_file_passes(content: bytes) -> None:
    check_whole(content, "m.txt")


@pytest.mark.parametrize("length", range(0, WHOLE.index(b"end of trees") + 11))
def test_a_cut_file_is_refused(length: int) -> None:
    with pytest.raises(LoadFailed, match=r'^m\.txt was cut: the line "end of trees" is missing$'):
        check_whole(WHOLE[:length], "m.txt")


@pytest.mark.parametrize(
    ("damaged", "text"),
    [
        (WHOLE.replace(b"abc", b""), "tree 1 is not where its head says"),
        (WHOLE.replace(b"\nx", b""), "its trees do not end where its head says"),
    ],
)
def test_a_file_that_lacks_something_is_refused(damaged: bytes, text: str) -> None:
    with pytest.raises(LoadFailed, match=text):
        check_whole(damaged, "m.txt")
