"""Encodes GetModelStatus, as messages and as JSON for REST.

Source: get_model_status.proto, and the JSON writer of TensorFlow Serving's HTTP handler: field
names as in the proto, 64-bit integers as strings, one space of indentation.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ie_serving.core.values.codes import Code
from ie_serving.core.values.versions import VersionStatus
from ie_serving.wire.protobuf import messages


class StatusEncoder:
    """Encodes the statuses of versions.

    Args of the constructor:
        is_ovms: a version without error or remark has the message "OK", as in OpenVINO Model
            Server; else an empty one, as in TensorFlow Serving and the server of 2020.
    """

    def __init__(self, *, is_ovms: bool = False) -> None:
        self._good = "OK" if is_ovms else ""

    def response(self, statuses: Iterable[VersionStatus]) -> bytes:
        """Serialize a GetModelStatusResponse."""
        response = messages.GetModelStatusResponse()
        for status in statuses:
            shown = response.model_version_status.add(
                version=status.version, state=int(status.state)
            )
            shown.status.error_code = _health(status)
            shown.status.error_message = status.message or self._good
        return bytes(response.SerializeToString())

    def json(self, statuses: Iterable[VersionStatus]) -> bytes:
        """Write the status as JSON."""
        return pretty(self._versions(statuses)).encode() + b"\n"

    def json_of_all(self, models: Mapping[str, Iterable[VersionStatus]]) -> bytes:
        """Write the status of each model by its name, as OpenVINO Model Server's Config Status API.

        On one line: those of a thousand models hold the event loop for 3 ms, and indented for 14.
        """
        shown = {name: self._versions(statuses) for name, statuses in models.items()}
        return json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _versions(self, statuses: Iterable[VersionStatus]) -> dict[str, Any]:
        shown = [
            {
                "version": str(status.version),
                "state": status.state.name,
                "status": {
                    "error_code": _health(status).name,
                    "error_message": status.message or self._good,
                },
            }
            for status in statuses
        ]
        return {"model_version_status": shown}


# TensorFlow Serving answers with the code of the status that ended the load; clients tell failure
# from success by it, and the cause is in the text.
def _health(status: VersionStatus) -> Code:
    return Code.UNKNOWN if status.error else Code.OK


def pretty(value: object) -> str:
    """Write JSON as TensorFlow Serving does: a line for each value, one space of indentation."""
    return json.dumps(value, indent=1, ensure_ascii=False)
