"""Ids mean one sequence over all versions of a model, and one timer drops what is idle."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from ie_serving.core.values.errors import AlreadyExists, NotFound, SequenceElsewhere
from ie_serving.engines.layers import sequence_family
from ie_serving.engines.layers.sequence import Control
from ie_serving.engines.layers.sequence_family import Families, Family
from ie_serving.engines.layers.sequence_table import SequenceTable
from ie_serving.telemetry.metrics.layers import SequenceMetrics
from ie_serving.telemetry.metrics.page import Metrics

NONE, START, END = Control.NONE, Control.START, Control.END
EVERY_S = 300.0


class Clock:
    """Calls back when the test says that time has passed."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Any:
        self.waiting.append((delay_s, call))
        return self

    def cancel(self) -> None:
        self.waiting.clear()

    def pass_one(self) -> int:
        """Let one interval pass; give how many turns of the loop the scan takes."""
        ((delay_s, call),) = self.waiting
        assert delay_s == EVERY_S
        turns = 0
        while delay_s in (EVERY_S, 0.0):
            self.waiting.clear()
            call()
            turns += 1
            if not self.waiting or self.waiting[0][0]:
                break
            ((delay_s, call),) = self.waiting
        return turns


def version(family: Family, number: int, most: int = 100) -> SequenceTable:
    made = SequenceTable(most, family)
    made.serve(number)
    return made


def start(table: SequenceTable, number: int) -> None:
    table.answered(START, table.admit(START, number, "s"))


def missing(table: SequenceTable, number: int) -> str:
    with pytest.raises(NotFound) as error:
        table.admit(NONE, number, "s")
    return str(error.value)


def family() -> Family:
    return Family("m", SequenceMetrics())


def test_an_id_belongs_to_the_version_that_started_it() -> None:
    versions = family()
    old, new = version(versions, 1), version(versions, 2)
    start(old, 5)
    with pytest.raises(AlreadyExists, match="5 on version 1"):
        new.admit(START, 5, "s")
    with pytest.raises(SequenceElsewhere, match="5 was started on version 1") as elsewhere:
        new.admit(NONE, 5, "s")
    assert elsewhere.value.version == 1
    assert old.admit(NONE, 5, "s").number == 5


def test_after_the_unload_of_its_version_a_client_is_told_of_it() -> None:
    versions = family()
    old, new = version(versions, 1), version(versions, 2)
    start(old, 5)
    old.close()
    with pytest.raises(NotFound, match="5, version 1, which had it, is unloaded: start a new one"):
        new.admit(NONE, 5, "s")
    assert versions.metrics.dropped == {"unloaded": 1}
    start(new, 5)
    new.answered(END, new.admit(END, 5, "s"))
    with pytest.raises(NotFound, match=r"does not exist: 5; start it by sequence_control_input 1$"):
        new.admit(NONE, 5, "s")


def test_a_warm_up_is_apart_from_clients_and_forgotten() -> None:
    versions = family()
    old = version(versions, 1)
    start(old, 1)
    new = SequenceTable(100, versions)
    start(new, 1)  # as a golden request of every version does
    with pytest.raises(NotFound):
        new.admit(NONE, 9, "s")
    new.serve(2)
    assert len(new) == 0
    assert old.admit(NONE, 1, "s").number == 1


def test_a_version_that_is_only_let_go_of_is_forgotten() -> None:
    versions = family()
    old, new = version(versions, 1), version(versions, 2)
    start(old, 5)
    del old
    gc.collect()
    start(new, 5)


def test_memory_of_ended_sequences_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_family, "MOST_REMEMBERED", 3)
    versions = family()
    old, new = version(versions, 1), version(versions, 2)
    for number in range(1, 6):
        start(old, number)
    old.close()
    said = {number: missing(new, number) for number in range(1, 6)}
    assert [number for number, text in said.items() if "version 1" in text] == [3, 4, 5]


def test_one_timer_scans_the_sequences_of_all_models() -> None:
    clock = Clock()
    families = Families(EVERY_S, clock.call_later)
    first, second = (families.of(name, SequenceMetrics()) for name in ("a", "b"))
    assert clock.waiting == []
    tables = [version(first, 1), version(first, 2), version(second, 1)]
    for number, table in enumerate(tables, 1):
        start(table, number)
    clock.pass_one()
    tables[0].admit(NONE, 1, "s")
    clock.pass_one()
    assert [len(table) for table in tables] == [1, 0, 0]
    assert (first.metrics.dropped, second.metrics.dropped) == ({"idle": 1}, {"idle": 1})
    with pytest.raises(NotFound, match="2, it was dropped since no request for it had come"):
        tables[1].admit(NONE, 2, "s")
    for table in tables:
        table.close()
    clock.pass_one()
    assert clock.waiting == []  # the last has left


def test_many_idle_sequences_are_dropped_in_several_turns() -> None:
    clock = Clock()
    versions = Families(EVERY_S, clock.call_later).of("m", SequenceMetrics())
    table = version(versions, 1, most=1000)
    for number in range(1, 251):
        start(table, number)
    assert clock.pass_one() == 1
    assert clock.pass_one() == 4
    assert (len(table), versions.metrics.dropped) == (0, {"idle": 250})


def test_nothing_is_scanned_where_the_interval_is_0_or_the_server_stops() -> None:
    clock = Clock()
    versions = Families(0.0, clock.call_later).of("m", SequenceMetrics())
    version(versions, 1)
    assert clock.waiting == []
    families = Families(EVERY_S, clock.call_later)
    kept = families.of("m", SequenceMetrics())
    table = version(kept, 1)
    families.close()
    assert clock.waiting == []
    table.close()


def test_a_model_that_is_configured_anew_keeps_its_family() -> None:
    families = Families(0.0)
    metrics = SequenceMetrics()
    first = families.of("m", SequenceMetrics())
    assert families.of("m", metrics) is first
    assert first.metrics is metrics
    assert families.of("other", metrics) is not first


def test_the_page_shows_what_is_live_and_what_was_dropped() -> None:
    metrics = Metrics()
    versions = Family("m", metrics.add("m").sequences)
    metrics.add("plain")
    assert "sequence" not in metrics.text()
    old, new = version(versions, 1), version(versions, 2)
    start(old, 1)
    start(old, 2)
    start(new, 3)
    old.close()
    lines = [
        line for line in metrics.text().splitlines() if "_sequence" in line and "HELP" not in line
    ]
    assert lines == [
        "# TYPE ie_serving_sequences gauge",
        'ie_serving_sequences{model_name="m"} 1',
        "# TYPE ie_serving_sequence_state_bytes gauge",
        'ie_serving_sequence_state_bytes{model_name="m"} 0',
        "# TYPE ie_serving_sequences_dropped_total counter",
        'ie_serving_sequences_dropped_total{model_name="m",reason="idle"} 0',
        'ie_serving_sequences_dropped_total{model_name="m",reason="unloaded"} 2',
    ]
