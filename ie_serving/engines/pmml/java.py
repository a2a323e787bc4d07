"""Manages the Java process that runs all PMML models; the first model starts it.

By default the library opens a port through which any local user can control Java's objects. Here
the process is started with a secret that each connection must present. It ends with the server,
whose pipe it reads. When it dies, the next request starts another and loads the model again.
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
"""Longest call to Java in seconds, including the reading of a document; beyond it the process is
killed, since a hanging call cannot be cancelled. A million rows take some 25 s."""

_PROCESSES: "list[subprocess.Popen[bytes]]" = []
"""The Java process, once it is started."""

log = logging.getLogger(__name__)


class OutputField(NamedTuple):
    """An output field of the model.

    Attributes:
        name: name of the field.
        type: type in the library's words: `string`, `real`, `integer` and so on.
        feature: its meaning, such as `predictedValue` or `probability`.
        value: the class that it is for; None if it is for none.
    """

    name: str
    type: str
    feature: str
    value: str | None


class Scorer:
    """A model in the Java process.

    Args of the constructor:
        content: the document.
        with_label: the outputs include the predicted label or value, even if the document does not
            declare it.

    Raises:
        Exception: of the library, for a document that it cannot read.
        DeadlineExceeded: Java took longer than `LIMIT_S`.

    Attributes:
        inputs: names of the input fields.
        outputs: the output fields.
        function: `classification`, `regression` or another word of PMML.
        targets: names of the predicted fields, by the library's names for them.
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
            DeadlineExceeded: Java took longer than `LIMIT_S`.
            Exception: of the library.
        """
        from py4j.protocol import Py4JError, Py4JJavaError

        for _ in range(2):
            model = self._model
            try:
                with _in_time("the rows were not computed"):
                    return str(model.predict(rows))
            except Py4JJavaError:
                raise  # an error of the model: Java still runs
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
    """Kill Java if the body takes longer than `LIMIT_S`. Raises: DeadlineExceeded."""
    from py4j.protocol import Py4JError

    timer = threading.Timer(LIMIT_S, _kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Py4JError as error:
        if timer.finished.is_set():  # it has fired: `cancel` comes only below
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
    """Raise LoadFailed if Java is missing, with the command that installs it."""
    if _java() is None:
        raise LoadFailed(f"models of PMML are run by Java, not installed: {INSTALL}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")  # here: it is Java's own setting, not this server's
    own = shutil.which(str(Path(home, "bin", "java"))) if home else None
    return own or shutil.which("java")


def _context() -> Any:  # noqa: ANN401  the library's
    """Give the connection to the Java process; start the process if there is none."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from pypmml.base import PMMLContext
    from pypmml.jvm import Py4jGateway

    if PMMLContext.gateway() is None:
        # It logs tracebacks of errors that it raises as well.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        gateway = Py4jGateway()
        port, secret, process = launch_gateway(
            classpath=gateway.classpath,
            javaopts=gateway.java_opts,
            java_path=_java(),
            die_on_exit=True,
            enable_auth=True,
            create_new_process_group=True,  # so that Ctrl-C does not reach it
            return_proc=True,
        )
        _PROCESSES[:] = [process]
        known = GatewayParameters(port=port, auth_token=secret, auto_convert=True)
        Py4jGateway._gateway = JavaGateway(gateway_parameters=known)
        Py4jGateway._jvm = Py4jGateway._gateway.jvm
        PMMLContext(gateway_instance=gateway)
    return PMMLContext.getOrCreate()


def _end(context: object) -> None:
    """Drop a Java process that has ended, unless another was started already."""
    from pypmml.base import PMMLContext

    if PMMLContext._active_pmml_context is context:
        log.error(Event("java process ended, another one is begun", pid=_PROCESSES[0].pid))
        with suppress(Exception):  # it is gone
            PMMLContext.shutdown()
