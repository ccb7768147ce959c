"""``python -m disposescope``: the same as the command ``disposescope``."""

from disposescope.command import main

if __name__ == "__main__":
    # The user's program is `__main__` from now on; the lines of this file are none of the user's.
    __name__ = "disposescope.__main__"
    main()
