"""The heart: scopes, what they own, the scope that is current, and the counters."""
