"""How to learn: the contract, and one file a method."""
