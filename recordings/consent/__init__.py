"""Who agreed to what, until when, and how everything of a person is found and deleted."""
