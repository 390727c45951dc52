"""Data sets, readers and the class-incremental stream; import the module that you need."""
