"""One training loop, its recipes, batched augmentation, device and precision."""
