"""A store that takes connections and never answers: models elsewhere are listed all the same."""

import shutil
import socket
from pathlib import Path

from tests.functional.load import Load
from tests.functional.servers import SAMPLE
from tests.functional.storage.repositories import s3_environ
from tests.functional.storage.servers import ADMIN
from tests.functional.storage.serving import Launcher, serves, several
from tests.process import PATIENCE_S, until

MODELS = 40
SOON_S = 10.0
"""Two listings of a local directory and a load take one. Listed behind forty that time out, it was
seen 28 s later."""


def test_forty_models_on_a_store_that_hangs_delay_no_local_one(
    launcher: Launcher, tmp_path: Path
) -> None:
    shutil.copytree(SAMPLE / "1", tmp_path / "m" / "1")
    local = {"digits": str(tmp_path / "m")}
    file = tmp_path / "config.json"
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as silent:
        launcher.environ = s3_environ("s3", f"http://127.0.0.1:{silent.getsockname()[1]}", ADMIN)
        server = launcher.serve(*several(file, local))
        several(file, local | {f"m{n}": f"s3://bucket/m{n}" for n in range(MODELS)})
        silent.settimeout(PATIENCE_S)
        held = silent.accept()[0]  # a listing has begun, and waits
        with held, Load(server) as load:
            for version in (2, 3):
                shutil.copytree(SAMPLE / "2", tmp_path / f"made-{version}")
                (tmp_path / f"made-{version}").rename(tmp_path / "m" / str(version))
                until(lambda version=version: serves(server, version), SOON_S)  # type: ignore[misc]
            several(file, local | {"new": str(SAMPLE)})
            until(lambda: serves(server, 2, "new"), SOON_S)
        assert load.failures == []
