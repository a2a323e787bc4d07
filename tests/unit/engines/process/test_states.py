"""Every event in every stage of a child process."""

from ie_serving.engines.process.supervision import TRANSITIONS, ProcessEvent, ProcessStage
from tests.unit.moves import check_moves

# After a close, the end of the process, and of a load, still arrive.
MOVES = """
          READY    DIED     DUE       CLOSE
STARTING  SERVING  PAUSING  .         CLOSED
SERVING   .        PAUSING  .         CLOSED
PAUSING   .        .        STARTING  CLOSED
CLOSED    CLOSED   CLOSED   CLOSED    CLOSED
"""


def test_every_event_in_every_stage_leads_as_written_here() -> None:
    check_moves(TRANSITIONS, ProcessStage, ProcessEvent, MOVES)
