"""How each peer is installed and started, with the settings that suited it best.

All serve the same file with OpenVINO's default properties, one process, one infer request.
"""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import openvino as ov

from benchmarks import environments
from benchmarks.calls import oip_grpc, oip_rest, tfs_rest
from benchmarks.servers import Server, Target

HERE = Path(__file__).parent
ENGINE = ("openvino", "numpy")
TRITON_DTYPE = {"f32": "TYPE_FP32", "i32": "TYPE_INT32", "i64": "TYPE_INT64"}


def _model_file(target: Target) -> Path:
    versions = [path for path in target.repository.iterdir() if path.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name)) / "model.xml"


def _variables(environment: Path, target: Target) -> dict[str, str]:
    return {"BENCH_MODEL_FILE": str(_model_file(target)), "BENCH_MODEL": target.model}


def _serve_fastapi(environment: Path, target: Target) -> list[str]:
    return [
        *(str(environment / "bin" / "uvicorn"), "--app-dir", str(HERE), "fastapi_app:app"),
        *("--port", str(target.rest_port), "--loop", "uvloop", "--http", "httptools"),
        *("--no-access-log", "--log-level", "warning"),
    ]


def _serve_kserve(environment: Path, target: Target) -> list[str]:
    return [
        *(str(environment / "bin" / "python"), str(HERE / "kserve_model.py")),
        *("--http_port", str(target.rest_port), "--grpc_port", str(target.grpc_port)),
        *("--workers", "1", "--enable_docs_url", "false"),
    ]


def _serve_mlserver(environment: Path, target: Target) -> list[str]:
    """Write its two settings files; no parallel workers, which cost more than they give here."""
    server = {
        "host": "127.0.0.1",
        "http_port": target.rest_port,
        "grpc_port": target.grpc_port,
        "metrics_port": target.metrics_port,
        "parallel_workers": 0,
        "grpc_max_message_length": 1 << 28,
        "debug": False,
    }
    model = {"name": target.model, "implementation": "mlserver_model.OpenVinoModel"}
    (target.scratch / "settings.json").write_text(json.dumps(server))
    (target.scratch / "model-settings.json").write_text(json.dumps(model))
    shutil.copy(HERE / "mlserver_model.py", target.scratch)
    return [str(environment / "bin" / "mlserver"), "start", str(target.scratch)]


def _install_triton() -> Path:
    """Put the wheel's stub for this Python beside its Python backend, where Triton looks for it."""
    environment = environments.ensure("triton", ("nvidia-pytriton", *ENGINE))
    tree = _site_packages(environment) / "pytriton" / "tritonserver"
    stub = tree / "python_backend_stubs" / _python_version(environment) / _STUB
    beside = tree / "backends" / "python" / _STUB
    if not beside.exists():
        shutil.copy(stub, beside)
    return environment


_STUB = "triton_python_backend_stub"


def _serve_triton(environment: Path, target: Target, most_rows: int = 0) -> list[str]:
    """Write its repository; with `most_rows` its dynamic batcher gathers up to so many rows."""
    repository = target.scratch / "models"
    version = repository / target.model / "1"
    version.mkdir(parents=True)
    shutil.copy(HERE / "triton_model.py", version / "model.py")
    (version.parent / "config.pbtxt").write_text(_triton_config(target, most_rows))
    tree = _site_packages(environment) / "pytriton" / "tritonserver"
    return [
        *(str(tree / "bin" / "tritonserver"), f"--model-repository={repository}"),
        *(f"--backend-directory={tree / 'backends'}", "--allow-metrics=false"),
        *(f"--http-port={target.rest_port}", f"--grpc-port={target.grpc_port}"),
        *("--http-address=127.0.0.1", "--grpc-address=127.0.0.1"),
        f"--backend-config=python,shm-region-prefix-name=bench{target.rest_port}",
    ]


def _triton_config(target: Target, most_rows: int) -> str:
    model = ov.Core().read_model(_model_file(target))
    lines = ['backend: "python"', "instance_group [{kind: KIND_CPU, count: 1}]"]
    if most_rows:
        # No delay: whatever waits when the instance is free goes together, as with our defaults.
        lines += [f"max_batch_size: {most_rows}", "dynamic_batching {}"]
    for field, ports in (("input", model.inputs), ("output", model.outputs)):
        lines += [_triton_tensor(field, port, gathered=most_rows > 0) for port in ports]
    return "\n".join(lines)


def _triton_tensor(field: str, port: ov.Output, *, gathered: bool) -> str:
    """Declare a tensor; where Triton gathers, without the dimension of the batch."""
    sizes = [d.get_length() if d.is_static else -1 for d in port.partial_shape][gathered:]
    dims = f"dims: {sizes}" if sizes else "dims: [1], reshape: {shape: []}"
    dtype = TRITON_DTYPE[port.get_element_type().get_type_name()]
    return f'{field} [{{name: "{port.any_name}", data_type: {dtype}, {dims}}}]'


def _triton_variables(environment: Path, target: Target) -> dict[str, str]:
    """Lead the server to its own libraries, and its Python to the environment."""
    libraries = (
        str(_site_packages(environment) / "nvidia_pytriton.libs"),
        environments.python_libraries(environment),
    )
    return {
        **_variables(environment, target),
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
    }


def _site_packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python3.*/site-packages"))


def _python_version(environment: Path) -> str:
    return _site_packages(environment).parent.name.removeprefix("python")


FASTAPI = Server(
    name="FastAPI",
    install=lambda: environments.ensure(
        "fastapi", (*ENGINE, "fastapi", "uvicorn", "uvloop", "httptools", "orjson")
    ),
    command=_serve_fastapi,
    grpc=None,
    rest=tfs_rest,
    variables=_variables,
)
TRITON = Server(
    "Triton", _install_triton, _serve_triton, oip_grpc, oip_rest, variables=_triton_variables
)
KSERVE = Server(
    name="KServe",
    install=lambda: environments.ensure("kserve", ("kserve", *ENGINE)),
    command=_serve_kserve,
    grpc=oip_grpc,
    rest=oip_rest,
    variables=_variables,
)
MLSERVER = Server(
    name="MLServer",
    install=lambda: environments.ensure("mlserver", ("mlserver", *ENGINE)),
    command=_serve_mlserver,
    grpc=oip_grpc,
    rest=oip_rest,
    variables=_variables,
)


PEERS = (TRITON, FASTAPI, KSERVE, MLSERVER)


def triton_in_batches(most_rows: int) -> Server:
    """Give Triton with its dynamic batcher, for batches of up to so many rows."""
    command = partial(_serve_triton, most_rows=most_rows)
    return replace(TRITON, name="Triton in batches", command=command)
