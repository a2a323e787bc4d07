"""The library onnxruntime, without its telemetry.

From release 1.32 on its packages for Linux send events of each session to Microsoft, and keep an
identifier of the machine in the user's cache, unless a variable says otherwise before the import.
Source: `Privacy.md` of the package.
"""

import os

# Here: the library reads it at its import. 0 of the user's own lets it send.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

__all__ = ["onnxruntime"]
