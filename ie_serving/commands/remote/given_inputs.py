"""Reads a file as a request: JSON as the REST API takes it, or arrays by the names of inputs."""

import base64
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any, Final

from ie_serving.commands.remote.failures import CommandMisused
from ie_serving.commands.remote.given_request import GivenRequest

STANDARD: Final = "-"
"""Name of standard input."""
FORMATS: Final = ("json", "npy", "npz", "csv", "image")
BY_SUFFIX: Final = {
    ".json": "json",
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"), "image"),
}


def read(file: str, form: str | None, name: str, signature: str) -> GivenRequest:
    """Read a file, or standard input.

    Args:
        file: its path, or `-`.
        form: one of `FORMATS`; None derives it from the path.
        name: name of the input that gets the array, table or image; empty for the only input.
        signature: name of the signature; empty for the default, or for the one that JSON names.

    Raises:
        CommandMisused: the file cannot be read, or does not have this form.
    """
    form = form or _form_of(file)
    data = _bytes_of(file)
    if form in ("npy", "npz"):
        from ie_serving.commands.remote.arrays import read_arrays

        return GivenRequest(None, read_arrays(file, data, name))
    if form == "json":
        if name:
            raise CommandMisused(
                "--input is for arrays, tables and images; JSON names its inputs itself"
            )
        return GivenRequest(_with_signature(file, data, signature))
    if form == "image":
        return GivenRequest(_body([_image(data, name)], signature), image=(name, data))
    return GivenRequest(_body(_table(file, data, name), signature))


def _form_of(file: str) -> str:
    if file == STANDARD:
        return "json"
    found = BY_SUFFIX.get(Path(file).suffix.lower())
    if found is None:
        raise CommandMisused(f"--file {file}: its name does not say what it is; say it by --format")
    return found


def _bytes_of(file: str) -> bytes:
    if file == STANDARD:
        if sys.stdin.isatty():
            print(
                "ie_serving: reads the request from the terminal; Ctrl-D ends it", file=sys.stderr
            )
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CommandMisused(f"--file {file} cannot be read: {error.strerror}") from None


def _with_signature(file: str, data: bytes, signature: str) -> bytes:
    if not signature:
        return data
    try:
        document = json.loads(data)
    except ValueError as error:
        raise CommandMisused(
            f"--file {file} is no JSON; expected a body of :predict: {error}"
        ) from None
    if not isinstance(document, dict) or document.get("signature_name", signature) != signature:
        raise CommandMisused(
            f'--file {file} does not ask for the signature "{signature}": change one'
        )
    return json.dumps({"signature_name": signature, **document}).encode()


def _body(rows: list[Any], signature: str) -> bytes:
    named = {"signature_name": signature} if signature else {}
    return json.dumps({**named, "instances": rows}).encode()


def _image(data: bytes, name: str) -> Any:  # noqa: ANN401  a row of JSON
    value = {"b64": base64.b64encode(data).decode()}
    return {name: value} if name else value


def _table(file: str, data: bytes, name: str) -> list[Any]:
    """Read rows of numbers for one input; with a header, read a column for each input."""
    try:
        text = data.decode("utf-8-sig")
        lines = [line for line in csv.reader(io.StringIO(text), _dialect(file, text)) if line]
    except (ValueError, csv.Error) as error:
        raise CommandMisused(
            f"--file {file} cannot be read; expected a table in UTF-8: {error}"
        ) from None
    if not lines:
        raise CommandMisused(f"--file {file} has no rows; expected one or more")
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines[0]):
            raise CommandMisused(
                f"--file {file}: row {number} has {len(line)} columns, and the first"
                f" {len(lines[0])}: give all the same number"
            )
    head = [_cell(cell) for cell in lines[0]]
    if all(isinstance(cell, str) for cell in head):
        return _columns(file, lines, name)
    rows = [[_cell(cell) for cell in line] for line in lines]
    return [{name: row} for row in rows] if name else rows


def _columns(file: str, lines: list[list[str]], name: str) -> list[Any]:
    head, rows = lines[0], lines[1:]
    if not rows:
        raise CommandMisused(f"--file {file} has a line of names; expected rows below it")
    if name:  # the header names features, and all of them form one input
        return [{name: [_cell(cell) for cell in row]} for row in rows]
    return [dict(zip(head, map(_cell, row), strict=True)) for row in rows]


def _dialect(file: str, text: str) -> type[csv.Dialect] | csv.Dialect:
    if file.lower().endswith(".tsv"):
        return csv.excel_tab
    first = text.partition("\n")[0]
    if ";" in first and "," not in first:
        # Spreadsheets separate by semicolons where the comma is a decimal sign.
        return type("Semicolons", (csv.excel,), {"delimiter": ";"})
    return csv.excel


def _cell(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
