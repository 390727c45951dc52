"""How well and at what cost: measures on plain numbers, so that they run without torch."""
