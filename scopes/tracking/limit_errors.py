"""The error for an exceeded limit. It gives the scope, the limit, the new total and the largest members."""

from __future__ import annotations

from scopes._shared.sizes import format_bytes
from scopes.core.errors import ScopeLimitError
from scopes.tracking.tracking import record_of

_ADVICE = (
    "Nothing has changed. Dispose what is not needed, move results out (scope.move_to_outer(x)), work on "
    "smaller parts, or give the scope a larger {}"
)
_MAX_NAMED = 5


def refusal(
    name: str | None,
    limit: int | None,
    max_members: int | None,
    nbytes: int,
    count: int,
    newcomers: list[object],
    sizes: list[int],
    members: list[tuple[int, object]],
) -> ScopeLimitError:
    """Return the error for `newcomers`, which exceed the limit together with `members`."""
    scope = "the scope" if name is None else f"the scope {name!r}"
    coming = _described(newcomers[0], sizes[0]) if len(newcomers) == 1 else f"{len(newcomers):,} more"
    if limit is not None and nbytes > limit:
        figure, most, would_be, parameter = "bytes", limit, nbytes, "limit"
        text = f"{scope} may own {format_bytes(limit)}, but would own {format_bytes(nbytes)} with {coming}."
    else:
        assert max_members is not None
        figure, most, would_be, parameter = "members", max_members, count, "max_members"
        plural = "" if max_members == 1 else "s"
        text = f"{scope} may own {max_members:,} member{plural}, but would own {count:,} with {coming}."
    members.sort(key=lambda member: -member[0])
    largest = tuple(_described(x, size) for size, x in members[:_MAX_NAMED] if x is not None)
    if largest:
        text += f" Its largest members: {'; '.join(largest)}."
    return ScopeLimitError(
        f"{text} {_ADVICE.format(parameter)}",
        scope_name=name,
        figure=figure,
        limit=most,
        would_be=would_be,
        largest=largest,
    )


def _described(x: object, nbytes: int) -> str:
    """Return `x` in words: its class, shape and dtype, its size, and its creation line if that is known."""
    words = [type(x).__name__]
    for name in ("shape", "dtype"):
        try:
            value = getattr(x, name, None)
        except Exception:  # noqa: BLE001  # a user's property, or a tensor just disposed elsewhere
            value = None
        if value is not None:
            words.append(str(tuple(value)) if name == "shape" and isinstance(value, tuple) else str(value))
    text = f"a {' '.join(words)} of {format_bytes(nbytes)}"
    record = record_of(x)
    return text if record is None else f"{text} ({record.site})"
