"""The page of a backtest in a real browser: of the genuine HPA controller's recording, on a desktop and on a phone."""

import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticd.cli import main
from tests.kit.browser import Browser, browser
from tests.lab.test_genuine import RECORDED, write_policies

pytestmark = pytest.mark.e2e

WIDTH = pytest.mark.parametrize("width", [390, 1280])
DARK = pytest.mark.parametrize("dark", [False, True])


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report with three seeds, whose figures have spreads."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "hpa.csv").write_bytes(lzma.decompress(RECORDED.read_bytes()))
    policies, out = write_policies(folder), folder / "report.html"
    words = ["--cpu", "100m", "--start-seconds", "5", "--unserved", "1", "--price", "0.04"]
    load = ("--recording", str(folder / "hpa.csv"))
    assert (
        main(["backtest", *map(str, policies), *load, *words, "--seeds", "3", "--jobs", "1", "--report", str(out)]) == 0
    )
    return out.as_uri()


@WIDTH
@DARK
def test_a_report_fits_into_the_window(window: Browser, page: str, width: int, *, dark: bool) -> None:
    window.look(width, dark=dark)
    window.open(page)
    assert window.run("return document.documentElement.scrollWidth") <= width
    scrolls = '!e.closest(".scroll") || e.closest("td.long")'
    outside = f'[...document.querySelectorAll("main *")].filter(e => {scrolls})'
    assert window.run(f"return {outside}.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length") == 0
    assert window.run((Path(__file__).parent / "contrast.js").read_text()) == []
    assert window.errors() == []


@WIDTH
def test_the_first_screen_says_which_policy_to_take(window: Browser, page: str, width: int) -> None:
    window.look(width)
    window.open(page)
    assert window.text(".answer").startswith("Take step-tolerance.")
    assert window.run('return document.querySelector(".answer").getBoundingClientRect().bottom') < 500


def test_a_desktop_shows_every_figure_with_its_spread(window: Browser, page: str) -> None:
    window.look(1280)
    window.open(page)
    assert window.run("return [...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)")


def test_a_phone_keeps_the_policy_beside_its_figures(window: Browser, page: str) -> None:
    window.look(390)
    window.open(page)
    window.run("document.querySelector('.scroll').scrollLeft = 400")
    assert window.run("return document.querySelector('tbody td').getBoundingClientRect().left") >= 0
