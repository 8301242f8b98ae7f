"""Draws the pictures of papers into a folder, a file for each.

Knows which charts belong to one picture; knows nothing of what they show.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from elasticd.base.errors import ConfigError
from elasticd.lab.charts import Chart
from elasticd.lab.papers import Reproduction
from elasticd.lab.plot import draw, load_matplotlib
from elasticd.lab.series import check_new, save


def check_folder(folder: Path, *, option: str) -> None:
    """Refuse a folder in which nothing could be drawn, before anything is measured. Raises ConfigError."""
    load_matplotlib(option)
    if not folder.is_dir():
        raise ConfigError("", option, f'must be a folder that is there, is "{folder}"')


def pictures(paper: Reproduction) -> Mapping[str, Sequence[Chart]]:
    """The charts of each picture, from the top down, by the picture's name."""
    names = dict.fromkeys(chart.picture for chart in paper.charts if chart.picture)
    return {name: [chart for chart in paper.charts if chart.picture == name] for name in names}


def save_pictures(folder: Path, papers: Sequence[Reproduction], form: str, *, force: bool) -> None:
    """Draw all pictures as png or svg. Raises ConfigError for a file that is there already, unless `force`."""
    drawn = {folder / f"{name}.{form}": charts for paper in papers for name, charts in pictures(paper).items()}
    for path in drawn:
        check_new(path, force=force, option="--plot")
    for path, charts in drawn.items():
        save(path, draw(charts, form))
