"""loiter shows what waiting costs: programs on cycle-level models of multithreaded processors.

`loiter.api` says what there is for Python, all of which is found here too: `loiter.machine`, `loiter.run` and others.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loiter.api import exec, machine, request, run, store_path, study, sweep  # noqa: A004
    from loiter.comparison import Comparison, compare
    from loiter.errors import Fault, InternalFault, RunFault, StoreFault, UserFault
    from loiter.machines import Machine
    from loiter.results import Result

__version__ = version("loiter")

_WHERE = {
    "loiter.api": ("exec", "machine", "request", "run", "store_path", "study", "sweep"),
    "loiter.comparison": ("Comparison", "compare"),
    "loiter.errors": ("Fault", "InternalFault", "RunFault", "StoreFault", "UserFault"),
    "loiter.machines": ("Machine",),
    "loiter.results": ("Result",),
}
__all__ = [
    "Comparison",
    "Fault",
    "InternalFault",
    "Machine",
    "Result",
    "RunFault",
    "StoreFault",
    "UserFault",
    "compare",
    "exec",
    "machine",
    "request",
    "run",
    "store_path",
    "study",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Imports a name on its first use, so that `import loiter` alone loads neither pandas nor the simulator."""
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
