"""Tracking: what was created where, and what holds it."""
