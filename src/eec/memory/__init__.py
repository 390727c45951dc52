"""What is kept of old classes: the codecs and the episodes they encode, and how far they decay."""
