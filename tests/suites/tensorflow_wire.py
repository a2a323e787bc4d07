"""A sample of the operations of TensorFlow in open sizes, asked over gRPC Predict."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.functional.servers import Server
from tests.suites import serving
from tests.suites.asking import Refused, over_predict
from tests.suites.judging import Array, Kind, Outcome
from tests.suites.tensorflow_asking import Found, compared, short
from tests.suites.tensorflow_graphs import BASE, FINITE, Graph, Request, Test

COMMAND = ("ie_serving", "config", "--inference_precision=f32")
EACH = 17
"""Of so many tests one is in the sample."""


def asked_over_the_wire(tests: Sequence[Test]) -> Iterator[tuple[Test, Found]]:
    """Serve a sample by one server, and give what became of each of it."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        graphs = {}
        for number, test in enumerate(tests[::EACH]):
            graph = _written(test, directory / f"m{number}" / "1")
            if graph is not None:
                graphs[f"m{number}"] = (test, graph)
        with serving.serving(COMMAND, directory, list(graphs), {}) as server:
            causes = serving.settled(server, len(graphs))
            for name, (test, graph) in graphs.items():
                cause = causes.get(name, "its load does not end")
                outcome = (
                    Outcome(Kind.REFUSED, short(cause)) if cause else _asked(server, name, graph)
                )
                yield test, Found(outcome, "")


def _written(test: Test, directory: Path) -> Graph | None:
    graph = Graph.of(test, "open", "held", BASE)
    if graph is not None:
        with graph.session() as session:
            graph.save(directory, session)
    return graph


def _asked(server: Server, name: str, graph: Graph) -> Outcome:
    with graph.session() as session:
        answers = {each: graph.answer(session, each) for each in _REQUESTS}
    for request, answer in answers.items():
        if answer is None:
            continue
        values = graph.values(request)
        try:
            got = over_predict(server, name, values, answer)
        except Refused as error:
            return Outcome(Kind.REFUSED, f"{request.values}: {error}")
        outcome = compared(got, _as_sent(answer), values, request)
        if outcome.kind is not Kind.RIGHT:
            return Outcome(outcome.kind, f"{request.values}: {outcome.cause}")
    return Outcome(Kind.RIGHT)


_REQUESTS = [Request(values, BASE) for values in FINITE]


def _as_sent(answer: Mapping[str, Array]) -> dict[str, Array]:
    """Give texts as `over_predict` does, which decodes them."""
    return {
        name: np.vectorize(bytes.decode, otypes=[object])(each) if _is_text(each) else each
        for name, each in answer.items()
    }


def _is_text(answer: Any) -> bool:
    return bool(np.asarray(answer).dtype == object)
