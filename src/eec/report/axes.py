"""Where the axes of figures and charts begin."""


def percent_floor(values: list[float]) -> float:
    """Where a percentage axis starts: near the lowest value, or at 0 once that is low itself."""
    lowest = min(values)
    if lowest < 35:
        return 0.0
    room = max(0.5, 0.15 * (100 - lowest))
    step = 1 if lowest > 90 else 5
    return float((lowest - room) // step * step)
