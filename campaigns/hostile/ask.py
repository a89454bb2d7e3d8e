"""``python -m campaigns.hostile.ask MODULE``: all cases for all tasks of a module, as JSON, in this environment."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from campaigns.hostile.cases import CASES, F, N, judged


def main() -> None:
    """Print ``{"versions": ..., "cells": {task: {case: verdict}}}`` on the real standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    module = importlib.import_module(sys.argv[1])
    cells = {}
    for name, bind in module.tasks(N, F).items():
        cells[name] = {case.name: judged(case, _called(bind)) for case in CASES}
    json.dump({"versions": module.versions(), "cells": cells}, answers)
    answers.close()


def _called(bind: Callable[[Any], Callable[[], Any]]) -> Callable[[Any], Any]:
    return lambda rows: bind(rows)()


if __name__ == "__main__":
    main()
