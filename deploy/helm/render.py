"""Renders the chart with Helm's own engine, as a library: no `helm` and no cluster are needed.

    python deploy/helm/render.py [DIRECTORY] # writes deploy/kubernetes: `make manifests`
    python deploy/helm/render.py --each < CASES > RESULTS

CASES is a JSON list of values, one object for each rendering; RESULTS has for each either the
files, `{"files": {NAME: TEXT}}`, or what Helm says against it, `{"refused": TEXT}`. Then follows
what `helm lint --strict` finds. The library, helm-python-sdk, comes with the extra `test`.
"""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

try:
    import yaml
    from helm_python import Chart, HelmError, lint
except ImportError as error:
    sys.exit(f"render.py: error: {error}: use the Python of .venv-dev, or install the extra test")

HERE = Path(__file__).parent
CHART = HERE / "ie-serving"
MANIFESTS = HERE.parent / "kubernetes"
RELEASE = "ie-serving"
SETS: Mapping[str, tuple[str, ...]] = {
    "local": ("local.yaml",),
    "s3": ("s3.yaml",),
    "gcs": ("gcs.yaml",),
    "minio": ("minio.yaml",),
    "production": ("production.yaml",),
    "fleet": ("fleet.yaml",),
    "autoscaling": ("s3.yaml", "keda.yaml"),
    "gateway": ("s3.yaml", "gateway.yaml"),
}
"""Directories of `deploy/kubernetes`, each with the files of values that it is rendered from."""

ALERTS = HERE.parent / "prometheus" / "alerts.yml"
"""The chart carries a copy, since Helm reads no file outside of a chart."""

ONLY: Mapping[str, tuple[str, ...]] = {
    "autoscaling": ("scaledobject.yaml", "servicemonitor.yaml"),
    "gateway": ("httproute.yaml", "grpcroute.yaml"),
}
"""Of these directories only the files that the others lack: they go beside one of a storage."""

HEADER = """\
# Made by `make manifests` from deploy/helm/ie-serving with {values}.
"""


def values(*files: str) -> dict[str, Any]:
    """Read files of `deploy/helm/values`, the later over the earlier, key by key of the top."""
    given: dict[str, Any] = {}
    for name in files:
        given |= yaml.safe_load((HERE / "values" / name).read_text())
    return given


def rendered(given: Mapping[str, Any]) -> dict[str, str]:
    """Render the chart; empty files are left out, and names begin after `templates/`.

    Raises:
        HelmError: the values do not fit the schema, or a template refuses them.
    """
    with Chart.load(CHART) as chart:
        chart.validate_schema(dict(given))
        files = chart.render(dict(given), name=RELEASE, namespace="default")
    return {
        Path(name).name: text.strip() + "\n"
        for name, text in files.items()
        if text.strip() and name.endswith((".yaml", ".txt"))
    }


def manifests() -> Iterator[tuple[str, str]]:
    """Yield path below `deploy/kubernetes` and text of every manifest that is made."""
    for directory, files in SETS.items():
        header = HEADER.format(values=" and ".join(f"values/{name}" for name in files))
        for name, text in rendered(values(*files)).items():
            if name.endswith(".yaml") and name in ONLY.get(directory, (name,)):
                yield f"{directory}/{name}", header + text


def write(target: Path) -> None:
    """Write every manifest below `target`, and remove what is made no longer."""
    for directory in SETS:
        for old in (target / directory).glob("*.yaml"):
            old.unlink()
    for name, text in manifests():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def result(given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"files": rendered(given)}
    except HelmError as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    if sys.argv[1:] == ["--each"]:
        results = [result(given) for given in json.load(sys.stdin)]
        json.dump([*results, lint(CHART, values("local.yaml"), strict=True)], sys.stdout)
    elif any(word.startswith("-") for word in sys.argv[1:]) or sys.argv[2:]:
        print(f"usage: render.py [DIRECTORY]\n\n{__doc__}")
    elif sys.argv[1:]:
        write(Path(sys.argv[1]))
    else:
        shutil.copyfile(ALERTS, CHART / "files" / ALERTS.name)
        write(MANIFESTS)
