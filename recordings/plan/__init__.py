"""The shooting plan: which episodes are to be recorded, where, by whom, and what is said and done."""
