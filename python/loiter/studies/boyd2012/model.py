"""The Markov model of a ticket lock, as S. Boyd-Wickizer, M. F. Kaashoek, R. Morris and N. Zeldovich describe it in
"Non-scalable locks are dangerous", Linux Symposium 2012.

State k: so many of n cores are at the lock; one has it, the others wait.

    0  --n/a-->  1  --(n-1)/a-->  2   ...   n
       <--------    <------------
        1/s(1)        1/s(2)              s(k) = s + f + c k / 2

A core that works outside comes to the lock after `a` cycles in the mean. A section takes `s`. The release takes the
line from all that wait, whose requests are served one after another, each in `c` cycles: who is next gets it after half
of them. The paper has no `f`: what a hand-over costs that does not grow with those who wait, as the line goes to who
acquires, and to who releases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special


@dataclass(frozen=True)
class Parameters:
    """All of them measured."""

    think_cycles: float
    section_cycles: float
    request_cycles: float
    fixed_cycles: float = 0.0
    """`f`; 0 in the paper's model."""


def throughput(parameters: Parameters, cores: int) -> float:
    """Sections in 1000 cycles, in the steady state."""
    at_lock = np.arange(1, cores + 1)
    fixed = parameters.section_cycles + parameters.fixed_cycles
    service = fixed + parameters.request_cycles * at_lock / 2
    arrival = (cores - at_lock + 1) / parameters.think_cycles
    # Balance: each state is as much more probable than the one before as arrivals are faster than services.
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(arrival * service))])
    probability = special.softmax(logarithms)
    return float(1000 * np.sum(probability[1:] / service))
