"""A page of blocks alone, for people who read answers side by side."""

from __future__ import annotations

from servegate.domain.blocks import Block
from servegate.report.blockview import Viewer
from servegate.report.shown import Limits
from servegate.report.templating import blocks_document

MOST_PAIRS = 2_000


def reading_page(title: str, blocks: tuple[Block, ...]) -> bytes:
    """Return a self-contained HTML page."""
    viewer = Viewer(prefix="review", place=0, limits=Limits(blocks=MOST_PAIRS))
    return blocks_document(title, viewer.views(blocks)).encode("utf-8", "replace")
