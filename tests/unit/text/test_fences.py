"""Code fences are found line by line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.fences import Block, fenced_blocks


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("no fence", []),
        ("```python\nx=1\n```", [Block("python", "x=1", True)]),
        ("Idea:\n```python\nx=\n```\nFinal:\n```py\nx=1\n```\n", [Block("python", "x=", True), Block("py", "x=1", True)]),
        ("```\nx", [Block("", "x", False)]),
        ("````md\n```\ninner\n```\n````", [Block("md", "```\ninner\n```", True)]),
        ("~~~ Python title=x\nx\n~~~", [Block("python", "x", True)]),
        ("```\nx\n~~~\n```", [Block("", "x\n~~~", True)]),
        ('{"a": "```"}', []),
        ("use ```x``` inline", []),
        ("```json {} ```", []),
        ("    ```\nindented code\n    ```", []),
        ("```a\r\nx\r\n```\r\n", [Block("a", "x", True)]),
        ("  ```a\n  x\n    y\n z\n  ```", [Block("a", "x\n  y\nz", True)]),
        ("1. Item\n\n     ```a\n     x\n     ```\n2. Item", [Block("a", "x", True)]),
        ("- Item\n\t```a\n\tx\n\t\ty\n\t```", [Block("a", "x\n\ty", True)]),
        ("- Item\n\n      ```a\n      x\n  ```\nafter", [Block("a", "x", True)]),
        ("```a\n    ```\n```", [Block("a", "    ```", True)]),
        ("1.5 is no item\n\n     ```a\n     x\n     ```", []),
    ],
)
def test_blocks(text: str, blocks: list[Block]) -> None:
    assert list(fenced_blocks(text)) == blocks


@settings(deadline=None)  # the machine may be busy
@given(st.text(st.sampled_from("`~ab\n "), max_size=80))
def test_only_the_last_block_is_unclosed_and_bodies_come_from_the_text(text: str) -> None:
    blocks = fenced_blocks(text)
    assert all(block.closed for block in blocks[:-1])
    lines = [line.strip() for line in text.split("\n")]
    assert all(line.strip() in lines for block in blocks for line in block.body.split("\n") if block.body)
