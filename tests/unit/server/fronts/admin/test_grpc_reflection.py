"""Reflection as grpcurl asks for it, in both versions of its protocol."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2

from ie_serving.core.values.errors import InvalidRequest
from ie_serving.server.fronts.admin import grpc_health
from ie_serving.server.fronts.admin.grpc_reflection import NAMES, ReflectionService
from ie_serving.server.transport.grpc.services import StreamingMethod

NEVER: Any = None

METHODS = {grpc_health.NAME: "Check", **dict.fromkeys(NAMES, "ServerReflectionInfo")}
Request = reflection_pb2.ServerReflectionRequest


async def answers(*payloads: bytes, name: str = NAMES[0]) -> list[Any]:
    pool = DescriptorPool()
    pool.AddSerializedFile(grpc_health.DESCRIPTOR)
    method = ReflectionService([grpc_health.NAME], pool).services()[name]["ServerReflectionInfo"]
    assert isinstance(method, StreamingMethod)

    async def requests() -> AsyncIterator[bytes]:
        for payload in payloads:
            yield payload

    kind = reflection_pb2.ServerReflectionResponse
    return [kind.FromString(reply) async for reply in method.converse(requests(), NEVER)]


@pytest.mark.parametrize("name", NAMES)
async def test_services_are_listed(name: str) -> None:
    """Those of the server and reflection itself."""
    (reply,) = await answers(Request(list_services="").SerializeToString(), name=name)
    listed = {service.name for service in reply.list_services_response.service}
    assert listed == {grpc_health.NAME, *NAMES}


async def test_a_service_is_described_by_its_file() -> None:
    asked = Request(file_containing_symbol=grpc_health.NAME)
    (reply,) = await answers(asked.SerializeToString())
    (written,) = reply.file_descriptor_response.file_descriptor_proto
    file = descriptor_pb2.FileDescriptorProto.FromString(written)
    assert file.service[0].name == "Health"


@pytest.mark.parametrize("service", [grpc_health.NAME, *NAMES])
async def test_services_and_their_methods_are_described(service: str) -> None:
    """Reflection itself among them; both ask for the file of the service."""
    files = []
    for symbol in (service, f"{service}.{METHODS[service]}"):
        asked = Request(file_containing_symbol=symbol)
        (reply,) = await answers(asked.SerializeToString())
        files.append(list(reply.file_descriptor_response.file_descriptor_proto))
    assert files[0] == files[1]
    file = descriptor_pb2.FileDescriptorProto.FromString(files[0][0])
    assert f"{file.package}.{file.service[0].name}" == service


@pytest.mark.parametrize("symbol", [f"{grpc_health.NAME}.None", "none.Such.Method", "none"])
async def test_a_symbol_that_does_not_exist_is_not_found(symbol: str) -> None:
    (reply,) = await answers(Request(file_containing_symbol=symbol).SerializeToString())
    assert reply.error_response.error_code == 5


async def test_several_questions_in_one_call() -> None:
    """An unknown name is an answer, not the end."""
    unknown = Request(file_containing_symbol="none.Such").SerializeToString()
    replies = await answers(unknown, Request(list_services="").SerializeToString())
    assert replies[0].error_response.error_code == 5
    assert replies[1].list_services_response.service


async def test_bytes_that_are_no_request_are_invalid() -> None:
    """The client's fault, not a defect with a traceback in the log."""
    with pytest.raises(InvalidRequest):
        await answers(b"\xff\xff")
