"""Metadata from which no program can be made."""

import argparse

import pytest

from ie_serving.commands.remote import gen
from ie_serving.commands.remote.failures import ServerSilent
from ie_serving.commands.remote.rest import RestPort, RestReply
from ie_serving.commands.remote.server_address import ServerAddress

GIVEN = argparse.Namespace(
    model="m", model_name=None, version=None, signature_name="", what="request"
)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": {}}', b"\xff"])
def test_metadata_that_cannot_be_read_are_told_with_the_address(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = RestReply(200, "application/json", body)
    monkeypatch.setattr(RestPort, "ask", lambda *_: reply)
    with pytest.raises(ServerSilent, match="http://a:1"):
        gen.run(GIVEN, ServerAddress(scheme="http", host="a", port=1))
