"""A guided recording session over a shooting plan (docs/session.md).

`engine.Session` goes through the items; `terminal` and `web` show it, `operators` answer instead of a person,
`stage` opens rigs and virtual scenes, `checks` look at a take, `recovery` at what a crash left, `journal`
writes what happened.
"""
