"""The documentation site: guides from this folder, a reference from docstrings. ``make docs`` builds it."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from functools import cache
from importlib.metadata import version as version_of
from pathlib import Path
from types import ModuleType
from typing import Any

from pygments.lexers.python import PythonLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

project = "disposescope"
author = "disposescope developers"
copyright = author
version = release = version_of("disposescope")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]
default_role = "code"
# A class handed on by a package is known by its inner name too.
suppress_warnings = ["ref.python"]
python_maximum_signature_line_length = 90

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "alphabetical"
autodoc_typehints_format = "short"
autosummary_generate = False
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "disposescope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_depth": 2,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "back_to_top_button": True,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
# Pages that are alone in their section need no list of it.
html_sidebars = {page: [] for page in ("index", "from_torchsharp")}

# --- The reference: a page for each module, of what its `__all__` lists -------------------------------------

REFERENCE = {
    "scopes": "Scopes, ownership, statistics, leaks",
    "scopes.testing": "Context managers for tests of any framework",
    "scopes.integrations.lightning": "A scope for each step of Lightning",
    "scopes.integrations.transformers": "A scope for each step of Hugging Face's trainer",
    "scopes.integrations.ignite": "A scope for each step of Ignite",
    "scopes.integrations.skorch": "A scope for each step of skorch",
    "scopes.integrations.stable_baselines3": "A scope for each step of Stable-Baselines3",
    "scopes.integrations.accelerate": "A scope for each step of Accelerate",
    "scopes.lowlevel": "For libraries that make disposables of their own",
    "tensor": "Making tensors, and functions over them",
    "tensor.Tensor": "The tensor: its methods, and what it tells about itself",
    "tensor.linalg": "Linear algebra",
    "tensor.fft": "Fourier transforms",
    "tensor.autograd": "Gradients, checkpoints, operations of your own",
    "tensor.autograd.graph": "Hooks on nodes and on saved tensors",
    "tensor.memory": "Measuring and limiting memory",
    "tensor.torch": "PyTorch's functions over the same tensors",
    "tensor.lowlevel": "For libraries that build on tensors",
    "nn": "Modules: layers, losses, containers",
    "nn.functional": "Layers and losses as functions",
    "nn.init": "Initial values of parameters",
    "nn.optim": "Optimizers",
    "nn.optim.lr_scheduler": "Schedules of learning rates",
    "nn.optim.swa_utils": "Averages of a model along its training",
    "nn.data": "Data sets and batches",
    "nn.parallel": "Training by several workers",
    "nn.utils": "Helpers for gradients and parameters",
    "nn.utils.rnn": "Sequences of several lengths",
}


def find(name: str) -> Any:
    """Return the module or class of a page, None for one that needs a library that is not installed."""
    package, _, attribute = name.rpartition(".")
    if attribute.istitle():
        return getattr(importlib.import_module(package), attribute)
    try:
        module = importlib.import_module(name)
        for each in module.__all__:
            getattr(module, each)
    except ModuleNotFoundError:
        return None
    return module


def titled(title: str) -> list[str]:
    return [title, "=" * len(title), ""]


def is_ours(value: object) -> bool:
    return getattr(value, "__module__", "").partition(".")[0] in ("scopes", "tensor", "nn")


def table_of(title: str, names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        f".. rubric:: {title}",
        "",
        ".. autosummary::",
        "   :nosignatures:",
        "",
        *[f"   {n}" for n in names],
        "",
    ]


def page_of_module(name: str, module: ModuleType, places: dict[int, str]) -> list[str]:
    """Return a module's page; what stands on an earlier page (`places`, by the id) is named and linked."""
    classes, functions, others, elsewhere = [], [], [], []
    for each in sorted(module.__all__, key=str.lower):
        value = getattr(module, each)
        if isinstance(value, ModuleType):
            continue
        if not callable(value) or not is_ours(value):
            others.append(each)
        elif (
            f"{name}.{each}" in REFERENCE
            or places.setdefault(id(value), f"{name}.{each}") != f"{name}.{each}"
        ):
            elsewhere.append((each, places[id(value)]))
        else:
            (classes if isinstance(value, type) else functions).append(each)
    lines = [*titled(name), f".. automodule:: {name}", "   :no-members:", ""]
    lines += [*table_of("All classes", classes), *table_of("All functions", functions)]
    if elsewhere:
        lines += [".. rubric:: Also here", ""]
        lines += [f"- ``{each}``: :py:obj:`{place}`" for each, place in elsewhere] + [""]
    if others:
        lines += [".. rubric:: Constants", ""]
        lines += [f"- ``{each}``: ``{shown(getattr(module, each))}``" for each in others] + [""]
    if classes:
        lines += ["Classes", "-------", ""]
    for each in classes:
        taken = signature_in_stub(getattr(module, each))
        lines += [f".. autoclass:: {name}.{each}{taken}", "   :members:", ""]
    if functions:
        lines += ["Functions", "---------", ""]
        lines += [line for each in functions for line in (f".. autofunction:: {name}.{each}", "")]
    return lines


