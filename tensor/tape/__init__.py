"""The tape: nodes, modes of recording, hooks, what a graph keeps, and the rules of derivatives."""
