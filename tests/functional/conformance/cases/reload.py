"""HandleReloadConfigRequest: what changes, what is refused, and what serves afterwards."""

from tests.functional.conformance.case import ROOT, Reload, Section

WHOLE = "A change that fails changes nothing; TensorFlow Serving keeps the half."


def config(name: str, *fields: str, path: str = "", platform: str = "tensorflow") -> str:
    """One entry of a ModelConfigList."""
    named = f'model_platform: "{platform}" ' if platform else ""
    return (
        f'config {{ name: "{name}" base_path: "{path or f"{ROOT}/{name}"}" {named}'
        f"{' '.join(fields)} }}"
    ).replace("  ", " ")


def label(name: str, version: int) -> str:
    return f'version_labels {{ key: "{name}" value: {version} }}'


def reload(*configs: str) -> str:
    return f"config {{ model_config_list {{ {' '.join(configs)} }} }}"


ALL = "model_version_policy { all { } }"
WITHOUT_LABELS = reload(config("plus", ALL))
BEFORE = reload(config("plus", ALL, label("stable", 1)))
"""What serves before each row; labels can be assigned to versions that serve already."""

UNCHANGED = ("plus/1", "plus/2", "plus:stable")

RELOAD = Section(
    "4.3 HandleReloadConfigRequest",
    f"""\
The list replaces the whole configuration: models that are not in it are unloaded. The call answers
when every model of the list serves, or with the reason why one does not; then nothing has changed.
As in TensorFlow Serving, versions that another version policy adds to a model load behind the
answer, while the model goes on with what it serves.

Before each row `plus` serves versions 1 and 2, and 1 is labelled `stable`. `{ROOT}` is the
repository. The last column shows what serves afterwards.""",
    [
        Reload(
            id="the same again",
            rule="nothing changes",
            request=BEFORE,
            serves=UNCHANGED,
        ),
        Reload(
            id="add a model",
            rule="it serves when the call answers",
            request=reload(config("plus", ALL, label("stable", 1)), config("two")),
            serves=("plus/2", "two/1"),
        ),
        Reload(
            id="replace a model",
            rule="models that are not in the list are unloaded",
            request=reload(config("two")),
            serves=("two",),
            gone=("plus",),
        ),
        Reload(
            id="remove every model",
            rule="an empty list unloads everything",
            request="config { model_config_list { } }",
            gone=("plus",),
        ),
        Reload(
            id="another path under the same name",
            rule="it is loaded from there",
            request=reload(config("plus", path=f"{ROOT}/two")),
            serves=("plus/1",),
            gone=("plus/2",),
        ),
        Reload(
            id="platform openvino",
            rule="a platform that is registered",
            request=reload(config("two", platform="openvino")),
            serves=("two",),
            deviation="OpenVINO's own formats go by this name; tensorflow takes them too.",
        ),
        Reload(
            id="the deprecated model_type",
            rule="model_type or model_platform",
            request=reload(config("two", "model_type: TENSORFLOW", platform="")),
            serves=("two",),
        ),
        Reload(
            id="another label",
            rule="labels that are not in the list vanish",
            request=reload(config("plus", ALL, label("canary", 2))),
            serves=("plus:canary", "plus/1"),
            gone=("plus:stable",),
        ),
        Reload(
            id="a label that moves",
            rule="to a version that is available",
            request=reload(config("plus", ALL, label("stable", 2))),
            serves=("plus:stable",),
        ),
        Reload(
            id="two labels",
            rule="one version may have several",
            request=reload(config("plus", ALL, label("a", 1), label("b", 1))),
            serves=("plus:a", "plus:b"),
        ),
        Reload(
            id="a label of an unavailable version",
            rule="refused, unless a flag allows it",
            request=reload(config("plus", ALL, label("next", 3))),
            code="FAILED_PRECONDITION",
            phrase="Request to assign label to version 3 of model plus, which is not currently"
            " available for inference",
            serves=UNCHANGED,
            gone=("plus:next",),
        ),
        Reload(
            id="a label that moves to an unavailable version",
            rule="always refused",
            request=reload(config("plus", ALL, label("stable", 3))),
            code="FAILED_PRECONDITION",
            phrase="which is not currently available for inference",
            serves=UNCHANGED,
        ),
        Reload(
            id="a label in the reload that adds its version",
            rule="labels are checked before anything loads",
            request=reload(config("two", label("stable", 1))),
            code="FAILED_PRECONDITION",
            phrase="Request to assign label to version 1 of model two, which is not currently"
            " available for inference",
            serves=UNCHANGED,
            gone=("two",),
        ),
        Reload(
            id="a model that does not load",
            rule="the cause is named",
            request=reload(config("plus", ALL), config("broken")),
            code="UNKNOWN",
            phrase="1 model(s) did not become available: {{{name: broken version: 2} due to error:",
            serves=UNCHANGED,
            gone=("broken",),
            deviation=WHOLE,
        ),
        Reload(
            id="a model without a directory",
            rule="the cause is named",
            request=reload(config("plus", ALL), config("nowhere")),
            code="UNKNOWN",
            phrase="1 model(s) did not become available: {{{name: nowhere}",
            serves=UNCHANGED,
            gone=("nowhere",),
            deviation="TensorFlow Serving waits for ever.",
        ),
        Reload(
            id="one model good, one bad",
            rule="not half applied",
            request=reload(config("two"), config("broken")),
            code="UNKNOWN",
            phrase="1 model(s) did not become available",
            serves=UNCHANGED,
            gone=("two",),
            deviation=WHOLE,
        ),
        *(
            Reload(
                id=what,
                rule=rule,
                request=request,
                code="INVALID_ARGUMENT",
                phrase=phrase,
                serves=UNCHANGED,
            )
            for what, rule, request, phrase in (
                (
                    "an empty request",
                    "only ModelConfigList",
                    "",
                    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only"
                    " ModelConfigList is currently supported",
                ),
                (
                    "a config without a list",
                    "only ModelConfigList",
                    "config { }",
                    "Only ModelConfigList is currently supported",
                ),
                (
                    "a custom config",
                    "only ModelConfigList",
                    'config { custom_model_config { type_url: "a/b" } }',
                    "Only ModelConfigList is currently supported",
                ),
                (
                    "a model twice",
                    "each model once",
                    reload(config("plus"), config("plus")),
                    "Illegal to list model plus multiple times in config list",
                ),
                (
                    "a relative path",
                    "absolute paths or URIs",
                    reload(config("plus", path="models/plus")),
                    "Expected model plus to have an absolute path or URI; got"
                    " base_path()=models/plus",
                ),
                (
                    "no path",
                    "absolute paths or URIs",
                    'config { model_config_list { config { name: "plus"'
                    ' model_platform: "tensorflow" } } }',
                    "Expected model plus to have an absolute path or URI; got base_path()=",
                ),
                (
                    "no platform",
                    "model_type or model_platform",
                    reload(config("plus", platform="")),
                    "Illegal setting neither ModelServerConfig::model_type (deprecated) nor"
                    " ModelServerConfig::model_platform, model name is plus",
                ),
                (
                    "type and platform",
                    "model_type or model_platform",
                    reload(config("plus", "model_type: TENSORFLOW")),
                    "Illegal setting both ModelServerConfig::model_type (deprecated) and"
                    " ModelServerConfig::model_platform, model name is plus",
                ),
                (
                    "another type",
                    "TENSORFLOW only",
                    reload(config("plus", "model_type: OTHER", platform="")),
                    "ModelServerConfig::model_type choice 2 not supported.",
                ),
                (
                    "an unknown platform",
                    "a platform that is registered",
                    reload(config("plus", platform="pytorch")),
                    "Model plus requests unsupported platform pytorch",
                ),
                (
                    "logging",
                    "a logger of the type tfrecord",
                    reload(config("plus", "logging_config { }")),
                    "No request-logger-creator provided.",
                ),
            )
        ),
        Reload(
            id="another platform for a model",
            rule="it cannot change",
            request=reload(config("plus", ALL, platform="openvino")),
            code="INVALID_ARGUMENT",
            phrase="Illegal to change a model's platform. For model plus platform was tensorflow"
            " and new platform requested is openvino",
            serves=UNCHANGED,
        ),
    ],
)

SECTIONS = (RELOAD,)
