"""Which persons an episode holds, by its profile."""

from __future__ import annotations

from recordings.profile import Profile


def persons_of(profile: Profile) -> tuple[str, ...]:
    """Ids or names of those who are heard or seen: the speaker and whoever is staged; sorted."""
    found = {profile.speaker} if profile.speaker else set()
    if profile.staging is not None:
        found |= {placed.person for placed in profile.staging.people}
    return tuple(sorted(found))


def episode_key(profile: Profile) -> str:
    """`<session>/<episode>`: how consent and provenance name an episode."""
    return f"{profile.session}/{profile.id}"
