"""What a user causes and can mend."""


class UserError(ValueError):
    """Says in one line what is wrong, where, and what to do; the shell door exits with status 2."""


class BudgetTooSmall(UserError):
    """Of a budget that does not hold the least that must be kept. Whoever tries again with it comes
    to the same end."""