def page_of_class(name: str, cls: type, places: dict[int, str]) -> list[str]:
    places[id(cls)] = name
    members = sorted(m for m in dir(cls) if not m.startswith("_") and inspect.getdoc(getattr(cls, m, None)))
    module = name.rpartition(".")[0]
    lines = [
        *titled(name),
        f".. currentmodule:: {module}",
        "",
        f".. autoclass:: {name}",
        "   :no-members:",
        "",
    ]
    lines += table_of("Methods and attributes", [f"{cls.__name__}.{member}" for member in members])
    lines += ["Members", "-------", ""]
    for member in members:
        value = inspect.getattr_static(cls, member)
        if callable(value) and not inspect.isroutine(value) and hasattr(find(module), member):
            # An operation, which is an object: the function of its name has the documentation.
            lines += [f".. py:method:: {name}.{member}", "", f"   See :py:func:`{module}.{member}`.", ""]
            continue
        kind = "automethod" if callable(getattr(cls, member)) else "autoattribute"
        lines += [f".. {kind}:: {name}.{member}", ""]
    return lines


def shown(value: object) -> str:
    """Return a constant as one line: what it is, for one that is no number or text."""
    text = repr(value)
    return text if len(text) < 60 and " at 0x" not in text else type(value).__name__


@cache
def stub_of(module: str) -> dict[str, ast.FunctionDef]:
    """Return how the classes of a compiled module are made, from the stub beside it."""
    path = (HERE.parent / module.replace(".", "/")).with_suffix(".pyi")
    found: dict[str, ast.FunctionDef] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name in ("__init__", "__new__"):
                    found.setdefault(node.name, inner)
    return found


def signature_in_stub(cls: type) -> str:
    """Return what a compiled class is called with; nothing for others, which say it themselves."""
    made = stub_of(cls.__module__).get(cls.__name__)
    if made is None:
        return ""
    arguments = made.args
    for each in (arguments.posonlyargs, arguments.args):
        each[:] = [argument for argument in each if argument.arg not in ("self", "cls")]
    return f"({ast.unparse(arguments)})"


def write_reference(_app: object) -> None:
    """Write the pages of the reference, those that have changed."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    pages: dict[str, list[str]] = {}
    places: dict[int, str] = {}
    found = {name: value for name in REFERENCE if (value := find(name)) is not None}
    # Classes first: the modules that hand them on link to them.
    for name, value in sorted(found.items(), key=lambda item: not isinstance(item[1], type)):
        pages[name] = (page_of_class if isinstance(value, type) else page_of_module)(name, value, places)
    index = [*titled("Reference"), "All public names, from their docstrings.", ""]
    index += [line for name in found for line in (f":doc:`{name}`", f"    {REFERENCE[name]}.", "")]
    index += [".. toctree::", "   :hidden:", "", *[f"   {name}" for name in found]]
    pages["index"] = index
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, lines in pages.items():
        path, text = folder / f"{name}.rst", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Do what Sphinx calls this for: connect to its events."""
    app.connect("builder-inited", write_reference)
    app.add_lexer("ipython", PythonLexer)
