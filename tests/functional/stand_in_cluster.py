"""Stands in for docker, kind, helm and kubectl where there is no cluster: `PROGRAM ARGUMENTS`.

What a command makes lies in the directory of the variable CLUSTER. `helm` renders the chart with
Helm's own engine and holds the manifests to the schemas of Kubernetes; `kubectl port-forward` is
the server itself, with the arguments and the files that the manifests give its container. A command
that is not known, or that needs what is not there, fails.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import yaml

from tests.functional.deployed import VERSIONS, Deployed, Manifest, validate

STATE = Path(os.environ["CLUSTER"])
IMAGES, MAPS, RELEASES = STATE / "images", STATE / "configmaps", STATE / "releases"


def option(words: Sequence[str], name: str) -> list[str]:
    """Give the values of an option, as `--name value` or `--name=value`."""
    given = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return given + [after for word, after in pairwise(words) if word == name]


def docker(verb: str, *words: str) -> None:
    assert verb == "build" and Path(words[-1], "Dockerfile").is_file()
    (tag,) = option(words, "--tag")
    (STATE.with_name("built")).write_text(tag)


def kind(verb: str, what: str, *words: str) -> None:
    assert option(words, "--name") == ["ie-serving"]
    if (verb, what) == ("create", "cluster"):
        for each in (IMAGES, MAPS, RELEASES):
            each.mkdir(parents=True)
    elif (verb, what) == ("load", "docker-image"):
        assert STATE.with_name("built").read_text() == words[0]
        (IMAGES / words[0].replace("/", "_")).touch()
    else:
        assert (verb, what) == ("delete", "cluster")
        shutil.rmtree(STATE)


def helm(verb: str, release: str, chart: str, *words: str) -> None:
    from deploy.helm import render  # Helm, which is Go

    assert verb == ("upgrade" if (RELEASES / release).exists() else "install")
    assert Path(chart).resolve() == render.CHART
    values: Manifest = {}
    for file in option(words, "--values"):
        values |= yaml.safe_load(Path(file).read_text())
    for each in option(words, "--set"):
        key, _, value = each.partition("=")
        values[key] = yaml.safe_load(value)
    files = render.rendered(values)
    made = [yaml.safe_load(text) for name, text in files.items() if name.endswith(".yaml")]
    for manifest in made:
        validate(manifest, VERSIONS[-1])
    image = Deployed(made).container["image"]
    assert (IMAGES / image).exists(), f"ErrImageNeverPull: {image}"
    (RELEASES / release).write_text(json.dumps(made))


def deployed(name: str) -> Deployed:
    kind_of, _, release = name.partition("/")
    assert kind_of in ("deployment", "service")
    return Deployed(json.loads((RELEASES / release).read_text()))


def kubectl(verb: str, *words: str) -> None:
    if verb == "create":
        assert words[0] == "configmap"
        (MAPS / words[1]).mkdir()
        for file in option(words, "--from-file"):
            shutil.copy(file, MAPS / words[1])
    elif verb == "rollout":
        assert words[0] == "status" and mounted(deployed(words[1]))
    elif verb == "port-forward":
        serve(deployed(words[0]), words[1])
    else:
        assert (verb, *words) == ("cluster-info",) and STATE.exists()


def mounted(of: Deployed) -> Path:
    """Write the files that the container finds, below a directory in the place of the root."""
    root = STATE / "root"
    shutil.rmtree(root, ignore_errors=True)
    for path, mount in of.mounts.items():
        directory = root / path.lstrip("/")
        directory.mkdir(parents=True)
        source = of.volumes[mount["name"]].get("configMap")
        if source and source["name"] == of.manifests["ConfigMap"]["metadata"]["name"]:
            for name, text in of.manifests["ConfigMap"]["data"].items():
                (directory / name).write_text(text.replace("/models/", f"{root}/models/"))
        elif source:
            for item in source["items"]:
                target = directory / item["path"]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(MAPS / source["name"] / item["key"], target)
    return root


def serve(of: Deployed, port: str) -> None:
    """Become the server of the pod, at a port of this machine for the Service's."""
    root = mounted(of)
    command = []
    for word in of.container["args"]:
        name, equals, value = word.partition("=")
        value = {"--rest_port": port, "--port": "0", "--drain_delay_seconds": "0"}.get(name, value)
        is_file = any(value.startswith(path) for path in of.mounts)
        command.append(f"{name}{equals}{root if is_file else ''}{value}")
    program = Path(sys.executable).with_name(command[0])
    os.execv(program, [str(program), *command[1:]])


if __name__ == "__main__":
    {"docker": docker, "kind": kind, "helm": helm, "kubectl": kubectl}[sys.argv[1]](*sys.argv[2:])
