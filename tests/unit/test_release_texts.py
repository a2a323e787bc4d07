"""The version, the names and the ways to install that files of a release repeat."""

import re
import subprocess
from pathlib import Path

import yaml

from ie_serving import __version__

ROOT = Path(__file__).parents[2]


def texts() -> dict[str, str]:
    """Every text of the repository by its path, but for locked packages and tests."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", ":!tests", ":!deploy/container/*requirements.txt"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    found = {}
    for name in filter(None, listed.decode().split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b"\0"
        if b"\0" not in content:
            found[name] = content.decode("utf-8", "replace")
    return found


def test_the_chart_and_the_changelog_have_the_packages_version() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/ie-serving/Chart.yaml").read_text())
    assert chart["name"] == "ie-serving"
    assert chart["version"] == chart["appVersion"] == __version__
    newest = re.search(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1].split(",")[0] == __version__


def test_every_text_names_the_same_image() -> None:
    image = re.compile(r"registry\.example\.com/[\w/-]*:([\w.]+)|\bie-serving-(\d[\w.]*)\.tgz")
    found = {name: {a or b for a, b in image.findall(text)} for name, text in texts().items()}
    assert {name: named for name, named in found.items() if named - {__version__}} == {}
    assert {"deploy/verify.sh", "docs/guide/deployment.md"} <= {
        name for name in found if found[name]
    }
    assert not [name for name, text in texts().items() if re.search(r"[^/.]ie-serving-py\b", text)]


def test_no_text_installs_the_package_from_an_index() -> None:
    wrong = re.compile(r"install[^\n|&;]*[\s'\"]ie[_-]serving(?:\[|['\"\s]*$)", re.MULTILINE)
    found = {name: [each[0] for each in wrong.finditer(text)] for name, text in texts().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_security_page_supports_this_version() -> None:
    rows = (ROOT / "SECURITY.md").read_text().partition("## Supported versions")[2]
    assert f"| {__version__.rpartition('.')[0]}.x | yes" in rows
