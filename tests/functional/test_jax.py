"""What jax2tf exports answers as JAX does, over both interfaces, or is refused with XLA's name."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.exporting import export
from tests.functional.asking import predict_request, predicted
from tests.functional.servers import ROOT, Server
from tests.functional.storage.serving import several
from tests.process import Process

pytestmark = pytest.mark.skipif(
    find_spec("jax") is None, reason="jax is not installed; see `make drivers`"
)

MAKE_JAX = ROOT / "tests" / "functional" / "formats" / "make_jax.py"
SERVED = ("convolution", "mlp", "recurrent", "transposed")
REFUSED = {"native": "XlaCallModule", "with_xla": "XlaConvV2"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(MAKE_JAX, tmp_path_factory.mktemp("jax"))


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    flags = several(root / "c.json", {name: {"base_path": str(root / name)} for name in SERVED})
    with Server("ie_serving", *flags, "--inference_precision=f32") as server:
        yield server.ready()


@pytest.mark.parametrize("name", SERVED)
def test_an_export_of_jax_answers_as_jax_does(server: Server, root: Path, name: str) -> None:
    asked = np.load(root / f"{name}.npz")
    for rows in (slice(None), slice(1)):
        x, expected = asked["x"][rows], asked["y"][rows]
        (found,) = predicted(server, predict_request(name, x=x)).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        body = json.dumps({"inputs": x.tolist()})
        reply = server.rest.post(f"/v1/models/{name}:predict", content=body)
        np.testing.assert_allclose(reply.json()["outputs"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "culprit"), REFUSED.items())
def test_check_names_the_operation_of_xla_and_the_way_out(
    root: Path, name: str, culprit: str
) -> None:
    with Process("ie_serving", "check", f"--model_path={root / name}") as command:
        assert command.exit_code() == 1
    assert f"cannot be converted: {culprit} " in command.log or f"has no {culprit} " in command.log
    assert "export the model without XLA, from JAX by " in command.log
    assert "enable_xla=False" in command.log
