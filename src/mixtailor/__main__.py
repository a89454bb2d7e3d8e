"""``python -m mixtailor``."""

import sys

from mixtailor.cli import main

if __name__ == "__main__":
    sys.exit(main())
