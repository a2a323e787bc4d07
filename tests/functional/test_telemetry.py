"""Libraries that would send what they are used for to their makers do not do so in this server."""

from pathlib import Path

import pytest

from tests.functional.servers import Server
from tests.unit.engines.onnxruntime.test_driver import write_add_one

RUNS_A_CI = (
    *("CI", "TF_BUILD", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "TRAVIS", "JENKINS_URL"),
    *("CODEBUILD_BUILD_ID", "BUILDKITE", "TEAMCITY_VERSION", "APPVEYOR"),
)
"""Variables by which onnxruntime's library recognizes a machine of a CI, where it sends nothing."""


@pytest.mark.parametrize(("wish", "sends"), [({}, False), ({"ORT_DISABLE_TELEMETRY": "0"}, True)])
def test_onnxruntime_keeps_no_identifier_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: dict[str, str], sends: bool
) -> None:
    """It writes one before it sends anything; a user's own word counts."""
    for name in RUNS_A_CI:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "model" / "1").mkdir(parents=True)
    write_add_one(tmp_path / "model" / "1")
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home" / ".cache")}
    model = ("--model_name=m", f"--model_path={tmp_path / 'model'}")
    with Server("ie_serving", "model", *model, env=home | wish) as server:
        reply = server.ready().rest.post("/v1/models/m:predict", json={"instances": [[1.0, 2.0]]})
        assert reply.json() == {"predictions": [[2.0, 3.0]]}
    assert bool([*(tmp_path / "home").rglob("deviceid")]) is sends
