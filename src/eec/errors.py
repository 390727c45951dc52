"""The one kind of error that a user causes and can mend."""


class UserError(ValueError):
    """Says in one line what is wrong, where, and what to do; the shell door exits with status 2."""
