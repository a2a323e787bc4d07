"""The dashboard and the alert rules of `deploy/` ask for metrics that there are."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/ie_serving.json").read_text())
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
TABLE = PAGE.partition("<!-- metrics: begin -->")[2].partition("<!-- metrics: end -->")[0]
METRIC = re.compile(r"\b(?:ie_serving|process|python_gc)_\w+")
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not there: apt-get install prometheus"
)


def metrics() -> dict[str, set[str]]:
    """Labels by name of sample, as `docs/reference/metrics.md` has them."""
    found = {}
    for name, kind, labels in re.findall(r"^\| `([\w:]+)` \| (\w+) \|([^|]*)\|", TABLE, re.M):
        own = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found[f"{name}_bucket"] = {*own, "le"}
            found[f"{name}_sum"] = found[f"{name}_count"] = own
        else:
            found[name] = own
    return found


METRICS = metrics()
FROM_SCRAPES = {"instance", "job"}


def asked() -> Iterator[Any]:
    for rule in RULES:
        yield pytest.param(rule["expr"], id=rule["alert"])
    for panel in PANELS:
        for target in panel["targets"]:
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")


@pytest.mark.parametrize("expression", list(asked()))
def test_an_expression_asks_for_metrics_and_labels_that_there_are(expression: str) -> None:
    names = set(METRIC.findall(expression))
    assert names <= METRICS.keys()
    known = FROM_SCRAPES.union(*(METRICS[name] for name in names))
    matched = set(re.findall(r"[{,](\w+)[=!]", expression))
    grouped = {
        label for group in re.findall(r"by \(([^)]+)\)", expression) for label in group.split(", ")
    }
    assert matched | grouped <= known


def test_each_alert_says_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_each_alert_is_tested_to_fire() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    fired = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in RULES}


def test_panels_do_not_lie_upon_each_other() -> None:
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def promtool(*arguments: str | Path) -> None:
    found = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


@needs_promtool
def test_the_rules_fire_as_promtool_sees_it() -> None:
    promtool("test", "rules", PROMETHEUS / "alerts_test.yml")


@needs_promtool
def test_promtool_takes_the_configuration() -> None:
    promtool("check", "config", PROMETHEUS / "prometheus.yml")


@needs_promtool
def test_promtool_takes_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    """As recording rules, with Grafana's variables filled in."""
    rules = [
        {"record": f"panel:{number}", "expr": target["expr"].replace("$__rate_interval", "1m")}
        for number, target in enumerate(each for panel in PANELS for each in panel["targets"])
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)
