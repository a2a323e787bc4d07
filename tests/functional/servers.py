"""The installed command as a process, and real clients of it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import psutil
import pytest
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from tests.process import PATIENCE_S, Process, free_ports

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "models" / "digits"
SAMPLE_FLAGS = ("--model_name=digits", f"--model_path={SAMPLE}")
"""Flags of a server of the sample alone."""
READY = "gRPC server listens on port"
REST_FLAGS = {
    "tensorflow_model_server": "--rest_api_port",
    "kserving": "--http-port",
    "kuberlab-serving": "--http-port",
}
"""What a command calls its REST port, where not --rest_port."""
LOADED = "state=AVAILABLE|models are loading"
"""In the log for each version; the ports open after the last."""
PLAIN = False
"""`verify` of a client without TLS: to read the machine's authorities takes 25 ms each time."""
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Server(Process):
    """A serving process that is ready, with clients for both interfaces."""

    def __init__(
        self,
        *command: str,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        ports: Sequence[int] = (),
        executed: bool = False,
    ) -> None:
        self.port, self.rest_port = ports or free_ports(2)
        rest = REST_FLAGS.get(command[0], "--rest_port")
        ports = (f"--port={self.port}", f"{rest}={self.rest_port}")
        super().__init__(*command, *ports, env=env, cwd=cwd, executed=executed)
        self._opened = ExitStack()

    def ready(self, patience_s: float = PATIENCE_S) -> "Server":
        """Wait until the ports are open, then connect; `patience_s` is that of each version."""
        self.line(READY, patience_s, progress=LOADED)
        target = f"127.0.0.1:{self.port}"
        self.channel = self._opened.enter_context(
            grpc.insecure_channel(target, options=CHANNEL_OPTIONS)
        )
        self.prediction: Any = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model: Any = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.url = f"http://127.0.0.1:{self.rest_port}"
        self.rest = self._opened.enter_context(
            httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False, verify=PLAIN)
        )
        return self

    def status(self, model: str, version: int | None = None) -> Any:
        """Statuses of a model's versions, or of one, over gRPC."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = version
        return self.model.GetModelStatus(request, PATIENCE_S).model_version_status

    def sample(self, series: str) -> float:
        """Value of one series of the metrics page; 0 where it is not there."""
        for line in self.rest.get("/metrics").text.splitlines():
            if line.startswith(f"{series} "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def samples(self, metric: str, model: str) -> dict[str, float]:
        """Samples of a model on the metrics page by their labels, without its name."""
        pattern = rf'^ie_serving_{metric}{{model_name="{model}",?([^}}]*)}} (\S+)$'
        found = re.findall(pattern, self.rest.get("/metrics").text, re.MULTILINE)
        return {labels: float(number) for labels, number in found}

    def pids(self) -> list[int]:
        """Process ids: the arbiter's and its workers'."""
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text()
        return [self.popen.pid, *map(int, children.split())]

    def spent_s(self) -> float:
        """Processor time since its start, in seconds, of all its processes."""
        times = (psutil.Process(pid).cpu_times() for pid in self.pids())
        return sum(each.user + each.system for each in times)

    def close(self) -> None:
        self._opened.close()
        super().close()


def config_flag(file: Path, *models: Mapping[str, Any], **top: Any) -> str:
    """Write a configuration of these models, each with its keys; give the flag that names it."""
    entries = [{"config": each} for each in models]
    file.write_text(json.dumps({"model_config_list": entries, **top}))
    return f"--config_path={file}"


@contextmanager
def rpc_refused(code: str, *phrases: str) -> Iterator[None]:
    """Expect that a call in the block fails with this code, and that its text has `phrases`."""
    with pytest.raises(grpc.RpcError) as error:
        yield
    failed: Any = error.value
    assert failed.code().name == code, failed
    for phrase in phrases:
        assert phrase in failed.details()
