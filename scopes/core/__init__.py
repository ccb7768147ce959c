"""The compiled heart: what a scope may own, the scope, the current one, and what is counted."""
