"""What mkdocs asks of this site: order of the pages, names of headings, bars in tables."""

import re
from pathlib import Path
from posixpath import normpath
from typing import Any

LIST = "docs/README.md"
"""Its headings are the sections of the site, its links the pages: a page without one is refused."""

CODE = re.compile(r"(`+)[^`].*?\1")


def on_config(config: Any) -> Any:
    text = (Path(config.docs_dir) / LIST).read_text()
    config.nav = [{"ie_serving": "README.md"}, {"All pages": LIST}, *map(section, split(text))]
    config.mdx_configs["toc"] = {"permalink": True, "slugify": slug}
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Write a bar in code of a table without the backslash that GitHub needs there."""
    return re.sub(r"^\|.*", lambda row: CODE.sub(bare, row[0]), markdown, flags=re.MULTILINE)


def bare(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")


def split(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)


def section(part: tuple[str, str]) -> dict[str, list[dict[str, str]]]:
    title, text = part
    links = re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", text)
    return {title: [{name: normpath(f"docs/{file}")} for name, file in links]}


def slug(heading: str, separator: str) -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", separator)
