"""From a judged run to documents for people: pure functions from records to bytes, nothing touches the disk.

`view` computes everything that is shown, `templates/` only places it, `products` renders both and packs the files.
`visible` and `filters` make hostile text harmless, `figures` draws, `tables` writes CSV, `reproduce` writes shell.
"""

from servegate.report.page import Source
from servegate.report.products import render
from servegate.report.reading_page import reading_page

__all__ = ["Source", "reading_page", "render"]
