"""How to install an optional library."""


def how_to_install(extra: str) -> str:
    """Return what to do if a library of an extra is missing. No package index has this library yet.

    Examples
    --------
    >>> from scopes._shared.extras import how_to_install
    >>> how_to_install("plot")
    "run pip install '.[plot]' in a clone of disposescope"
    """
    return f"run pip install '.[{extra}]' in a clone of disposescope"
