"""`python -m tests.functional.memory_search.search`: find answers that hold memory of others.

Each request is answered several times: by models that are compiled while fresh memory is filled
with one pattern and with another, and before and after requests of other clients, whose outputs are
then filled too. What differs was not computed from the request. No reference is needed.

It prints what it is about to do, so that its end tells where it was: the test that starts it
(`test_fuzz_memory.py`) goes on behind that.
"""

import argparse
import asyncio
import ctypes
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ie_serving.core.values.errors import LoadFailed, ServingError
from ie_serving.core.values.tensors import SERVING_DEFAULT, Array
from ie_serving.engines.openvino.compiling import programs
from ie_serving.engines.openvino.faults import rewrites
from ie_serving.engines.openvino.graphs.rules import Rules
from ie_serving.engines.run.program import CompiledPrograms
from tests.functional.memory_search.draw import GENERATORS
from tests.functional.memory_search.example import Example, differs
from tests.unit.engines.openvino.models import load

M_PERTURB = -6
"""Of glibc's `mallopt`: fills what is allocated, and what is freed."""
PATTERNS = (0x4B, 0xC9)
"""Bytes; as floats 13 millions and minus 1.6 millions."""
Answer = Mapping[str, Array] | str

FOUND, BEGUN, ENDED = "found", "begun", "ended"
"""First words of the lines that are printed."""


async def ask(model: CompiledPrograms, request: Mapping[str, Array], pattern: int) -> Answer:
    """Give the answer, and fill its memory; or give why there is none."""

    def taken(outputs: Mapping[str, Array]) -> Mapping[str, Array]:
        copied = {name: array.copy() for name, array in outputs.items()}
        for array in outputs.values():
            if array.flags.writeable and array.size:
                array.reshape(-1).view(np.uint8)[...] = pattern
        return copied

    try:
        return await model.infer(model.signatures[SERVING_DEFAULT], request, taken)
    except ServingError as error:
        return str(error)


async def answers(
    directory: Path, requests: Sequence[Mapping[str, Array]], threads: int
) -> list[Answer]:
    """Answer the first request again and again, behind those of other clients."""
    # What is set is not measured, which takes most of a load.
    config = {"INFERENCE_NUM_THREADS": str(threads)}
    mine, *others = requests
    given: list[Answer] = []
    for pattern in PATTERNS:
        ctypes.CDLL(None).mallopt(M_PERTURB, pattern)
        model = load(directory, inference_precision="f32", plugin_config=config)
        try:
            given.append(await ask(model, mine, pattern))
            given.append(await ask(model, mine, pattern))
            for other in others:
                await ask(model, other, pattern)
                given.append(await ask(model, mine, pattern))
        finally:
            model.close()
    return given


def tried(seed: int, names: list[str]) -> tuple[str, set[str]]:
    """Try one example; tell what came of it, and give the operations that were asked."""
    example = Example(seed, names)
    print(BEGUN, example, flush=True)
    with tempfile.TemporaryDirectory() as base:
        try:
            kinds = example.save(Path(base) / "1")
        except RuntimeError:  # OpenVINO does not take such attributes
            return "not made", set()
        try:
            given = asyncio.run(answers(Path(base) / "1", example.requests(), 1 + seed % 2))
        except LoadFailed:
            return "not served", set()
    first = given[0]
    odd = [number for number, each in enumerate(given) if differs(first, each)]
    if odd:
        print(FOUND, example, f"answers {odd} of {len(given)} differ", flush=True)
        return FOUND, kinds
    return ("refused", set()) if isinstance(first, str) else ("right", kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--only", default="", help="an operation")
    parser.add_argument(
        "--without", default="", help="a type whose change in `rewrites.py` is left"
    )
    given = parser.parse_args()
    programs.READ = Rules(rule for rule in rewrites.READ if given.without not in rule.kinds.split())
    names = [given.only] if given.only else sorted(GENERATORS)
    results: dict[str, int] = {}
    covered: set[str] = set()
    until = time.monotonic() + given.seconds
    for seed in range(given.seed, given.seed + given.count):
        if time.monotonic() > until:
            break
        result, kinds = tried(seed, names)
        results[result] = results.get(result, 0) + 1
        covered |= kinds
    print(ENDED, json.dumps({"results": results, "covered": sorted(covered)}), flush=True)


if __name__ == "__main__":
    main()
