"""`ie_serving key` prints lines that the server takes."""

from pathlib import Path

import pytest

from ie_serving.config.credentials import AccessMaterial
from ie_serving.config.dialects import keys
from ie_serving.config.files import access_file
from ie_serving.config.settings import ServerSettings
from ie_serving.core.values import access
from ie_serving.core.values.access import Principal, Right
from ie_serving.core.values.errors import ConfigError


def read(folder: Path, lines: list[str]) -> AccessMaterial:
    file = folder / "keys"
    file.write_text("\n".join(lines))
    return access_file.read(ServerSettings(api_key_file=str(file)))


def test_a_new_key_is_random_and_taken_by_the_server(tmp_path: Path) -> None:
    asked = ["key", "new", "alice", "--rights=predict,read", "--models=resnet*"]
    lines = keys.run(asked, lambda: "")
    key = lines[0].rpartition(" ")[2]
    caller = Principal(name="alice", rights=Right.PREDICT | Right.READ, models=("resnet*",))
    assert read(tmp_path, lines).keys == {access.of_key(key.encode()): caller}
    assert keys.run(asked, lambda: "") != lines


def test_a_password_is_hashed_and_taken_by_the_server(tmp_path: Path) -> None:
    found = read(tmp_path, keys.run(["key", "password", "bob"], lambda: "word")).users["bob"]
    assert found.caller == Principal(name="bob", rights=Right.PREDICT)
    assert access.of_password(b"word", found.salt, found.n, found.r, found.p) == found.digest


@pytest.mark.parametrize("flag", ["--rights=all", "--models=a b"])
def test_a_line_that_the_server_would_refuse_is_not_printed(flag: str) -> None:
    with pytest.raises(ConfigError):
        keys.run(["key", "new", "alice", flag], lambda: "")
