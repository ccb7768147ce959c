"""Start of each Python below ``disposescope run``, which copies this file into a folder of PYTHONPATH.

A process joins the report when it imports a library whose tensors are tracked. Until then it pays for this
file alone. Each version of Python may run the file, also Python 2.
"""

import os
import sys

_LIBRARIES = ("torch", "jax", "cupy")


class _Finder:
    """Lets the process join before the first of the libraries is found, as the other finders find it."""

    def __init__(self, folder):  # type: (str) -> None
        self._folder = folder
        self._has_begun = False

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ARG002
        if self._has_begun or name not in _LIBRARIES:
            return None
        self._has_begun = True
        _join(self._folder)
        from importlib.util import find_spec

        return find_spec(name)  # asks all finders again: joining has put one in front of this one


def _begin():  # type: () -> None
    folder = os.environ.get("DISPOSESCOPE_CHILDREN", "").partition(":")[2]
    # Another run, which started this one, has a folder with another copy of this file.
    if folder and os.path.dirname(_here()) == folder and sys.version_info >= (3, 4):
        sys.meta_path.insert(0, _Finder(folder))


def _join(folder):  # type: (str) -> None
    reason = "Python %d.%d" % sys.version_info[:2]
    is_locked = getattr(sys, "_is_gil_enabled", None)
    try:
        if is_locked is not None and not is_locked():
            reason += " without its global lock, which tracking would turn on"
        elif sys.version_info >= (3, 11):
            reason += " without this disposescope (%s)" % sys.executable
            from importlib import import_module

            import_module("scopes")  # its import joins
            return
    except Exception:  # the program must go on
        pass
    try:
        file = os.open(os.path.join(folder, "not-followed"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (reason + "\n").encode("utf-8", "replace"))
        finally:
            os.close(file)
    except Exception:  # the run has ended
        pass


def _here():  # type: () -> str
    return os.path.dirname(os.path.abspath(__file__))


def _run_the_next():  # type: () -> None
    """Run the ``sitecustomize`` that Python would have found without this one."""
    here = _here()
    sys.path[:] = [folder for folder in sys.path if folder != here]
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this)


if __name__ == "sitecustomize":
    try:
        _begin()
    except Exception:  # the program must go on
        pass
    _run_the_next()
