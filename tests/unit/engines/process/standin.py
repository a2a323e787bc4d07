"""A worker as the supervised process is, without TensorFlow: what its requests do, they name.

The one input is a string, the command; the one output is what it gives:

    pid        the process id
    count      1, 2, 3, ... since the process started
    hang FIFO  never comes back; says so first where a FIFO is named
    die        the process ends
    fault TEXT TensorFlow's error INVALID_ARGUMENT
    defect     an unexpected exception
    grow       takes 1 GB of memory
    say COUNT  so many letters

A job with `refuse` is refused with that text; one with `hang` never ends; one with `die` ends the
process; one with `once` ends it as well, but only when the file of that name is there.
"""

import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from ie_serving.core.values.codes import Code
from ie_serving.core.values.tensors import Array
from ie_serving.engines.process.link import RemoteFault
from ie_serving.engines.process.protocol import text, words
from ie_serving.engines.process.worker import Job, LoadedJob, serve

COUNT = itertools.count(1)


def load(job: Job) -> LoadedJob:
    if "refuse" in job:
        raise RemoteFault(Code.UNKNOWN, job["refuse"])
    if "hang" in job:
        threading.Event().wait()
    if "die" in job or Path(job.get("once", "/nowhere")).exists():
        os._exit(3)
    return LoadedJob(run, {"pid": os.getpid()})


def run(number: int, tensors: Sequence[Array]) -> Sequence[Array]:
    if number == 1:
        return tensors
    verb, _, said = words(tensors[0]).partition(" ")
    if verb == "hang":
        if said:
            open(said, "wb").close()  # returns when a reader has opened it
        threading.Event().wait()
    if verb == "die":
        os._exit(4)
    if verb == "fault":
        raise RemoteFault(Code.INVALID_ARGUMENT, said)
    if verb == "grow":
        return [text(str(len(bytearray(1 << 30))))]
    if verb == "say":
        return [text("x" * int(said))]
    answers = {"pid": os.getpid, "count": lambda: next(COUNT)}
    return [text(str(answers[verb]()))]


if __name__ == "__main__":
    serve(load)
