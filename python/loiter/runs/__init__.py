"""Runs: what is asked of the simulator, the workers that carry it out, and what a person sees meanwhile."""
