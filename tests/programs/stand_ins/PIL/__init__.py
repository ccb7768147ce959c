"""Images without files."""
