"""How each peer is installed and started, with the settings that suited it best."""

from pathlib import Path

from benchmarks import environments
from benchmarks.calls import tfs_rest
from benchmarks.servers import Server, Target

HERE = Path(__file__).parent
ENGINE = ("openvino", "numpy")


def _model_file(target: Target) -> str:
    versions = [path for path in target.repository.iterdir() if path.name.isdecimal()]
    return str(max(versions, key=lambda path: int(path.name)) / "model.xml")


def _variables(target: Target) -> dict[str, str]:
    return {"BENCH_MODEL_FILE": _model_file(target), "BENCH_MODEL": target.model}


def _serve_fastapi(environment: Path, target: Target) -> list[str]:
    return [
        *(str(environment / "bin" / "uvicorn"), "--app-dir", str(HERE), "fastapi_app:app"),
        *("--port", str(target.rest_port), "--loop", "uvloop", "--http", "httptools"),
        *("--no-access-log", "--log-level", "warning"),
    ]


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
