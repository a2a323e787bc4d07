"""Writes the tables of docs/ that come from declarations.

What stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` comes from the declarations of
settings on their fields and, of built-in steps, in `ie_serving/engines/steps/registry.py`;
everything else is written by hand. `make configuration`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from ie_serving.config.dialects import ovms, own_flags
from ie_serving.config.dialects.tensorflow_model_server import ENTRY_POINT_VARIABLES
from ie_serving.config.dialects.tfs_flags import FLAGS as TFS_FLAGS
from ie_serving.config.dialects.tfs_flags import TfsFlag
from ie_serving.config.files.json_file import TOP_KEYS
from ie_serving.config.schema import foreign
from ie_serving.config.schema.catalogue import MODEL, OF_STORE, SERVER, SETTINGS, TUNE
from ie_serving.core.settings.declaration import Setting
from ie_serving.core.values.hints import Hint
from ie_serving.engines.steps.declaration import REQUIRED, BuiltInStep, Option, StepInputs
from ie_serving.engines.steps.registry import TABLE as STEPS
from tests.unit.config.migration import document as migration

DOCS = Path(__file__).parents[3] / "docs"
FILES = (
    DOCS / "reference" / "settings.md",
    DOCS / "reference" / "setting-names.md",
    DOCS / "reference" / "tensorflow-model-server.md",
    DOCS / "guide" / "configuration.md",
    DOCS / "guide" / "stores.md",
    DOCS / "guide" / "tuning.md",
    DOCS / "guide" / "graphs.md",
    DOCS / "guide" / "migration-tensorflow-serving.md",
    DOCS / "guide" / "migration-openvino-model-server.md",
    DOCS / "guide" / "migration-ie-serving-2020.md",
)
WORDS = own_flags.names("model")


def code(*texts: str) -> str:
    return ", ".join(f"`{text}`" for text in texts if text)


def flag(name: str) -> str:
    return code(f"--{name}") if name else ""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def model() -> str:
    head = ("key", "flag", "value", "default", "meaning", "example")
    return table(
        head,
        (
            (
                code(each.key),
                flag(each.flag),
                code(each.form),
                each.shown_default,
                each.meaning,
                code(each.example),
            )
            for each in MODEL
        ),
    )


def flags(settings: Iterable[Setting]) -> str:
    rows = (
        (flag(s.flag), code(s.form), s.shown_default, s.meaning, code(s.example)) for s in settings
    )
    return table(("flag", "value", "default", "meaning", "example"), rows)


def variables() -> str:
    rows = (
        (code(*each.variables), flag(each.flag), code(variable_example(each)))
        for each in SERVER
        if each.variables
    )
    return table(("variable", "as", "example"), rows)


def variable_example(setting: Setting) -> str:
    """A value of the variable, which in 2020 named a function where the setting is a boolean."""
    is_function = setting.name == "server.tensor_content"
    return "_prepare_output_as_AppendArrayToTensorProto" if is_function else setting.example


def store(settings: Iterable[Setting]) -> str:
    rows = (
        (", else ".join(map(code, s.variables)), code(s.form), s.shown_default, s.meaning)
        for s in settings
    )
    return table(("variable", "value", "default", "meaning"), rows)


def tensorflow_model_server() -> str:
    rows = (
        (flag(f.name), f.kind, tfs_default(f), f.meaning or "accepted without effect")
        for f in TFS_FLAGS
    )
    return table(("flag", "type", "default", "meaning"), rows)


def tfs_default(each: TfsFlag) -> str:
    text = str(each.default).lower() if each.kind == "bool" else str(each.default)
    return code(text) if text else "none"


def names() -> str:
    """The same setting under each command, in the file and in the environment."""
    head = ("setting", "`ie_serving`", "`tensorflow_model_server`", "JSON", "environment", "OVMS")
    rows = (
        (
            s.name,
            flag(s.flag),
            flag(s.tfs),
            code(s.key),
            code(*s.variables),
            code(*s.ovms),
        )
        for s in SETTINGS
        if s.flag or s.key
    )
    return table(head, rows)


def advice(meanings: Mapping[str, Hint], dashes: str = "") -> Iterable[tuple[str, ...]]:
    return ((code(dashes + name), hint.said(WORDS)) for name, hint in meanings.items())


def pairs(meanings: Mapping[str, str], dashes: str = "") -> Iterable[tuple[str, ...]]:
    return ((code(dashes + name), meaning) for name, meaning in meanings.items())


def steps() -> str:
    """The built-in steps of graphs."""
    rows = (
        (
            code(name),
            row.about,
            f"{listed(row.inputs)} or {listed(row.instead)}" if row.instead else listed(row.inputs),
            step_outputs(row),
            code(*row.options),
        )
        for name, row in STEPS.items()
    )
    options = (
        (code(name), code(key), option.form, default_of(option))
        for name, row in STEPS.items()
        for key, option in row.options.items()
    )
    shown = table(("`use`", "does", "inputs", "gives", "`with`"), rows)
    taken = table(("`use`", "`with`", "value", "default"), options)
    return "\n".join([shown, "", "What each option takes, and its default:", "", taken])


def listed(inputs: StepInputs) -> str:
    """Name inputs; those that may be left out in brackets."""
    named = (f"[{code(n)}]" if each.optional else code(n) for n, each in inputs.items())
    return ", ".join(named) or "any"


def step_outputs(row: BuiltInStep) -> str:
    if row.rest:
        return code(*row.outputs({})) or "what it takes"
    given = {name: each.default for name, each in row.options.items()}
    example = {"height": 1, "width": 1, "names": {"NAME": 0}}
    options = {**given, **{name: example[name] for name in example if name in given}}
    return code(*row.signature(dict.fromkeys(row.inputs), options).outputs)


def default_of(option: Option) -> str:
    default = option.default
    if default is REQUIRED:
        return "required"
    if isinstance(default, re.Pattern):
        default = default.pattern
    elif isinstance(default, tuple):
        default = default[0] if default else ""
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return code(text) if text else "none"


TABLES: Mapping[str, Callable[[], str]] = {
    "model": model,
    "top keys": lambda: table(("key", "meaning"), pairs(TOP_KEYS)),
    "foreign keys": lambda: code(*sorted(foreign.MODEL_KEYS | foreign.TOP_KEYS)) + ".",
    "refused keys": lambda: table(("key", "why"), advice(foreign.REFUSED_KEYS)),
    "server": lambda: flags(SERVER),
    "tune": lambda: flags(TUNE),
    "aliases": lambda: table(("flag", "meaning"), pairs(ovms.ALIASES, "--")),
    "foreign flags": lambda: table(("flag", "instead"), advice(foreign.FLAGS, "--")),
    "variables": variables,
    "foreign variables": lambda: table(("variable", "instead"), advice(foreign.VARIABLES)),
    "tensorflow_model_server": tensorflow_model_server,
    "entry point": lambda: table(("variable", "meaning"), pairs(ENTRY_POINT_VARIABLES)),
    "names": names,
    "steps": steps,
    **migration.TABLES,
    **{name: partial(store, settings) for name, settings in OF_STORE.items()},
}


def written(text: str) -> str:
    """Give `text` with every table as it is to be."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        block = f"{begin}\n{make()}\n{end}"
        text = re.sub(f"{begin}.*?{end}", lambda _, block=block: block, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    for file in FILES:
        file.write_text(written(file.read_text()))
