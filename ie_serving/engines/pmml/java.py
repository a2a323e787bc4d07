"""The Java process that runs the models of PMML: one for all of them, begun with the first.

The library would open a port of this machine to whoever finds it, and Java's objects with it. Here
the process is begun with a secret that each connection has to bring. It ends with this one, whose
pipe it reads. When it dies, the next request begins another and reads the model again.
"""

import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ie_serving.core.values.errors import DeadlineExceeded, LoadFailed, ServingError
from ie_serving.telemetry.log.logs import Event

INSTALL = "apt-get install default-jre-headless"
_LOCK = threading.RLock()

LIMIT_S = 120.0
"""Longest time of one question to Java, in seconds, the reading of a document among them; then the
process is ended, since nothing else ends what hangs there. A million rows take some 25 s."""

_PROCESSES: "list[subprocess.Popen[bytes]]" = []
"""The Java process, if one has been begun."""

log = logging.getLogger(__name__)


class OutputField(NamedTuple):
    """A field that the model gives.

    Attributes:
        name: of the field.
        type: the library's word: `string`, `real`, `integer` and so on.
        feature: what it is, such as `predictedValue` or `probability`.
        value: of which class; None where it is of none.
    """

    name: str
    type: str
    feature: str
    value: str | None


class Scorer:
    """A model in the Java process.

    Args of the constructor:
        content: the document.
        with_label: the outputs include the predicted label or value, whether the document names it
            among its outputs or not.

    Raises:
        Exception: of the library, for what it cannot read.
        DeadlineExceeded: it took too long.

    Attributes:
        inputs: names of the fields that it reads.
        outputs: what it gives.
        function: `classification`, `regression` or another word of PMML.
        targets: names of the predicted fields, by the names that the library gives them.
    """

    def __init__(self, content: str, *, with_label: bool = False) -> None:
        self._content = content
        self._with_label = with_label
        self._read()
        model = self._model
        self.inputs = tuple(str(each) for each in model.inputNames)
        self.function = str(model.functionName)
        self.targets = {f"predicted_{each}": str(each) for each in model.targetNames}
        self.outputs = tuple(
            OutputField(str(each.name), str(each.dataType), str(each.feature), each.call("value"))
            for each in model.outputFields
        )

    def score(self, rows: str) -> str:
        """Compute rows, in JSON: `{"columns": [...], "data": [[...]]}`, both ways.

        Raises:
            ServingError: Java ended twice.
            DeadlineExceeded: it took too long.
            Exception: of the library.
        """
        from py4j.protocol import Py4JError, Py4JJavaError

        for _ in range(2):
            model = self._model
            try:
                with _in_time("the rows were not computed"):
                    return str(model.predict(rows))
            except Py4JJavaError:
                raise  # of the model: Java is there
            except Py4JError:
                self._renew(model)
        raise ServingError("the Java process of the model ended while it computed; ask again")

    def _read(self) -> None:
        from pypmml import Model

        with _LOCK:
            self._context = _context()
            with _in_time("the document was not read"):
                self._model: Any = Model.fromString(self._content)
                if self._with_label:
                    self._model.setSupplementOutput(True)

    def _renew(self, dead: object) -> None:
        with _LOCK:
            if self._model is dead:  # else another thread has done it
                _end(self._context)
                self._read()


@contextmanager
def _in_time(what: str) -> Iterator[None]:
    """End Java where this takes too long. Raises: DeadlineExceeded."""
    from py4j.protocol import Py4JError

    timer = threading.Timer(LIMIT_S, _kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Py4JError as error:
        if timer.finished.is_set():  # by itself: it is cancelled below
            raise DeadlineExceeded(
                f"{what} within {LIMIT_S:g} s, and the Java process was ended; the next request"
                " begins another"
            ) from error
        raise
    finally:
        timer.cancel()


def _kill() -> None:
    for process in _PROCESSES:
        process.kill()


def check() -> None:
    """Raise LoadFailed where there is no Java, with the line that installs it."""
    if _java() is None:
        raise LoadFailed(f"models of PMML are run by Java, not installed: {INSTALL}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    own = shutil.which(str(Path(home, "bin", "java"))) if home else None
    return own or shutil.which("java")


def _context() -> Any:  # noqa: ANN401  the library's
    """Give what talks to the Java process, and begin that where there is none."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from pypmml.base import PMMLContext
    from pypmml.jvm import Py4jGateway

    if PMMLContext.gateway() is None:
        # Its lines are tracebacks of what is raised here as well.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        gateway = Py4jGateway()
        port, secret, process = launch_gateway(
            classpath=gateway.classpath,
            javaopts=gateway.java_opts,
            java_path=_java(),
            die_on_exit=True,
            enable_auth=True,
            create_new_process_group=True,  # so that Ctrl-C leaves it to this process
            return_proc=True,
        )
        _PROCESSES[:] = [process]
        known = GatewayParameters(port=port, auth_token=secret, auto_convert=True)
        Py4jGateway._gateway = JavaGateway(gateway_parameters=known)
        Py4jGateway._jvm = Py4jGateway._gateway.jvm
        PMMLContext(gateway_instance=gateway)
    return PMMLContext.getOrCreate()


def _end(context: object) -> None:
    """Let go of a Java process that has ended, unless another one was begun already."""
    from pypmml.base import PMMLContext

    if PMMLContext._active_pmml_context is context:
        log.error(Event("java process ended, another one is begun"))
        with suppress(Exception):  # it is not there any more
            PMMLContext.shutdown()
