"""The tape: nodes, recording modes, hooks, statistics of graphs, and the derivative rules."""
