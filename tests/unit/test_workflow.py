"""The workflow for public CI: by its schema, and by what this repository has."""

import re
import sys
from pathlib import Path

from tests.process import output_of

ROOT = Path(__file__).parent.parent.parent
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def test_it_fits_the_schema_of_workflows() -> None:
    schema = ("--builtin-schema", "vendor.github-workflows")
    output_of(sys.executable, "-m", "check_jsonschema", *schema, str(WORKFLOW))


def test_targets_and_files_that_the_workflow_runs_exist() -> None:
    text = WORKFLOW.read_text()
    targets = re.findall(r"run: make (\w+)", text)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    files = re.findall(r"[ =](deploy/[\w./-]+|\.ci/\w+)", text)
    assert len(files) > 1
    assert all((ROOT / file).exists() for file in files)
