"""`python -m servegate` is `servegate`."""

from servegate.cli import main

main()
