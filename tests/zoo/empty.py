"""Answers every request of gRPC with so many zeros, and computes nothing. Run as a program.

What a request takes here is the client's part, the sockets' and gRPC's: no server takes less. It is
gRPC's own server in Python, whose core is C++.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc


class Anything(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Takes the bytes of every method."""

    def __init__(self, reply: bytes) -> None:
        self._answer = grpc.unary_unary_rpc_method_handler(lambda request, context: reply)

    def service(self, handler_call_details: Any) -> Any:
        """Give the handler of a call."""
        return self._answer


if __name__ == "__main__":
    options = [("grpc.max_receive_message_length", -1)]
    server = grpc.server(
        ThreadPoolExecutor(2), [Anything(bytes(int(sys.argv[2])))], options=options
    )
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    server.wait_for_termination()
