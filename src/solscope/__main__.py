"""`python -m solscope`."""

from solscope.cli import main

main()
