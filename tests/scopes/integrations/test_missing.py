"""Without its framework, a module of ``scopes.integrations`` names the command that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

COMMANDS = {
    "accelerate": "pip install accelerate",
    "ignite": "pip install pytorch-ignite",
    "lightning": "pip install lightning",
    "skorch": "pip install skorch",
    "stable_baselines3": "pip install stable-baselines3",
    "transformers": "pip install 'transformers[torch]'",
}

PROGRAM = """
import importlib, sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == {framework!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
try:
    importlib.import_module("scopes.integrations.{framework}")
except ImportError as error:
    print(error)
print(*{{name.partition(".")[0] for name in sys.modules}} & {others!r})
"""


@pytest.mark.parametrize(("framework", "command"), COMMANDS.items())
def test_the_error_names_the_command_and_no_other_framework_is_loaded(framework: str, command: str) -> None:
    program = PROGRAM.format(framework=framework, others=set(COMMANDS))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    text, others = done.stdout.split("\n")[:2]
    assert text.endswith(f"which is not installed: {command}")
    assert others == ""
