"""The installed command as a process, and real clients of it."""

import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "models" / "digits"
COMMANDS = Path(sys.executable).parent
PATIENCE_S = 30.0
READY = "gRPC server listens on port"
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def free_ports(count: int) -> list[int]:
    """Ports that nobody holds now; distinct, since all are held until the last is known."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class Process:
    """A command; collects the lines that it logs."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self._unread: queue.Queue[str | None] = queue.Queue()
        self.popen = subprocess.Popen(
            [str(COMMANDS / command[0]), *command[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout
        for line in self.popen.stdout:
            self.lines.append(line.rstrip("\n"))
            self._unread.put(line.rstrip("\n"))
        self._unread.put(None)

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def line(self, pattern: str, patience_s: float = PATIENCE_S) -> str:
        """Wait for the next line that `pattern` is found in."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line = self._unread.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line with {pattern!r} in time:\n{self.log}")
            if line is None:
                pytest.fail(f"ended without a line with {pattern!r}:\n{self.log}")
            if re.search(pattern, line):
                return line

    def exit_code(self, patience_s: float = PATIENCE_S) -> int:
        code = self.popen.wait(patience_s)
        self._reader.join(patience_s)
        return code

    def stop(self) -> int:
        """End it with SIGTERM; kill it if it does not listen."""
        self.popen.terminate()
        try:
            return self.exit_code()
        except subprocess.TimeoutExpired:
            self.popen.kill()
            pytest.fail(f"did not stop:\n{self.log}")


class Server(Process):
    """A serving process that is ready, with clients for both interfaces."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.port, self.rest_port = free_ports(2)
        rest = "--rest_api_port" if command[0] == "tensorflow_model_server" else "--rest_port"
        super().__init__(*command, f"--port={self.port}", f"{rest}={self.rest_port}", env=env)
        self._opened = ExitStack()

    def ready(self, patience_s: float = PATIENCE_S) -> "Server":
        """Wait until the ports are open, then connect."""
        self.line(READY, patience_s)
        target = f"127.0.0.1:{self.port}"
        self.channel = self._opened.enter_context(
            grpc.insecure_channel(target, options=CHANNEL_OPTIONS)
        )
        self.prediction: Any = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model: Any = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.url = f"http://127.0.0.1:{self.rest_port}"
        self.rest = self._opened.enter_context(
            httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)
        )
        return self

    def pids(self) -> list[int]:
        """Process ids: the arbiter's and its workers'."""
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text()
        return [self.popen.pid, *map(int, children.split())]

    def close(self) -> None:
        self._opened.close()
        if self.popen.poll() is None:
            self.stop()
