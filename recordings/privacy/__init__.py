"""Copies in which faces and voices are changed; what cannot be shown to be safe is not written."""
