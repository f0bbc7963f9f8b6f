"""Costs and miss rates of one configuration, and their ratios to another's: arithmetic only.

By the definitions of Menon et al. 2005, section 4. All that is divided must have been counted in the same seconds.
"""

from __future__ import annotations


def instruction_cost(instructions: float, moved: float) -> float:
    """Instructions for each byte moved to or from the network, or for each request; likewise cycles or CPU seconds.

    Raises `ValueError` if nothing was moved.
    """
    return _per(instructions, moved, "bytes or requests")


def instruction_cost_ratio(instructions: float, throughput: float) -> float:
    """How many times a byte's instructions in A are those in B, from the ratios A / B of instructions and throughput.

    Raises `ValueError` if A has no throughput.

    >>> round(instruction_cost_ratio(instructions=0.6919, throughput=0.6251), 3)
    1.107
    """
    return _per(instructions, throughput, "throughput")


def miss_rate(misses: float, instructions: float) -> float:
    """Misses for each instruction.

    Raises `ValueError` if there were no instructions.
    """
    return _per(misses, instructions, "instructions")


def miss_rate_ratio(misses: float, instructions: float) -> float:
    """How many times A's miss rate is B's, from the ratios A / B of misses and instructions.

    Raises `ValueError` if A has no instructions.
    """
    return _per(misses, instructions, "instructions")


def misses_ratio(miss_rate: float, instructions: float) -> float:
    """How many times A's misses are B's, from the ratios A / B of miss rates and instructions."""
    return miss_rate * instructions


def _per(counted: float, whole: float, what: str) -> float:
    if not whole > 0:
        raise ValueError(f"nothing can be divided by {whole:g} {what}: count while there are some")
    return counted / whole
