"""What docs/rebalance.md shows of a pool is what is printed."""

from pathlib import Path

from tests.kit.pool_scenes import shown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rebalance.md"


async def test_the_page_shows_what_is_printed() -> None:
    assert f"```text\n{await shown()}\n```" in PAGE.read_text()
