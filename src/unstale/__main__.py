"""`python -m unstale` is `unstale`."""

import sys

from unstale.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
