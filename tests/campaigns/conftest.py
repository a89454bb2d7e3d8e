"""The campaigns are a package at the root of the project, which is on no path by itself."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
