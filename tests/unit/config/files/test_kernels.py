"""Which Python code answers for a model, as configurations say it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ie_serving.config.dialects.ie_serving import parse
from ie_serving.config.files.json_file import parse_config_file
from ie_serving.core.values.errors import ConfigError
from ie_serving.engines.kernels import CodeSource, Instances, KernelOptions
from ie_serving.models.configuration import ModelConfig

ORIGIN = Path("/etc/serving")


def read(**keys: Any) -> ModelConfig:
    entry = {"config": {"name": "m", "base_path": "m", **keys}}
    text = json.dumps({"model_config_list": [entry]})
    (model,) = parse_config_file(text, origin=ORIGIN, place="c.json").models
    return model


@pytest.mark.parametrize(
    ("given", "file", "name"),
    [
        ("k.py", "k.py", ""),
        (" code/k.py:Name ", "code/k.py", "Name"),
        ("/code/k.py:name", "/code/k.py", "name"),
    ],
)
def test_a_kernel_needs_no_driver(given: str, file: str, name: str) -> None:
    engine = read(kernel=given).engine
    place = CodeSource(file=file, name=name, beside=str(ORIGIN))
    assert (engine.driver, engine.of(KernelOptions).source) == ("python", place)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max": 4}, Instances(min=1, max=4, idle_seconds=60.0)),
        ({"min": 2}, Instances(min=2, max=2)),
        ('{"min": 2, "max": 3, "idle_seconds": 0.5}', Instances(min=2, max=3, idle_seconds=0.5)),
    ],
)
def test_instances_have_defaults_for_what_they_leave_out(given: Any, expected: Instances) -> None:
    engine = read(kernel="k.py", isolation="process", instances=given).engine
    assert engine.of(KernelOptions).instances == expected


def test_flags_say_the_same() -> None:
    argv = ["model", "--model_name=m", "--model_path=m", "--kernel=k.py:K", "--timeout_ms=5"]
    (model,) = parse(argv, {}).settings.models
    expected = KernelOptions(
        source=CodeSource(file="k.py", name="K", beside=str(Path.cwd())), timeout_ms=5
    )
    assert (model.engine.driver, model.engine.of(KernelOptions)) == ("python", expected)


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        pytest.param(
            {"kernel": "k.txt"},
            "kernel: 'k.txt' given; expected FILE.py or FILE.py:NAME",
            id="another ending",
        ),
        pytest.param({"kernel": "k.py:"}, "kernel: 'k.py:' given; expected FILE.py", id="no name"),
        pytest.param(
            {"kernel": "k.py:a b"},
            "kernel: 'k.py:a b' given; expected FILE.py",
            id="a name of two words",
        ),
        pytest.param(
            {"kernel": "../k.py"}, "kernel: '../k.py' given; expected FILE.py", id="a path outside"
        ),
        pytest.param({"kernel": 7}, "kernel: 7 given; expected FILE.py", id="a number"),
        pytest.param(
            {"timeout_ms": 5},
            "timeout_ms: it has a meaning for a kernel alone: name the kernel too",
            id="a timeout without a kernel",
        ),
        pytest.param(
            {"kernel": "k.py", "driver": "sklearn"},
            "driver: sklearn given beside a kernel",
            id="a kernel and a driver",
        ),
        pytest.param(
            {"kernel": "k.py", "memory_limit_mb": 5},
            "memory_limit_mb: it has a meaning for isolati",
            id="memory without a process",
        ),
        pytest.param(
            {"kernel": "k.py", "instances": {"max": 4}},
            "instances: it has a meaning for isolation process alone: set that",
            id="instances without a process",
        ),
        pytest.param(
            {"kernel": "k.py", "isolation": "process", "instances": {"min": 3, "max": 2}},
            "instances: max is 2, below min, 3",
            id="fewer at most than at least",
        ),
        pytest.param(
            {"kernel": "k.py", "isolation": "process", "instances": {"many": 2}},
            "instances.many: unknown; expected min, max and idle_seconds",
            id="an unknown key",
        ),
        pytest.param(
            {"kernel": "k.py", "isolation": "process", "instances": {}, "max_concurrency": 2},
            "instances: it says how many processes there are, as max_concurrency",
            id="instances and concurrency",
        ),
        pytest.param(
            {"kernel": "k.py", "isolation": "vm"},
            "isolation: 'vm' given; expected one of inline",
            id="another isolation",
        ),
    ],
)
def test_a_fault_is_told_with_its_key(keys: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**keys)
    (found,) = caught.value.faults
    assert found.removeprefix("model_config_list[0].config.").startswith(fault)
