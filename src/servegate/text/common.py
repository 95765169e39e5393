"""Where two texts part."""

from __future__ import annotations


def common_start(left: str, right: str) -> int:
    """Return the number of equal characters at the start, by halving: comparing slices is fast, a loop is not."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
