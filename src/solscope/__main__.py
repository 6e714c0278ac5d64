"""`solscope` and `python -m solscope`: start the program, and end quietly on Ctrl-C."""

import os
import sys


def main() -> None:
    """Run the program. Ctrl-C can come while it is imported, too."""
    try:
        from solscope.cli import main as run_program

        run_program()
    except KeyboardInterrupt:
        sys.stderr.write("solscope: interrupted\n")
        os._exit(130)


if __name__ == "__main__":
    main()
