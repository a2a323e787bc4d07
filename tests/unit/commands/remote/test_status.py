"""What `status` makes of a server's answers, and what it says of those that are none."""

from typing import Any

import pytest

from ie_serving.commands.remote.failures import ServerRefused, ServerSilent
from ie_serving.commands.remote.models import Model, ShownVersion, all_models, one_model
from ie_serving.commands.remote.reload import changed, states_of
from ie_serving.commands.remote.status import table

AVAILABLE = {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK"}}


class Server:
    """Answers by path; with an HTTP status in place of a document it refuses."""

    address: Any = type("Place", (), {"url": "http://server"})

    def __init__(self, **documents: Any) -> None:
        self._documents = documents

    def json(self, path: str) -> Any:
        found = self._documents.get(path.rpartition("/")[2], 404)
        if isinstance(found, int):
            raise ServerRefused(f"{path} answers {found}", found)
        return found


def test_a_server_of_the_plain_api_tells_states_alone() -> None:
    server: Any = Server(m={"model_version_status": [AVAILABLE]})
    assert one_model(server, "m") == Model("m", (ShownVersion(2, "AVAILABLE"),))
    with pytest.raises(ServerRefused, match="name a model to ask for that one"):
        all_models(server)


def test_a_caller_without_the_right_to_details_gets_states() -> None:
    server: Any = Server(config={"m": {"model_version_status": [AVAILABLE]}}, details=403)
    assert all_models(server) == [Model("m", (ShownVersion(2, "AVAILABLE"),))]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param([], id="an empty list"),
        pytest.param([1], id="a list"),
        pytest.param("m", id="a text"),
        pytest.param({"m": 3}, id="a number for a model"),
        pytest.param({"m": {}}, id="a model without a status"),
        pytest.param(
            {"m": {"model_version_status": [{"version": "x"}]}}, id="a version that is no number"
        ),
    ],
)
def test_an_answer_that_is_no_status_is_told(odd: Any) -> None:
    server: Any = Server(config=odd)
    with pytest.raises(ServerSilent, match="something else than states of versions"):
        all_models(server)


def test_the_table_shows_models_and_their_states() -> None:
    models = [
        Model("bare", trouble="no version has been seen yet"),
        Model(
            "m",
            (
                ShownVersion(12, "LOADING", "no such\noperation"),
                ShownVersion(
                    3, "AVAILABLE", labels=("old", "stable"), is_default=True, memory=1_250_000
                ),
            ),
            {"next": 13},
        ),
    ]
    assert table(models).splitlines() == [
        "MODEL  VERSION  STATE      LABELS      MEMORY  CAUSE",
        "bare   -        -                              no version has been seen yet",
        "m      12       LOADING                        no such operation",
        "m      3*       AVAILABLE  old,stable  1.2 MB",
        "m      13       -          next                the label waits for this version",
    ]
    assert table([]) == "no models are configured"


def test_states_that_a_reload_has_changed_are_listed() -> None:
    before = [
        Model("gone"),
        Model("m", (ShownVersion(1, "AVAILABLE", labels=("stable",)),), {"n": 3}),
    ]
    after = [
        Model(
            "m",
            (ShownVersion(2, "AVAILABLE", labels=("stable",)), ShownVersion(1, "END")),
            {"n": 3},
        ),
        Model("new", (ShownVersion(1, "AVAILABLE"),)),
    ]
    assert [*changed(states_of(before), states_of(after))] == [
        "model gone: removed",
        "model m, label stable: 1 -> 2",
        "model m, version 1: AVAILABLE -> END",
        "model m, version 2: none -> AVAILABLE",
        "model new: added",
        "model new, version 1: none -> AVAILABLE",
    ]
    assert [*changed(states_of(after), states_of(after))] == []
