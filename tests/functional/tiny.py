"""Processes of `tiny_server.py`, which a test starts, and holds at a gate."""

import errno
import json
import os
import re
import socket
import sys
import urllib.request
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from tests.process import PATIENCE_S, Process, free_ports

TINY = Path(__file__).with_name("tiny_server.py")
READY = "gRPC server listens on port"


class Tiny(Process):
    """A tiny server and clients of it."""

    def __init__(self, environment: dict[str, str], **options: Any) -> None:
        self.port: int = options.get("port", 0)
        self.rest_port: int = options.get("rest_port", 0)
        super().__init__(sys.executable, TINY, json.dumps(options), env=environment)

    def get(self, path: str = "/") -> bytes:
        url = f"http://127.0.0.1:{self.rest_port}{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
            return bytes(reply.read())

    def call(self, method: str = "Fast", target: str = "") -> bytes:
        with grpc.insecure_channel(target or f"127.0.0.1:{self.port}") as channel:
            return bytes(channel.unary_unary(f"/tiny.Tiny/{method}")(b"", timeout=PATIENCE_S))


Start = Callable[..., Tiny]


class Gate:
    """A FIFO that lets through as many readers as the test says."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDWR)

    def open(self, readers: int = 1) -> None:
        os.write(self._end, b"." * readers)

    def close(self) -> None:
        os.close(self._end)


def both() -> dict[str, int]:
    return dict(zip(("port", "rest_port"), free_ports(2), strict=True))


def refused(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        client.settimeout(PATIENCE_S)
        return client.connect_ex((host, port)) == errno.ECONNREFUSED


def pid_of(line: str) -> int:
    found = re.search(r"pid=(\d+)", line)
    assert found
    return int(found[1])


def time_of(line: str) -> datetime:
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")


# -- start ---------------------------------------------------------------------------------------
