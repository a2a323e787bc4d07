"""The nine steps of docs/guide/production.md, from nothing to a deployment, typed as they stand.

Changed are only ports, which come from the system, and how long is waited: between scrapes, and
before the stop. One test, since each step stands on those before it.
"""

import json
import os
import re
import shutil
import signal
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.functional.servers import ROOT
from tests.process import COMMANDS, PATIENCE_S, Process, free_ports, output_of, until

PAGE = (ROOT / "docs" / "guide" / "production.md").read_text()
COPY, SAY, KEYS, ENCRYPT, START, TRY, WATCH, UNIT = re.findall(
    r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
)
ENVIRONMENT = {"PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}", "no_proxy": "localhost"}
NEEDED = ("curl", "openssl", "prometheus", "promtool")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"the steps use {', '.join(NEEDED)}"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("examples", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def typed(commands: str, folder: Path) -> str:
    return "\n".join(output_of("/bin/sh", "-ec", commands, env=ENVIRONMENT, cwd=folder))


@contextmanager
def running(command: str, folder: Path) -> Iterator[Process]:
    """Run what the page puts into the background, or lets run in its terminal."""
    exact = command.strip().removesuffix("&")
    process = Process("/bin/sh", "-ec", f"exec {exact}", env=ENVIRONMENT, cwd=folder)
    with closing(process):
        yield process


@pytest.mark.deployed
def test_the_steps_lead_to_a_deployment(root: Path) -> None:
    grpc_port, rest_port, own_port = free_ports(3)
    checked = typed(COPY + SAY + KEYS + ENCRYPT, root)
    assert "digits" in checked
    trial = root / "trial"
    flags = START.replace("--port 9000", f"--port {grpc_port}")
    flags = flags.replace("--rest_port 8000", f"--rest_port {rest_port}")
    flags = flags.replace("--drain_delay_seconds 5", "--drain_delay_seconds 0.1")
    with running(flags, trial) as server:
        asked = TRY.replace("localhost:8000", f"localhost:{rest_port}").replace(
            "sleep 1", "sleep .1"
        )
        codes = re.findall(r"(?:^|\})(\d{3})$", typed(asked, trial), re.MULTILINE)
        assert codes == re.findall(r"# (\d{3})$", TRY, re.MULTILINE) == ["401", "200", "200", "403"]
        is_watched(trial, rest_port, own_port)
        with httpx.Client(
            base_url=f"https://localhost:{rest_port}",
            verify=ssl.create_default_context(cafile=trial / "tls.crt"),
            headers={"x-api-key": (trial / "app.key").read_text().strip()},
            timeout=PATIENCE_S,
            trust_env=False,
        ) as rest:
            is_rotated(trial, server, rest)
            is_changed(trial, server, rest)
        server.send(signal.SIGTERM)
        assert server.popen.wait(PATIENCE_S) == 0
    lines = map(json.loads, (trial / "server.log").read_text().splitlines())
    stopped = [each["fields"] for each in lines if each["message"] == "server has stopped"]
    assert [fields["requests_cut"] for fields in stopped] == [0, 0]  # of two workers


def is_watched(trial: Path, rest_port: int, own_port: int) -> None:
    """Check step 6: Prometheus reads the metrics, and has the alerts."""
    *prepared, started = WATCH.strip().splitlines()
    text = "\n".join(prepared).replace("localhost:8000", f"localhost:{rest_port}")
    assert "SUCCESS" in typed(text.replace("scrape_interval: 15s", "scrape_interval: 1s"), trial)
    flags = f"{started} --storage.tsdb.path=data --web.listen-address=127.0.0.1:{own_port}"
    url = f"http://127.0.0.1:{own_port}/api/v1"
    with running(flags, trial) as prometheus, httpx.Client(trust_env=False) as client:
        prometheus.line("Server is ready to receive web requests")
        asked = {"query": 'ie_serving_requests_total{model_name="digits",code="OK"}'}
        until(lambda: client.get(f"{url}/query", params=asked).json()["data"]["result"])
        groups = client.get(f"{url}/rules").json()["data"]["groups"]
        assert any(rule["type"] == "alerting" for group in groups for rule in group["rules"])


def is_rotated(trial: Path, server: Process, rest: httpx.Client) -> None:
    """Check step 7: the log that was moved away is let go, and another one begins."""
    log = trial / "access.log"
    log.rename(trial / "access.log.1")
    assert "digits" in (trial / "access.log.1").read_text()
    server.send(signal.SIGUSR1)
    until(log.exists)
    rest.get("/v1/models/digits").raise_for_status()
    until(lambda: "digits" in log.read_text())


def is_changed(trial: Path, server: Process, rest: httpx.Client) -> None:
    """Check step 8: a new directory is a new version; whose line is gone is a stranger."""
    shutil.copytree(trial / "models/digits/2", trial / "models/digits/3")
    until(lambda: rest.get("/v1/models/digits/versions/3").status_code == 200)
    versions = "/v1/models/digits/versions/3"
    until(lambda: '"AVAILABLE"' in rest.get(versions).text)
    keys = (trial / "keys").read_text().splitlines()
    (trial / "keys").write_text("\n".join(line for line in keys if not line.startswith("app")))
    server.send(signal.SIGHUP)
    until(lambda: rest.get(versions).status_code == 401)


def test_the_unit_starts_what_the_steps_start() -> None:
    """Its command has the program, the ports and the file; the rest of step 4 is added."""
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    program, kind, *flags = command.split()
    assert (Path(program).name, kind) == ("ie_serving", "config")
    assert {word for word in flags if word.startswith("--")} <= set(START.split())
