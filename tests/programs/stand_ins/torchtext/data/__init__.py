"""Sentences of words drawn at random."""
