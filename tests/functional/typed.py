"""Pages of commands, typed as they stand.

A block without a language holds commands of a shell. Where its last one starts a server, that goes
on until the next block that starts one, or the end. A block `python` is a program, and a block
`text` what the commands of the block before it print. Changed are only ports, which come from the
system, and lines that install something.
"""

import os
import re
import shlex
import sys
from pathlib import Path

from tests.exporting import export, printed
from tests.functional.servers import LOADED, READY, ROOT
from tests.process import COMMANDS, Process, free_ports, output_of

SERVER = re.compile(r"(ie_serving (--|model |config )|tensorflow_model_server )(?!.*--dry_run)")
PORTS = ("9000", "8000", "8500", "8501")
"""Those that pages name."""
INSTALLS = re.compile(r"^pip install .*\n", re.MULTILINE)
TEXTS = {".md", ".py", ".json", ".ipynb"}


def section(page: str, title: str) -> str:
    """Give what a page says under a heading, without its smaller headings."""
    begin = page.index(f"# {title}\n")
    return page[begin:].partition("\n## ")[0].partition("\n# ")[0]


def blocks(page: str) -> list[tuple[str, str]]:
    """Give language and text of each block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


class Typed:
    """A person who types a page's commands in a folder; `close` ends the server."""

    def __init__(self, folder: Path, origin: Path = ROOT) -> None:
        """Begin.

        Args:
            folder: where the commands are typed.
            origin: the folder of the repository that it is a copy of.
        """
        self.folder, self.origin = folder, origin
        self.server: Process | None = None
        self.printed = ""
        grpc, rest = free_ports(2)
        self.ports = dict(zip(PORTS, (grpc, rest) * 2, strict=True))
        path = f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"
        self._environment = {"PATH": path, "no_proxy": "localhost"}

    def ported(self, text: str) -> str:
        """Give a text with the ports of this test."""
        return re.sub(rf"\b({'|'.join(PORTS)})\b", lambda port: str(self.ports[port[1]]), text)

    def page(self, text: str) -> None:
        """Type all blocks, and compare what they print with what the page says."""
        for language, block in blocks(text):
            if language == "text":
                assert self.printed.strip() == self.ported(block).strip()
            elif language == "python":
                self.printed = self._output(sys.executable, "-c", block)
            elif not language:
                self.type(block)

    def type(self, block: str) -> None:
        """Type the commands of one block."""
        lines = INSTALLS.sub("", self.ported(block)).replace("\\\n", " ").splitlines()
        starts = bool(lines) and SERVER.match(lines[-1]) is not None
        command = lines.pop() if starts else ""
        self.printed = "".join(map(self._printed, _shells(lines)))
        if starts:
            self.start(shlex.split(command))

    def start(self, command: list[str]) -> None:
        """Start a server in the place of the one before, and wait until it is ready."""
        self.close()
        if not any(word.startswith("--port") for word in command):
            command = [*command, f"--port={self.ports[PORTS[0]]}"]
        self.server = Process(*command, cwd=self.folder)
        self.server.line(READY, progress=LOADED)

    def _printed(self, command: str) -> str:
        program = re.fullmatch(r"python (\w+\.py)(.*)", command)
        if program and "import tensorflow" in (self.folder / program[1]).read_text():
            arguments = shlex.split(program[2])
            if arguments:
                return printed(self.folder / program[1], self.folder, *arguments)
            export(self.origin / program[1], self.folder)  # which keeps the models
            return ""
        return self._output("/bin/sh", "-ec", command.replace("curl ", "curl -sf "))

    def _output(self, *command: str) -> str:
        lines = output_of(*command, env=self._environment, cwd=self.folder)
        return "\n".join(lines) + "\n"

    def give_ports(self) -> None:
        """Write the ports of this test into the texts of the folder."""
        for file in self.folder.iterdir():
            if file.suffix in TEXTS:
                file.write_text(self.ported(file.read_text()))

    def close(self) -> None:
        """End the server, if there is one."""
        if self.server:
            self.server.close()


def _shells(lines: list[str]) -> list[str]:
    """Join the commands that one shell can run: all but programs that import TensorFlow, maybe."""
    shells: list[str] = []
    for line in lines:
        alone = line.startswith("python ")
        if shells and not alone and not shells[-1].startswith("python "):
            shells[-1] += f"\n{line}"
        else:
            shells.append(line)
    return shells
