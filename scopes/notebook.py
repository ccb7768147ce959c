"""Magics for notebooks: ``%load_ext disposescope``, then ``%%scope`` or ``%%leaks`` at the top of a cell."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from types import CodeType
from typing import Any
from warnings import warn

from scopes.adapters.libraries import loaded, owning
from scopes.core.scope import new_dispose_scope
from scopes.reports.history import History
from scopes.reports.leaks import snapshot
from scopes.reports.runs import record_of
from scopes.tracking.tracking import track

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%scope`` and ``%%leaks`` in `shell`. ``%load_ext disposescope`` calls this."""
    cells = _Cells(shell)
    shell.register_magic_function(cells.scope, "cell", "scope")
    shell.register_magic_function(cells.leaks, "cell", "leaks")


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics. ``%unload_ext disposescope`` calls this."""
    for name in ("scope", "leaks"):
        shell.magics_manager.magics["cell"].pop(name, None)


class _Cells:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def scope(self, line: str, cell: str) -> None:
        """Run the cell in a dispose scope: at its end, tensors that no variable holds are disposed.

        ``%%scope NAME`` sets the scope's name in reports and errors; ``%%scope`` alone uses ``In[3]``.
        Tensors that variables hold stay alive: directly, or in containers, dataclasses, modules and
        optimizers.
        """
        __tracebackhide__ = True  # IPython then shows only the user's frames
        name = line.strip() or f"In[{self._shell.displayhook.prompt_count}]"
        with ExitStack() as blocks:
            for library in loaded():
                try:
                    blocks.enter_context(owning(library))
                except ImportError as unsupported:
                    warn(f"%%scope does not own tensors of {library}: {unsupported}", stacklevel=2)
            scope = blocks.enter_context(new_dispose_scope(name))
            try:
                for code in self._compiled(cell):
                    exec(code, self._shell.user_ns)
            finally:
                if len(scope):
                    scope._hand_out(*self._named())

    def leaks(self, line: str, cell: str) -> None:
        """Run the cell with tracking on, and show the report of ``disposescope run``.

        The report lists the disposables alive at the end by the line that created them, with their holders,
        and the lines that keep more and more memory. If the peak was higher, it lists those alive at the
        peak too. ``%%leaks 3`` records three lines for each disposable: the line, its caller, and the
        caller's caller.
        """
        __tracebackhide__ = True
        depth = line.strip() or "1"
        if not depth.isdecimal() or int(depth) < 1:
            raise ValueError(
                f"%%leaks {depth}: it takes the number of lines to record for each tensor, 1 or more: "
                "write %%leaks 3, or %%leaks alone"
            )
        name = f"In[{self._shell.displayhook.prompt_count}]"
        with track(int(depth)):
            history = History(since=snapshot())
            history.begin()
            try:
                for code in self._compiled(cell):
                    exec(code, self._shell.user_ns)
            finally:
                history.end()
                gc.collect()  # garbage is not a leak
                import_module("IPython.display").display(record_of(history, name))

    def _compiled(self, cell: str) -> Iterator[CodeType]:
        """Yield the code to run. As in IPython, the last expression is shown and stored in ``Out``."""
        shell = self._shell
        # Start on line 2, below the magic, so that line numbers match the cell.
        source = f"\n{shell.transform_cell(cell)}"
        file = shell.compile.cache(source, shell.displayhook.prompt_count, raw_code=cell)
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
        is_shown = tree.body and isinstance(tree.body[-1], ast.Expr)
        if shell.displayhook.semicolon_at_end_of_expression(cell):
            is_shown = False
        last = [tree.body.pop()] if is_shown else []
        for part, kind in ((tree, "exec"), (ast.Interactive(last), "single")):
            if part.body:
                yield shell.compile(part, file, kind)

    def _named(self) -> Iterator[object]:
        """Yield the values of the user's variables, without IPython's own: Out, _, _3 and so on."""
        hidden = self._shell.user_ns_hidden
        for name, value in self._shell.user_ns.items():
            if hidden.get(name, self) is not value:
                yield value
