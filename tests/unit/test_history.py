"""Commits since this rule began: a subject of at most 90 characters, and a body for larger ones."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST = "b78d30134ef1"
"""The last commit that no rule held."""
LONGEST_SUBJECT = 90
LARGE = 40
"""Changed lines from which a commit says why in a body."""


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def commits() -> list[tuple[str, str, int]]:
    """Subject, body and changed lines of each commit since `FIRST`."""
    try:
        text = _git("log", "--numstat", "--no-merges", "--format=%x01%s%x02%b%x03", f"{FIRST}..")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the repository's history")
    found = []
    for commit in text.split("\x01")[1:]:
        message, _, numbers = commit.partition("\x03")
        subject, _, body = message.partition("\x02")
        counts = (line.split("\t")[:2] for line in numbers.split("\n") if line)
        changed = sum(int(count) for pair in counts for count in pair if count != "-")
        found.append((subject, body.strip(), changed))
    return found


def test_subjects_are_short(commits: list[tuple[str, str, int]]) -> None:
    assert not [subject for subject, *_ in commits if len(subject) > LONGEST_SUBJECT]


def test_large_changes_say_why(commits: list[tuple[str, str, int]]) -> None:
    assert not [subject for subject, body, changed in commits if changed > LARGE and not body]
