"""Builds the wheel and the source distribution into dist/, the same bytes for the same commit.

`python deploy/release.py [FOLDER]` in a clone. The wheel is built from the source distribution, so
that this is known to be complete. Times in both are that of the commit.
"""

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

PROJECT = Path(__file__).parent.parent


def main() -> None:
    """Build, and print the sum of each file as `sha256sum` does."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else PROJECT / "dist")
    committed = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=PROJECT, check=True, capture_output=True
    )
    seconds = int(committed.stdout)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(PROJECT)]
    subprocess.run(command, check=True, env=environment)
    for path in folder.glob("*.tar.gz"):
        _settle(path, seconds)
    for path in sorted(folder.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


def _settle(path: Path, seconds: int) -> None:
    """Write an archive again without what differs from build to build: times, owners, order."""
    with tarfile.open(path) as archive:
        members = sorted(archive.getmembers(), key=lambda each: each.name)
        contents = [archive.extractfile(each) if each.isfile() else None for each in members]
        packed = BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made:
            for member, content in zip(members, contents, strict=True):
                member.mtime, member.uid, member.gid = seconds, 0, 0
                member.uname = member.gname = ""
                member.pax_headers = {}
                made.addfile(member, content)
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=seconds))


if __name__ == "__main__":
    main()
