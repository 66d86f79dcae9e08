"""loiter shows what waiting costs: programs on cycle-level models of multithreaded processors."""

from importlib.metadata import version

__version__ = version("loiter")
