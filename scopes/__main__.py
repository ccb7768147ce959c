"""``python -m scopes``: the same as the command ``disposescope``."""

from scopes.command.main import main

if __name__ == "__main__":
    # The user's program becomes `__main__`. Restore this module's name, by which reports skip its lines.
    __name__ = "scopes.__main__"
    main()
