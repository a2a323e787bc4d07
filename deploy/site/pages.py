"""What mkdocs asks of this site: the order of the pages, and the names of headings."""

import re
from pathlib import Path
from posixpath import normpath
from typing import Any

LIST = "docs/README.md"
"""Its headings are the sections of the site, its links the pages: a page without one is refused."""


def on_config(config: Any) -> Any:
    text = (Path(config.docs_dir) / LIST).read_text()
    config.nav = [{"ie_serving": "README.md"}, {"All pages": LIST}, *map(section, split(text))]
    config.mdx_configs["toc"] = {"permalink": True, "slugify": slug}
    return config


def split(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)


def section(part: tuple[str, str]) -> dict[str, list[dict[str, str]]]:
    title, text = part
    links = re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", text)
    return {title: [{name: normpath(f"docs/{file}")} for name, file in links]}


def slug(heading: str, separator: str) -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", separator)
