"""`make zoo` fails for a model that is wrong, not for one whose runtime is not installed."""

import pytest

from tests.zoo import __main__ as zoo


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("yes", 0), ("no: output by 1 of 2", 1), ("not judged: the runtime refuses it", 1)],
)
def test_a_model_that_is_not_right_fails(
    verdict: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "_row", lambda *_: zoo.Row(verdict))
    assert zoo.main(["--only", "voice"]) == code


def test_a_model_whose_runtime_is_not_installed_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "find_spec", lambda _: None)
    assert zoo.main(["--only", "voice_jit"]) == 0
    assert "not asked: make drivers installs torch" in capsys.readouterr().out
