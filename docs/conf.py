"""How Sphinx makes a site of the pages: `make site`.

The navigation is that of README.md: a section for each kind of page, and in it the pages that it links. Links to files
that are no pages, such as code and examples, become their names: the site is read without a checkout.
"""

import re
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

project = "elasticd"
author = "the authors of elasticd"
html_show_copyright = False
release = version = version_of("elasticd")
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["conf.py"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"elasticd {release}"
html_show_sphinx = False
nitpicky = True

HERE = Path(__file__).parent
KINDS = ("Tutorial", "How-to", "Reference", "Explanation")


def _pages(section: str) -> list[str]:
    """The pages that a section links, in order."""
    links = re.findall(r"\]\(([\w/.-]+?)\)", section)
    names = [f"{link}/*" if (HERE / link).is_dir() else link.removesuffix(".md") for link in links]
    return list(dict.fromkeys(names))


def _navigation(text: str) -> str:
    """The sections of README.md as a tree of pages."""
    trees = []
    for kind in KINDS:
        section = text.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
        names = "\n".join(_pages(section))
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {kind}\n:glob:\n\n{names}\n```\n")
    return "\n".join(trees)


def _adapt(_: Sphinx, page: str, source: list[str]) -> None:
    """Turn a page as it is read in the repository into one of the site."""
    folder = (HERE / page).parent

    def link(match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        path = (folder / target).resolve()
        inside = path.is_relative_to(HERE) and path.is_file()
        return match[0] if "://" in target or not target or inside else match[1]

    text = re.sub(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s]+)\)", link, source[0])
    text = text.replace("```mermaid", "```text")
    source[0] = f"{text}\n{_navigation(source[0])}" if page == root_doc else text


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _adapt)
