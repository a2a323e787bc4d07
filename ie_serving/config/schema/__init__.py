"""All settings together: their order and names, and what is made of their declarations.

A setting is declared on its field (`core/settings/declaration.py`). Of the server those of callers,
limits and the log stand here, all others in `config/settings.py`; those of models, engines and
stores in their options. Made from the declarations:

    the flags of `ie_serving`, their help and checks       dialects/ie_serving.py
    what a flag of the original means, and which setting   dialects/tfs_flags.py, beside the
    it gives                                               original's types and defaults
    the variables, storage's among them                    dialects/environment.py
    the keys of the JSON file                              files/json_file.py
    the tables of docs/reference/settings.md and others    `make configuration`; a test compares
    the names of settings in errors and log lines          core/values/hints.py; all of them:
                                                           tests/unit/test_advice.py
"""
