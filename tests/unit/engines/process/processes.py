"""Supervised processes without TensorFlow, for these tests; see `standin.py` for what they do."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ie_serving.core.runtime.waits import Backoff
from ie_serving.engines.process.supervision import ProcessTask, Supervisor
from tests.process import PATIENCE_S

COMMAND = (sys.executable, str(Path(__file__).with_name("standin.py")))
NEVER = Backoff(first_s=1000.0, longest_s=1000.0)
SOON = Backoff(first_s=0.01, longest_s=0.01)

Begin = Callable[..., Supervisor]


def task(backoff: Backoff = NEVER, load_limit_s: float = PATIENCE_S, **job: Any) -> ProcessTask:
    return ProcessTask(
        command=COMMAND,
        kind="stand-in",
        job=json.dumps(job),
        name="stand-in",
        load_limit_s=load_limit_s,
        backoff=backoff,
    )
