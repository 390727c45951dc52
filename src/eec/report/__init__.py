"""Reads run folders; draws figures, prints tables, writes one HTML page. Needs no torch."""
