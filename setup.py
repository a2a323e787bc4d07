"""The one build step that needs code: `.proto` files become one set of descriptors.

It runs for wheels, plain and editable installs alike, and writes beside the `.proto` files, where
an editable install looks for it; a wheel takes it along as package data. By hand:
`python setup.py build_protos`.
"""

from importlib.resources import files
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build import build

PROTOS = Path("ie_serving/wire/protobuf/protos")
DESCRIPTORS = PROTOS / "descriptors.binpb"


class BuildProtos(Command):
    """Compile the `.proto` files to one serialized FileDescriptorSet, imports included."""

    description = "compile the .proto files to one set of descriptors"
    user_options: list[tuple[str, str | None, str]] = []  # noqa: RUF012  setuptools reads it
    editable_mode = False

    def initialize_options(self) -> None:
        """Take no options."""
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        """Take no options."""

    def run(self) -> None:
        """Write the descriptors.

        Raises:
            SystemExit: protoc found a fault, which it has printed.
        """
        from grpc_tools import protoc  # a build requirement, absent when setup.py is only read

        code = protoc.main(
            [
                "protoc",
                f"--proto_path={PROTOS}",
                f"--proto_path={files('grpc_tools') / '_proto'}",
                f"--descriptor_set_out={DESCRIPTORS}",
                "--include_imports",
                *self.get_source_files(),
            ]
        )
        if code != 0:
            raise SystemExit(f"protoc failed with exit code {code}; see its message above")

    def get_source_files(self) -> list[str]:
        """List what a source distribution must carry for this step."""
        return sorted(str(path) for path in PROTOS.rglob("*.proto"))

    def get_outputs(self) -> list[str]:
        """List nothing: the output is package data, which `build_py` copies and lists."""
        return []

    def get_output_mapping(self) -> dict[str, str]:
        """Map nothing, for the same reason."""
        return {}


class Build(build):
    """The usual build, after the descriptors."""

    sub_commands = [("build_protos", None), *build.sub_commands]  # noqa: RUF012


setup(cmdclass={"build": Build, "build_protos": BuildProtos})
