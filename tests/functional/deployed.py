"""What manifests deploy, and whether they fit the schemas of Kubernetes, without a cluster."""

import copy
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from ie_serving.config.dialects import ie_serving
from ie_serving.config.settings import ParsedCommandLine, Settings

ROOT = Path(__file__).resolve().parents[2]  # that of `servers` would bring TensorFlow
Manifest = dict[str, Any]
VERSIONS = [f"1.{minor}" for minor in range(25, 38)]
"""Of Kubernetes, that are promised."""


def read(path: Path) -> Manifest:
    return copy.deepcopy(_read(path))


# To parse one takes longer than to validate it.
@cache
def _read(path: Path) -> Manifest:
    (manifest,) = yaml.safe_load_all(path.read_text())
    assert isinstance(manifest, dict)
    return manifest


@cache
def custom_schemas() -> dict[str, Any]:
    """Schemas of the kinds that Kubernetes itself has not, by `apiVersion kind`."""
    return dict(yaml.safe_load((Path(__file__).parent / "custom_resources.yaml").read_text()))


def validate(manifest: Manifest, version: str) -> None:
    """Validate strictly: unknown fields are errors.

    Raises:
        kubernetes_validate.ValidationError: a kind of Kubernetes that does not fit.
        jsonschema.ValidationError: a custom kind that does not fit.
    """
    kind = f"{manifest['apiVersion']} {manifest['kind']}"
    own = custom_schemas().get(kind)
    if own is None:
        used = kubernetes_validate.validate(manifest, version, strict=True)
        assert used.startswith(version)
        return
    named = {"$defs": custom_schemas()["$defs"], **own}
    jsonschema.validate(manifest, named)
    if "containers" in manifest["spec"]:  # a runtime's parts of a pod
        parts = {name: manifest["spec"][name] for name in ("containers", "volumes")}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": parts}
        validate(pod, version)


class Deployed:
    """One set of manifests, by kind, and what its Deployment runs."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        given = list(manifests)
        self.services = [each for each in given if each["kind"] == "Service"]
        self.manifests = {each["kind"]: each for each in reversed(given)}
        self.spec: Manifest = self.manifests["Deployment"]["spec"]
        self.pod: Manifest = self.spec["template"]["spec"]
        self.labels: Manifest = self.spec["template"]["metadata"]["labels"]
        (self.container,) = self.pod["containers"]
        self.volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        self.mounts = {each["mountPath"]: each for each in self.container["volumeMounts"]}

    @classmethod
    def of(cls, directory: Path) -> "Deployed":
        return cls(map(read, sorted(directory.glob("*.yaml"), reverse=True)))

    def environ(self, files: Path) -> dict[str, str]:
        """Variables that stand in the pod; paths in mounted volumes begin at `files` instead."""
        return {
            variable["name"]: str(files) * variable["value"].startswith("/") + variable["value"]
            for variable in self.container.get("env", [])
        }

    def settings(self, files: Path) -> Settings:
        return self.parsed(files).settings

    def parsed(self, files: Path) -> ParsedCommandLine:
        """Parse the arguments and the ConfigMap as the server does."""
        mounted = self.mounts["/config"]["name"]
        config = self.manifests["ConfigMap"]
        assert self.volumes[mounted]["configMap"]["name"] == config["metadata"]["name"]
        for name, text in config["data"].items():
            (files / "config" / name).parent.mkdir(exist_ok=True)
            (files / "config" / name).write_text(text)
        command, *arguments = self.container["args"]
        assert command == "ie_serving"
        moved = [argument.replace("=/config/", f"={files}/config/") for argument in arguments]
        parsed = ie_serving.parse(moved, self.environ(files))
        assert parsed.warnings == ()
        return parsed


MANIFESTS = ROOT / "deploy" / "kubernetes"
