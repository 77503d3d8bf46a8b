"""`python -m explorer` is `ironworks`."""

import sys

from explorer.cli import main

if __name__ == "__main__":
    sys.exit(main())
