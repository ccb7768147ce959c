"""``python -m disposescope``: the same as the command ``disposescope``."""

from disposescope.command import main

if __name__ == "__main__":
    # The user's program is `__main__` from now on. The lines of this file do not belong to the user.
    __name__ = "disposescope.__main__"
    main()
