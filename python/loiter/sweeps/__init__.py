"""Sweeps: one program over a grid of parameters, each point a run in the store, all points rows of one table."""
