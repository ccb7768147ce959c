"""Runs the cells that come as JSON on the standard input, in a shell of IPython in this process."""

from __future__ import annotations

import json
import sys

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

if __name__ == "__main__":
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    for cell in json.load(sys.stdin):
        shell.run_cell(cell, store_history=True)
