"""The status page in a real browser: what is shown at which width, by keys alone, live, and with hostile names."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elasticd.model.actions import Scale
from elasticd.model.listener import PodsWaiting
from elasticd.model.moves import NodeLevel
from elasticd.model.records import Decision
from elasticd.model.reports import HeapPod, Moving, NodeReport, NodeView, PoolReport
from elasticd.model.workload import Failure, Limit, Quality, Ref, Series
from elasticd.telemetry.access import Access
from tests.kit.browser import Browser, browser
from tests.kit.daemons import until
from tests.kit.records import outcome
from tests.kit.sites import METER, Site, moving, site, steady

pytestmark = pytest.mark.e2e

WIDTHS = pytest.mark.parametrize("width", [360, 800, 1280])
WEB = "#/workload/shop/Deployment/web?policy=web"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(window: Browser, tmp_path: Path) -> Iterator[Site]:
    """A page about ten workloads with which nothing is wrong, on a wide screen."""
    window.look(1280)
    with site(tmp_path, decisions=workloads(10)) as shown:
        yield shown
    assert complaints(window) == []


def complaints(window: Browser) -> list[str]:
    """What the browser complains about, but for a page that has ended."""
    return [error for error in window.errors() if "ERR_CONNECTION" not in error and "ERR_INCOMPLETE" not in error]


def workloads(count: int) -> list[Decision]:
    return [steady(f"w-{number:05}", time.time()) for number in range(count)]


def opened(window: Browser, shown: Site, view: str = "") -> None:
    window.open(f"{shown.address}/{view}")
    window.until("document.getElementById('link').dataset.state === 'live'")


def names(window: Browser) -> list[str]:
    """The workloads in sight, from the top."""
    script = "return [...document.querySelectorAll('.workloads .name a')].map(a => a.textContent)"
    return list(window.run(script))


def focus(window: Browser) -> str:
    """The text, label or id of what has the focus."""
    script = "const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent"
    return str(window.run(script))


def trouble(at: float) -> list[Decision]:
    """One workload in each state but steady."""
    stale = Series("cpu", "meter", Quality.STALE)
    return [
        steady("blind", at, verdict="hold", wish=None, blind=True, reason="SeriesUnknown", series=(stale,)),
        steady("failing", at, failures=(Failure("burst", "recommend_replicas", "raised KeyError: 'x'"),)),
        steady("held", at, verdict="hold", wish=None, reason="Frozen", message="annotated elasticd.io/freeze"),
        steady("limited", at, wish=9, reason="ScaleUpLimit", limits=(Limit("Max", "", 1, 3, name="rate", bound=True),)),
        steady("scaling", at, verdict="scale", wish=5, replicas=5),
        steady("late", at - 500),
    ]


@WIDTHS
@pytest.mark.parametrize("count", [10, 10_000])
def test_the_first_screen_says_what_is_wrong_at_each_width(
    window: Browser, tmp_path: Path, width: int, count: int
) -> None:
    window.look(width)
    with site(tmp_path, decisions=[*trouble(time.time()), *workloads(count)]) as shown:
        shown.changes = {"faults": ("shop/web: its namespace is gone",)}
        opened(window, shown)
        window.until("document.querySelectorAll('.alarms li').length === 6")
        first = window.run("return document.querySelector('.alarms li').innerText")
        assert "1 evicted pod not running again" in first
        assert window.run("return document.querySelector('.alarms li').getBoundingClientRect().bottom") < 300
        assert window.run("return document.documentElement.scrollWidth") <= width
        assert names(window)[:5] == ["blind", "failing", "late", "held", "limited"]
        assert len(names(window)) < 60  # only those in sight are made
        assert f"{count + 6} workloads" in window.text()
        assert window.run("return document.title").startswith("(6) Overview")
    assert complaints(window) == []


def test_ten_thousand_workloads_are_filtered_and_scrolled(window: Browser, tmp_path: Path) -> None:
    window.look(1280)
    with site(tmp_path, decisions=workloads(10_000)) as shown:
        opened(window, shown)
        window.until("document.querySelectorAll('.workloads .name a').length > 5")
        window.run("scrollTo(0, document.body.scrollHeight)")
        window.until("[...document.querySelectorAll('.workloads .name a')].at(-1)?.textContent === 'w-09999'")
        window.press("/", *"w-0777")
        window.until("document.getElementById('shown').textContent === '10 of 10000 workloads'")
        assert names(window) == [f"w-0777{digit}" for digit in range(10)]
        took = window.run("""
            const input = document.getElementById('filter'), began = performance.now();
            input.value = 'w-01'; input.dispatchEvent(new Event('input')); return performance.now() - began""")
        assert took < 2000  # milliseconds; 25 on a machine with nothing else to do


def test_thousands_of_things_wrong_are_a_few_lines(window: Browser, page: Site) -> None:
    now = time.time()
    page.decisions = [
        steady(f"w-{number}", now, verdict="hold", wish=None, reason=f"Reason{number % 40}", message=f"of {number}")
        for number in range(4000)
    ]
    opened(window, page)
    window.until("document.querySelectorAll('.alarms li').length === 16")
    assert "100 workloads held" in window.text(".alarms li")
    assert "25 more" in window.run("return document.querySelector('.alarms li:last-child').innerText")


def test_keys_alone_lead_from_what_is_wrong_to_why(window: Browser, page: Site) -> None:
    now = time.time()
    scaled = steady("web", now - 60, verdict="scale", wish=5, replicas=5, reason="cpu above target")
    scaled = replace(scaled, action=Scale(scaled.workload, "uid", "7", 3, 5, "more"))
    page.journaled(
        steady("web", now - 120),
        scaled,
        replace(outcome(now - 59), decision=scaled.id, workload=scaled.workload, policy="web"),
    )
    page.decisions.append(steady("web", now))
    opened(window, page)
    window.until("document.querySelectorAll('.workloads .name a').length === 11")
    window.press("/", "w", "e", "b", "Tab")
    window.until("document.querySelectorAll('.workloads .name a').length === 1")
    window.run("document.getElementById('filter').blur()")
    for _ in range(30):
        window.press("Tab")
        if focus(window) == "web":
            break
    window.press("Enter")
    window.until("document.querySelectorAll('.decisions tbody tr').length === 2")
    assert focus(window) == "main"
    window.press("/")
    assert focus(window) == "ask"
    window.run("document.querySelector('figure').focus()")
    window.press("ArrowLeft")
    window.until("document.querySelector('.panel .headline')?.innerText.includes('3 → 5 replicas')")
    assert "hpa" in window.text(".panel")
    assert "done" in window.text(".panel")
    window.press("ArrowLeft")
    window.until("document.querySelector('.panel .headline')?.innerText.includes('keep 3 replicas')")
    window.press("Escape")
    window.until("document.querySelector('.workloads .name a')")
    assert window.run("return document.getElementById('filter').value") == "web"


def test_arrows_go_through_workloads_and_digits_through_views(window: Browser, page: Site) -> None:
    opened(window, page)
    window.until("document.querySelector('.workloads .name a')")
    window.run("document.querySelector('.workloads .name a').focus()")
    window.press("ArrowDown", "ArrowDown", "ArrowUp")
    assert focus(window) == "w-00001"
    for key, heading in (("2", "Nodes"), ("3", "Moves in flight"), ("4", "Sources"), ("1", "What is wrong")):
        window.press(key)
        window.until("document.querySelector('main h2').textContent === arguments[0]", heading)
    window.press("?")
    window.until("document.getElementById('keys').open")
    window.press("Escape")
    window.until("!document.getElementById('keys').open")


def test_a_change_is_shown_and_announced_as_it_happens(window: Browser, page: Site) -> None:
    opened(window, page)
    window.until("document.querySelector('.calm')?.offsetParent")
    page.tell(trouble(time.time())[0])
    window.until("document.querySelector('.alarms li strong')?.textContent === '1 workload without data'")
    announced = window.run("return document.getElementById('announced').textContent")
    assert announced == "1 workload without data: cpu stale: shop/blind"
    page.changes = {"sources": (replace(METER, health="Connection refused"),), "leading": False, "leader": "b"}
    page.tell(PodsWaiting("film", {"NoRoom": 2}))
    window.until("document.querySelectorAll('.alarms li').length === 4")
    assert window.text("#who") == "standby; b leads"
    page.changes = {}
    page.tell(PodsWaiting("film", {}))
    page.govern(workloads(3))
    window.until("document.querySelector('.calm')?.offsetParent")
    assert names(window) == ["w-00000", "w-00001", "w-00002"]


def test_the_focus_stays_where_it_is_while_rows_change(window: Browser, page: Site) -> None:
    opened(window, page)
    window.until("document.querySelectorAll('.workloads .name a').length === 10")
    window.run("document.querySelectorAll('.workloads .name a')[4].focus()")
    for count in range(3, 6):
        page.tell(*[replace(made, current=count, at=time.time()) for made in page.decisions])
        window.until("document.querySelector('.counts').textContent.startsWith(arguments[0])", str(count))
        assert focus(window) == "w-00004"


HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "a\nb",
    "\u202egnp.exe",
    "\"'><svg onload=window.hacked=1>",
]


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "image", "two lines", "right to left", "attribute"])
def test_hostile_names_and_reasons_are_only_text(window: Browser, page: Site, name: str) -> None:
    made = steady("web", time.time(), verdict="hold", wish=None, reason=name, message=name)
    made = replace(
        made, workload=Ref("shop", "Deployment", name.replace("/", "|")), failures=(Failure(name, name, name),)
    )
    page.journaled(made)
    page.decisions = [made]
    page.changes = {"faults": (name,), "kept": name, "leader": name, "leading": False}
    opened(window, page)
    window.until("document.querySelector('.workloads .name a')")
    shown = window.text()
    assert "\u202e" not in shown
    assert {"script": "<script>", "img": "<img"}.get(name[1:4], "") in shown
    window.click(".workloads .name a")
    window.until("document.querySelector('.decisions tbody tr')")
    window.click(".decisions tbody button")
    window.until("document.querySelector('.panel .headline')")
    assert window.run("return window.hacked") is None
    assert window.run("return document.querySelectorAll('main script, main img').length") == 0


def test_a_workloads_chart_shows_its_past_and_goes_on(window: Browser, page: Site) -> None:
    now = time.time()
    counts = [3, 3, 5, 5, 4, 4]
    past = [
        steady("web", now - 600 + 100 * step, current=count, wish=count, replicas=count, id=f"{step}")
        for step, count in enumerate(counts)
    ]
    scales = steady("web", now - 401, verdict="scale", current=3, wish=5, replicas=5, id="scale", reason="Busy")
    page.journaled(*past[:2], scales, *past[2:])
    page.decisions = [steady("web", now)]
    opened(window, page, WEB)
    window.until("document.querySelectorAll('path.mark').length === 1")
    described = window.run("return document.getElementById('described').textContent")
    assert "between 3 and 5, 4 now, 4 wanted. The count was changed 1 times. cpu is 0.5 now." in described
    page.tell(steady("web", time.time() + 1, verdict="scale", current=4, wish=8, replicas=8))
    window.until("document.querySelectorAll('path.mark').length === 2")
    window.until("document.querySelector('.tiles').innerText.includes('8')")


def test_the_page_tells_why_it_was_so_at_a_time(window: Browser, page: Site) -> None:
    now = time.time()
    page.journaled(steady("web", now - 7200, id="old", reason="LongAgo"), steady("web", now, id="new", reason="Now"))
    page.decisions = [steady("web", now)]
    opened(window, page, WEB)
    window.press("/", *"noon", "Enter")
    window.until("document.querySelector('.error')?.textContent === 'The time must be as 03:12 or 03:12:30.'")
    window.run("document.getElementById('ask').value = ''")
    at = time.strftime("%H:%M", time.localtime(now - 3600))
    window.press(*at, "Enter")
    window.until("document.querySelector('.panel .headline')?.innerText.includes('LongAgo')")


def node(name: str, part: float, state: Any = "level", **more: Any) -> NodeReport:
    used = {"cpu": 4 * part}
    level = NodeLevel(name, state)
    return NodeReport("film", name, "ready", 3, 110, allocatable={"cpu": 4.0}, used=used, level=level, **more)


def test_nodes_are_a_map_of_who_gives_and_takes(window: Browser, page: Site) -> None:
    nodes = (node("hot", 0.97, "gives"), node("warm", 0.8), node("cool", 0.1, "takes"))
    page.pools = [PoolReport("film", "act", nodes, Moving(time.time(), time.time() + 30, "2 pods go"))]
    page.nodes = [NodeView("act", nodes[0], never=(HeapPod("film", "frame-1", "Never", turn=1),), rule="to any pod")]
    page.tell(PodsWaiting("film", {"NoRoom": 2}))
    opened(window, page, "#/nodes")
    window.until("document.querySelectorAll('.tile').length === 3")
    labels = window.run("return [...document.querySelectorAll('.tile')].map(tile => tile.getAttribute('aria-label'))")
    assert labels[0] == "hot: cpu 97%, 3 pods, gives pods away"
    assert labels[2] == "cool: cpu 10%, 3 pods, takes pods"
    window.until("document.querySelector('.sum').textContent.includes('2 pods without a node: 2 NoRoom')")
    window.click(".tile")
    window.until("document.querySelector('.panel table')")
    assert "film/frame-1" in window.text(".panel")
    assert "1. in the eviction order" in window.text(".panel")


def test_a_move_is_shown_step_by_step(window: Browser, page: Site) -> None:
    page.changes = {"moves": (moving("a", "anew", "waiting for a node"), moving("b", "surge", "wait: 2 of 3 ready"))}
    opened(window, page, "#/moves")
    window.until("document.querySelectorAll('.move').length === 2")
    steps = "return [...document.querySelectorAll('.move')[%d].querySelectorAll('li')].map(li => li.dataset.step)"
    assert window.run(steps % 0) == ["done", "done", "now", "later"]
    assert window.run(steps % 1) == ["done", "now", "later", "later"]
    assert window.run("return document.querySelector('[aria-current=step]').textContent").startswith(
        "the copy waits for a node, for 6"
    )
    page.changes = {"moves": (moving("a", "anew", "its name is taken", fault="another pod has its name"),)}
    window.until("document.querySelectorAll('.move').length === 1")
    window.until("document.querySelector('.move').innerText.includes('another pod has its name')")
    assert window.run(steps % 0) == ["now"]


def test_sources_and_plugins_are_shown_with_their_health(window: Browser, page: Site) -> None:
    page.changes = {"sources": (METER, replace(METER, name="broker", health="Connection refused", age=None))}
    page.decisions.append(trouble(time.time())[1])
    opened(window, page, "#/sources")
    window.until("document.querySelectorAll('.sources tbody tr').length === 2")
    assert "✕ Connection refused" in window.text(".sources")
    window.until("document.querySelector('.alarms li')?.textContent.includes('burst fails for 1 workload')")
    window.until("document.querySelector('main').innerText.includes('the HPA')")


BROKEN = """
const broken = [], range = document.createRange();
for (const cell of document.querySelectorAll(arguments[0])) {
  const text = cell.firstChild;
  for (const word of text?.data?.matchAll(/[A-Za-z]+/g) ?? []) {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    if (range.getClientRects().length > 1) broken.push(word[0]);
  }
}
return broken;
"""
"""The words that go on in another line, of the cells that a selector names."""


@WIDTHS
def test_no_word_of_sources_and_plugins_is_broken(window: Browser, page: Site, width: int) -> None:
    name = "resource-metrics"
    page.changes = {"sources": (replace(METER, name=name, health="queue_length: no reading has come"),)}
    opened(window, page, "#/sources")
    window.look(width)
    window.until("document.querySelectorAll('.sources tbody tr').length === 1")
    window.until("document.querySelectorAll('.plugins tbody tr').length > 0")
    assert window.run(BROKEN, ".sources th, .sources td, .plugins th, .plugins td") == []
    assert window.run("return document.documentElement.scrollWidth") <= width


def test_a_reader_without_a_token_is_asked_for_it(window: Browser, tmp_path: Path) -> None:
    with site(tmp_path, Access(lambda: "correct-horse-battery"), decisions=workloads(1)) as shown:
        window.open(f"{shown.address}/")
        window.until("document.getElementById('token').open")
        window.press(*"wrong", "Enter")
        window.until("document.getElementById('token-why').textContent === 'this token does not count'")
        window.until("document.getElementById('token').open")
        window.run("document.getElementById('token-text').value = ''")
        window.press(*"correct-horse-battery", "Enter")
        window.until("document.querySelector('.workloads .name a')")
    window.errors()  # of the answers that refused


def test_a_lost_daemon_is_told_and_found_again(window: Browser, page: Site) -> None:
    opened(window, page)
    window.until("document.querySelector('.workloads .name a')")
    page.stop()
    window.until("document.querySelector('.alarms li strong')?.textContent === 'Connection lost'")
    assert window.text("#link") == "connection lost"


def test_a_page_that_nobody_sees_holds_no_connection(window: Browser, page: Site) -> None:
    opened(window, page)
    assert page.events.readers == 1
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    window.run(f"{hide} document.dispatchEvent(new Event('visibilitychange'))", True)
    until(lambda: page.events.readers == 0)
    page.govern(workloads(3))
    window.run(f"{hide} document.dispatchEvent(new Event('visibilitychange'))", False)
    window.until("document.querySelectorAll('.workloads .name a').length === 3")
    assert window.text("#link") == "live"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read_against_its_ground(window: Browser, page: Site, dark: bool) -> None:
    window.look(1280, dark=dark)
    page.decisions += trouble(time.time())
    opened(window, page)
    window.until("document.querySelectorAll('.alarms li').length === 5")
    ground = window.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(15, 18, 22)") == dark
    assert window.run((Path(__file__).parent / "contrast.js").read_text()) == []


NAMELESS = """
return [...document.querySelectorAll('button, input, select, a')].filter(e => e.offsetParent && !(e.textContent.trim()
    || e.getAttribute('aria-label') || (e.id && document.querySelector(`label[for=${e.id}]`)))).map(e => e.outerHTML)
"""


@pytest.mark.parametrize("view", ["", "#/nodes", "#/moves", "#/sources", WEB])
def test_a_screen_reader_finds_names_heads_and_landmarks(window: Browser, page: Site, view: str) -> None:
    page.journaled(steady("web", time.time()))
    page.decisions.append(steady("web", time.time()))
    opened(window, page, view)
    assert window.run(NAMELESS) == []
    assert window.run("return [...document.querySelectorAll('header, main, nav[aria-label]')].length") == 3
    tables = "[...document.querySelectorAll('table')]"
    assert window.run(f"return {tables}.filter(t => !(t.caption && t.querySelector('th[scope=col]'))).length") == 0
    levels = window.run(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].filter(e => e.offsetParent).map(e => +e.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
