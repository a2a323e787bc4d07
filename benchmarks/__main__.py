"""`python -m benchmarks COMMAND ...`: runs a command inside the driver's environment."""

import os
import sys

from benchmarks.environments import DRIVER, ensure

COMMANDS = {
    "quick": "benchmarks.quick",
    "full": "benchmarks.full",
    "strain": "benchmarks.strain",
    "batching": "benchmarks.batching",
    "stall": "benchmarks.stall",
    "kernels": "benchmarks.kernels",
    "share": "benchmarks.share",
    "workers": "benchmarks.workers",
    "tls": "benchmarks.tls",
    "costs": "benchmarks.costs",
    "protocols": "benchmarks.protocols",
    "fleet": "benchmarks.fleet",
    "shadow": "benchmarks.shadow",
}


def main() -> None:
    """Replace this process by the command, run with the driver's interpreter."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python -m benchmarks {'|'.join(COMMANDS)} [--help]")
    python = str(ensure("driver", DRIVER) / "bin" / "python")
    os.execv(python, [python, "-m", COMMANDS[sys.argv[1]], *sys.argv[2:]])


main()
