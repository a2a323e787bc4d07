"""Serves ONNX models by onnxruntime, without its telemetry.

From release 1.32 on its packages for Linux send events of each session to Microsoft, and keep an
identifier of the machine in the user's cache, unless a variable says otherwise before the import.
Source: `Privacy.md` of the package.
"""

import os

# Set before the import, at which the library reads it. A user who sets 0 lets the library send.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
