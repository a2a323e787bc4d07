"""Every setting, declared once, and what is made from that.

A declaration holds the field that it fills, the parser that checks it, form and unit, its meaning,
an example, and its name in each dialect.

Made from the declarations:

    the flags of `ie_serving`, their help and checks       dialects/ie_serving.py
    what a flag of the original means, and which setting   dialects/tfs_flags.py, beside the
    it gives                                               original's types and defaults
    the variables, storage's among them                    dialects/environment.py
    the keys of the JSON file                              files/json_file.py
    the tables of docs/reference/settings.md and others    `make configuration`; a test compares
    the names of settings in errors and log lines          core/values/hints.py; all of them:
                                                           tests/unit/test_advice.py
"""
